"""Keys that are equal for units that take the same time, or that measure the same."""

import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache

from wina_core.specs.evaluations import COST, FIDELITY, ORIGINAL, SYNTHETIC, EvaluationSpec
from wina_core.specs.gates import DENSE
from wina_core.specs.runs import RunSpec
from wina_core.specs.sources import ModelSource


def measurement_key(run: RunSpec, unit: str) -> str:
    """Return 16 hex digits, equal for units of two runs that take about the same time.

    Such units read the same data with the same model, gated in both or in neither, by any method and sparsity.
    """
    return _key(run.model, run.evaluation, unit, run.method.name != DENSE.name)


def measured_alone(run: RunSpec) -> dict[str, tuple[str, str]]:
    """Return a key for each unit of a run, equal in other runs where the unit measures the same."""
    gated = run.model_copy(update={"evaluation": EvaluationSpec()}).content_hash()
    return {unit: (gated, alone) for unit, alone in _units_alone(run.evaluation).items()}


@lru_cache(maxsize=1024)
def _key(model: ModelSource, evaluation: EvaluationSpec, unit: str, gated: bool) -> str:
    alone = _alone(evaluation, unit).model_copy(update={"dense_prefix": 0.0})
    parts = [model.content_hash(), alone.content_hash(), gated]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


@lru_cache(maxsize=1024)
def _units_alone(evaluation: EvaluationSpec) -> Mapping[str, str]:
    return {unit: _alone(evaluation, unit).content_hash() for unit in evaluation.units}


def _alone(evaluation: EvaluationSpec, unit: str) -> EvaluationSpec:
    """Return an evaluation with only the settings that one of its units depends on; the rest at its default."""
    own = evaluation.model_dump(include={"batch_size", "seed", "dense_prefix"})
    if unit in evaluation.task_names:
        own |= evaluation.model_dump(
            include={"task_folders", "task_fingerprint", "data_folder", "data_fingerprint"}
        ) | {"tasks": (evaluation.task(unit),)}  # which has its own limit and examples by now
    return EvaluationSpec(
        **own,
        fidelity=evaluation.fidelity if unit == FIDELITY else None,
        original=evaluation.original if unit == ORIGINAL else None,
        cost_context=evaluation.cost_context if unit == COST else None,
        synthetic=evaluation.synthetic if unit == SYNTHETIC else None,
    )
