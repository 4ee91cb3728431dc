"""The metric code_eval of the hub, with every program run in the sandbox.

The package evaluate, which takes long to import, is imported where programs may be run: few tasks need it.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import comb
from typing import Any
from unittest.mock import patch

from wina_core.compute.evaluation.sandbox import Limits, Outcome, run_confined

_NAME = "code_eval"


class CodeEval:
    """What tasks such as humaneval use of `evaluate.load("code_eval")`."""

    def compute(
        self,
        references: Sequence[str],
        predictions: Sequence[Sequence[str]],
        k: int | Sequence[int] = (1, 10, 100),
        **limits: Any,
    ) -> tuple[dict[str, float], dict[int, list[tuple[int, dict[str, Any]]]]]:
        """Estimates of pass@k for each k that no task has fewer candidates than, and every candidate's outcome by
        task.

        `references` holds a task's tests, `predictions` its candidate programs; each is run once, followed by the
        tests. Of the metric's other arguments `timeout` is taken, in seconds of processor time, `num_workers` ignored.
        Raises WinaError where programs cannot be confined.
        """
        confines = Limits(seconds=max(1, round(limits["timeout"]))) if "timeout" in limits else Limits()
        outcomes = [
            [run_confined(f"{candidate}\n{tests}", confines) for candidate in candidates]
            for tests, candidates in zip(references, predictions, strict=True)
        ]
        estimates = {
            f"pass@{most}": sum(pass_at_k(len(task), sum(each.passed for each in task), most) for task in outcomes)
            / len(outcomes)
            for most in ([k] if isinstance(k, int) else k)
            if all(len(task) >= most for task in outcomes)
        }
        return estimates, {number: _told(number, task) for number, task in enumerate(outcomes)}


def pass_at_k(n: int, passed: int, k: int) -> float:
    """The unbiased estimate of the chance that one of k candidates passes, of n of which `passed` do:
    1 - C(n - passed, k) / C(n, k) (Chen et al. 2021, "Evaluating Large Language Models Trained on Code", eq. 1)."""
    return 1.0 - comb(n - passed, k) / comb(n, k)


@contextmanager
def sandboxed() -> Iterator[None]:
    """Within: whoever loads code_eval gets the one here, without a download."""
    import evaluate

    load: Callable[..., Any] = evaluate.load
    with patch.object(evaluate, "load", lambda path, *a, **kw: CodeEval() if path == _NAME else load(path, *a, **kw)):
        yield


def runs_in_sandbox(function: Any) -> bool:
    """Whether the module of a task's metric function runs programs by the code_eval here, and by nothing else's."""
    import evaluate

    held = getattr(function, "__globals__", {}).values()
    ours = any(isinstance(value, CodeEval) for value in held)
    return ours and not any(isinstance(value, evaluate.EvaluationModule) for value in held)


def _told(task: int, outcomes: Sequence[Outcome]) -> list[tuple[int, dict[str, Any]]]:
    return [
        (number, {"task_id": task, "passed": each.passed, "result": each.result, "completion_id": number})
        for number, each in enumerate(outcomes)
    ]
