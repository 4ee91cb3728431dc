"""Runs and configurations: the points and the lines of a study's plots."""

from typing import Self

from pydantic import model_validator

from wina_core.specs.allocations import AllocatorSpec, Plan
from wina_core.specs.base import Spec
from wina_core.specs.evaluations import SYNTHETIC, EvaluationSpec, Fraction
from wina_core.specs.gates import DENSE, CalibrationSpec, MethodSpec
from wina_core.specs.plans import UniformSparsity
from wina_core.specs.rotations import NO_ROTATION, RotationSpec
from wina_core.specs.sources import ModelSource


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
