"""When two units of work are alike in what they take. Light: it never imports torch."""

import hashlib
import json
from functools import lru_cache

from wina_core.specs import COST, DENSE, DEVIATION, SYNTHETIC, EvaluationSpec, ModelSource, RunSpec


def measurement_key(run: RunSpec, unit: str) -> str:
    """16 hex digits that are equal where a unit of two runs reads the same data with the same model, gated in both or
    in neither, so that both take about as long whatever the method and the sparsity."""
    return _key(run.model, run.evaluation, unit, run.method.name != DENSE.name)


@lru_cache(maxsize=1024)
def _key(model: ModelSource, evaluation: EvaluationSpec, unit: str, gated: bool) -> str:
    alone = evaluation.model_copy(
        update={
            "tasks": (evaluation.task(unit),) if unit in evaluation.task_names else (),
            "limit": None,  # the task has its own by now
            "num_fewshot": None,
            "dense_prefix": 0.0,
            "deviation": evaluation.deviation if unit == DEVIATION else None,
            "cost_context": evaluation.cost_context if unit == COST else None,
            "synthetic": evaluation.synthetic if unit == SYNTHETIC else None,
        }
    )
    parts = [model.content_hash(), alone.content_hash(), gated]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
