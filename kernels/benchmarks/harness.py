"""Evaluation of the demo's multiple-choice task against the bare forward passes of the same batches: the cost of
lm-eval, progress, cancellation and checks.

The bar: everything but the forward passes takes at most a tenth of their time. lm-eval's own class and loop around the
same model are measured beside. Turns seconds apart drift by more than that, so `outside_forward` is reported too:
within one evaluation, CPU time outside of the model's forward over the time inside, median over evaluations. Seen
(`results/harness-cpu.json`): 0.075 in bfloat16 and 0.043 in float32, where lm-eval alone takes 0.158 and 0.074, thanks
to log-probabilities from the first scored position only, NaN checks by a maximum, and contexts encoded once.
"""

import statistics
import time
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from comparing import Comparison, Contender, Facts, compare
from random_models import threads
from torch import Tensor

from wina_core.compute.evaluation.harness import evaluate_task
from wina_core.compute.evaluation.lm_eval_adapter import HFLM, evaluate
from wina_core.compute.evaluation.tasks import load_task
from wina_core.compute.models.loading import LoadedModel, load_model
from wina_core.compute.reporter import NullReporter
from wina_core.specs import DType, EvaluationSpec, ModelSource

TASK = "demo_choice"
DOCUMENTS, BATCH = 100, 16
AT_MOST = 1.1


def measure(toy: bool) -> list[Comparison]:
    """Measure in bfloat16, as the demo model is stored, and in float32, with one thread, which other load disturbs
    least."""
    documents, repetitions = (2, 1) if toy else (DOCUMENTS, 3)
    spec = EvaluationSpec(tasks=(TASK,), limit=documents, batch_size=BATCH, fidelity=None)
    dtypes: tuple[DType, ...] = ("float32",) if toy else ("bfloat16", "float32")
    found = []
    for dtype in dtypes:
        loaded = load_model(ModelSource(location="demo", dtype=dtype, device="cpu"), NullReporter())
        batches = _batches(loaded, spec)
        works = {"evaluate": partial(_evaluate, loaded, spec), "lm-eval alone": partial(_stock, loaded, spec)}
        with threads(1):
            facts: dict[str, Facts] = {
                name: {"outside_forward": statistics.median(_outside_forward(loaded, work) for _ in range(repetitions))}
                for name, work in works.items()
            }
            found.append(
                compare(
                    Contender("forward passes", partial(nullcontext, partial(_forward, loaded, batches))),
                    [
                        Contender(name, partial(nullcontext, work), AT_MOST if name == "evaluate" else None)
                        for name, work in works.items()
                    ],
                    repetitions,
                    {
                        "task": TASK,
                        "documents": documents,
                        "batch": BATCH,
                        "batches": len(batches),
                        "dtype": dtype,
                        "threads": 1,
                    },
                    facts,
                )
            )
    return found


def _batches(loaded: LoadedModel, spec: EvaluationSpec) -> list[Tensor]:
    batches: list[Tensor] = []
    hook = loaded.model.register_forward_pre_hook(lambda _, given: batches.append(given[0]))
    _evaluate(loaded, spec)
    hook.remove()
    return batches


def _outside_forward(loaded: LoadedModel, work: "partial[None]") -> float:
    """Return the work's CPU time outside of the model's forward passes over that inside."""
    clock: list[float] = []
    hooks = [
        loaded.model.register_forward_pre_hook(lambda *_: clock.append(-time.process_time())),
        loaded.model.register_forward_hook(lambda *_: clock.append(time.process_time())),
    ]
    start = time.process_time()
    work()
    total = time.process_time() - start
    for hook in hooks:
        hook.remove()
    return total / sum(clock) - 1


@torch.no_grad()
def _forward(loaded: LoadedModel, batches: list[Tensor]) -> None:
    for batch in batches:
        loaded.model(batch)


def _evaluate(loaded: LoadedModel, spec: EvaluationSpec) -> None:
    evaluate_task(loaded, None, spec, TASK, NullReporter())


def _stock(loaded: LoadedModel, spec: EvaluationSpec) -> None:
    dtype: Any = "float32" if loaded.dtype.itemsize == 2 else None
    model = HFLM(pretrained=loaded.model, tokenizer=loaded.tokenizer, batch_size=BATCH, softmax_dtype=dtype)
    evaluate(model, load_task(TASK), limit=spec.limit, log_samples=False)
