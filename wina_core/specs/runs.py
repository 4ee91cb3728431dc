"""Models, runs and configurations: the points and the lines of a study's plots.

Keys are equal for units of runs that take the same time, or that measure the same.
"""

import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Literal, Self

from pydantic import Field, model_validator

from wina_core.specs.allocations import AllocatorSpec, Plan
from wina_core.specs.base import Spec
from wina_core.specs.evaluations import COST, FIDELITY, ORIGINAL, SYNTHETIC, EvaluationSpec, Fraction
from wina_core.specs.gates import DENSE, CalibrationSpec, MethodSpec
from wina_core.specs.plans import UniformSparsity
from wina_core.specs.quantization import Quantization
from wina_core.specs.rotations import NO_ROTATION, RotationSpec

DType = Literal["auto", "float64", "float32", "bfloat16", "float16"]

ROLE = "role:"
"""Prefix of a model's location that names a role of the study, as "role:Llama-2-7B"."""


class ModelSource(Spec):
    """The source and the storage of a model.

    `location` is a local folder or GGUF file, a hub id, "demo", or "synthetic". The dtype "auto" is what suits the
    processor (`model_info.sizes.suited`).
    """

    location: str = Field(min_length=1)
    revision: str | None = None
    dtype: DType = "auto"
    device: str = "auto"
    """"auto", the accelerator if there is one; "cpu", "cuda", "cuda:1", ...; or "spread", the layers over all
    accelerators."""
    quantization: Quantization = "none"
    """Weight-only quantization of the gated matrices after rotation: int8 by torchao, int4 by HQQ, or a spec."""
    fingerprint: str = ""
    """Digest of the local files (`model_info.resolve.fingerprint`), which changes with the weights; empty until
    resolved, and for hub ids."""
    bos: bool = False
    """Whether rows of text begin with the BOS token: `model_info.resolve` sets it where the tokenizer adds one. Numbers
    of a time when no row began with it are not those of this model."""

    @property
    def unquantized(self) -> "ModelSource":
        return self.model_copy(update={"quantization": "none"})


class RunSpec(Spec):
    """One point of a study: a model, rotation, method and plan, and their measurements."""

    model: ModelSource
    rotation: RotationSpec = NO_ROTATION
    method: MethodSpec = DENSE
    plan: Plan = UniformSparsity(sparsity=0.0)
    calibration: CalibrationSpec | None = None
    evaluation: EvaluationSpec = EvaluationSpec()

    @model_validator(mode="after")
    def _check(self) -> Self:
        self.method.check_calibration(self.calibration)
        check_synthetic((self.model,), self.evaluation)
        return self


class Configuration(Spec):
    """A method and the rotation it runs on: one line of a frontier plot."""

    name: str = ""
    """Its name in the study, the paper's where the study repeats the paper: "WINA", "TEAL-transform"."""
    rotation: RotationSpec = NO_ROTATION
    method: MethodSpec = DENSE
    sparsities: tuple[Fraction, ...] = ()
    """Its own sparsities, for a method that does not reach all of the study's; empty for the study's."""
    allocators: tuple[AllocatorSpec, ...] = ()
    """Allocators of this configuration in place of the study's; empty for the study's."""
    roles: tuple[str, ...] = ()
    """Roles of the models it is for, where models need different rotations; empty for every model."""

    @property
    def label(self) -> str:
        """Return a legend text, for example "wina, global + heads"."""
        return self.method.label if self.rotation.is_identity else f"{self.method.label}, {self.rotation.label}"


def check_synthetic(models: tuple[ModelSource, ...], evaluation: EvaluationSpec) -> None:
    """Raise ValueError unless exactly the random networks are measured under their name."""
    if any((model.location == SYNTHETIC) != (evaluation.synthetic is not None) for model in models):
        raise ValueError(f'the model "{SYNTHETIC}" and `evaluation.synthetic` belong together: give both or neither')


def measurement_key(run: RunSpec, unit: str) -> str:
    """Return 16 hex digits, equal for units of two runs that take about the same time.

    Such units read the same data with the same model, gated in both or in neither, by any method and sparsity.
    """
    return _key(run.model, run.evaluation, unit, run.method.name != DENSE.name)


def measured_alone(run: RunSpec) -> dict[str, tuple[str, str]]:
    """Return a key for each unit of a run, equal in other runs where the unit measures the same."""
    # Two hashes, not one of both for every unit and run: studies have thousands of runs with few evaluations.
    gated = run.model_copy(update={"evaluation": EvaluationSpec()}).content_hash()
    return {unit: (gated, alone) for unit, alone in _units_alone(run.evaluation).items()}


@lru_cache(maxsize=1024)
def _key(model: ModelSource, evaluation: EvaluationSpec, unit: str, gated: bool) -> str:
    # A dense prefix hardly changes the time.
    alone = _alone(evaluation, unit).model_copy(update={"dense_prefix": 0.0})
    content = [model.content_hash(), alone.content_hash(), gated]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]


@lru_cache(maxsize=1024)
def _units_alone(evaluation: EvaluationSpec) -> Mapping[str, str]:
    return {unit: _alone(evaluation, unit).content_hash() for unit in evaluation.units}


def _alone(evaluation: EvaluationSpec, unit: str) -> EvaluationSpec:
    """Return an evaluation with only the settings that one of its units depends on; the rest at its default."""
    settings = evaluation.model_dump(include={"batch_size", "seed", "dense_prefix"})
    if unit in evaluation.task_names:
        settings |= evaluation.model_dump(
            include={"task_folders", "task_fingerprint", "data_folder", "data_fingerprint"}
        ) | {"tasks": (evaluation.task(unit),)}  # which has its own limit and examples by now
    return EvaluationSpec(
        **settings,
        fidelity=evaluation.fidelity if unit == FIDELITY else None,
        original=evaluation.original if unit == ORIGINAL else None,
        cost_context=evaluation.cost_context if unit == COST else None,
        synthetic=evaluation.synthetic if unit == SYNTHETIC else None,
    )
