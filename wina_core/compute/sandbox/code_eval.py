"""The hub's metric code_eval, with every program run in the sandbox.

The package evaluate takes long to import, so it is imported only where programs may run.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import comb
from typing import Any

from wina_core.compute.hooks import attributes
from wina_core.compute.sandbox.runner import Limits, Outcome, run_confined

_NAME = "code_eval"


class CodeEval:
    """The interface of `evaluate.load("code_eval")` that tasks such as humaneval use."""

    def compute(
        self,
        references: Sequence[str],
        predictions: Sequence[Sequence[str]],
        k: int | Sequence[int] = (1, 10, 100),
        **limits: Any,
    ) -> tuple[dict[str, float], dict[int, list[tuple[int, dict[str, Any]]]]]:
        """Run every candidate and its task's tests; return pass@k for each possible k, and outcomes by task.

        `references` holds each task's tests, `predictions` its candidate programs. `timeout` is in seconds of
        processor time; `num_workers` is ignored. Raises WinaError if programs cannot be confined.
        """
        confines = Limits(seconds=max(1, round(limits["timeout"]))) if "timeout" in limits else Limits()
        outcomes = [
            [run_confined(candidate, tests, confines) for candidate in candidates]
            for tests, candidates in zip(references, predictions, strict=True)
        ]
        estimates = {
            f"pass@{most}": sum(pass_at_k(len(task), sum(each.passed for each in task), most) for task in outcomes)
            / len(outcomes)
            for most in ([k] if isinstance(k, int) else k)
            if all(len(task) >= most for task in outcomes)
        }
        return estimates, {number: _labelled(number, task) for number, task in enumerate(outcomes)}


def pass_at_k(n: int, passed: int, k: int) -> float:
    """Estimate the chance that one of k candidates passes if `passed` of n do: 1 - C(n - passed, k) / C(n, k).

    Unbiased (Chen et al. 2021, "Evaluating Large Language Models Trained on Code", eq. 1).
    """
    return 1.0 - comb(n - passed, k) / comb(n, k)


@contextmanager
def sandboxed() -> Iterator[None]:
    """Make `evaluate.load("code_eval")` return this metric within the block, without a download."""
    import evaluate

    load: Callable[..., Any] = evaluate.load
    with attributes(evaluate, load=lambda path, *a, **kw: CodeEval() if path == _NAME else load(path, *a, **kw)):
        yield


def runs_in_sandbox(function: Any) -> bool:
    """Return whether the module of a task's metric function runs programs by this code_eval only."""
    import evaluate

    held = getattr(function, "__globals__", {}).values()
    ours = any(isinstance(value, CodeEval) for value in held)
    return ours and not any(isinstance(value, evaluate.EvaluationModule) for value in held)


def _labelled(task: int, outcomes: Sequence[Outcome]) -> list[tuple[int, dict[str, Any]]]:
    return [
        (number, {"task_id": task, "passed": each.passed, "result": each.result, "completion_id": number})
        for number, each in enumerate(outcomes)
    ]
