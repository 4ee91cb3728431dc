"""What a study asks for: a declarative grid of runs, a sweep of products, or both. Light: it never imports torch."""

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from wina_core.specs import (
    ROLE,
    AllocatorSpec,
    Arm,
    CalibrationSpec,
    EvaluationSpec,
    Fraction,
    ModelSource,
    Spec,
    check_synthetic,
)
from wina_core.specs.latency import LatencySpec
from wina_core.specs.plans import SparsityPlan


class Role(BaseModel):
    """A model that a study names by the part it plays, so that the study is the same on everybody's machine."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1)
    """For example "Llama-2-7B"; models refer to it by the location "role:Llama-2-7B"."""
    hub: str = ""
    """Where its published weights are, to tell whoever has not mapped it yet."""
    location: str = ""
    """What it stands for here, a folder or a hub id; empty until mapped."""


class StudySpec(Spec):
    """A declarative grid, models x arms x (sparsities x allocators and explicit plans), that expands into runs, and a
    sweep of products, which needs no model. Either may be absent."""

    name: str = Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")
    title: str = ""
    """One line for lists; the name where there is none."""
    description: str = ""
    paper: str = ""
    """Which published results it repeats (`study` of `wina_core.studies.published.PublishedNumber`); empty for none."""
    roles: tuple[Role, ...] = ()
    models: tuple[ModelSource, ...] = ()
    arms: tuple[Arm, ...] = ()
    sparsities: tuple[Fraction, ...] = ()
    allocators: tuple[AllocatorSpec, ...] = (AllocatorSpec(),)
    """How each of `sparsities` is spread over the model."""
    plans: tuple[SparsityPlan, ...] = ()
    calibration: CalibrationSpec = CalibrationSpec()
    evaluation: EvaluationSpec = EvaluationSpec()
    latency: LatencySpec | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if bool(self.models) != bool(self.arms) or not (self.models or self.latency):
            raise ValueError("a study needs `models` and `arms`, or a `latency` sweep, or all of them")
        known = {role.name for role in self.roles}
        if len(known) < len(self.roles):
            raise ValueError("every role needs a name of its own")
        for model in self.models:
            if model.location.startswith(ROLE) and model.location.removeprefix(ROLE) not in known:
                raise ValueError(f'a model is "{model.location}", but `roles` has none of that name')
        for name in {name for arm in self.arms for name in arm.roles} - known:
            raise ValueError(f'an arm is for the role "{name}", but `roles` has none of that name')
        without = [arm for arm in self.arms if arm.method.name != "dense" and not arm.sparsities]
        if without and not self.sparsities and not self.plans:
            raise ValueError("a study with a sparse method needs `sparsities`, `plans`, or both")
        check_synthetic(self.models, self.evaluation)
        return self
