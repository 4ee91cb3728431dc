"""Studies: a declarative grid of runs, a latency sweep, or both."""

from typing import Self

from pydantic import Field, model_validator

from wina_core.specs import (
    ROLE,
    AllocatorSpec,
    CalibrationSpec,
    Configuration,
    EvaluationSpec,
    Fraction,
    ModelSource,
    Spec,
    check_synthetic,
)
from wina_core.specs.base import SpecPart
from wina_core.specs.latency import LatencySpec
from wina_core.specs.plans import SparsityPlan


class Role(SpecPart):
    """A model that a study names by its role, so that the study is the same on every machine."""

    name: str = Field(min_length=1)
    """For example "Llama-2-7B", which models refer to by the location "role:Llama-2-7B"."""
    hub: str = ""
    """Hub id of its published weights, a hint for users who have not mapped it."""
    location: str = ""
    """Its model here, a folder or a hub id; empty until mapped."""
    beside: str = ""
    """The paper's model whose published numbers are shown beside this one's, for example "Llama-2-7B"; empty for the
    role's name."""


class StudySpec(Spec):
    """A grid, models x configurations x (sparsities x allocators, and explicit plans), that expands into runs, and a
    latency sweep, which needs no model. Either may be absent."""

    name: str = Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")
    title: str = ""
    """One line for lists; empty for the name."""
    description: str = ""
    paper: str = ""
    """The published results that it repeats (`PublishedNumber.study`); empty for none."""
    roles: tuple[Role, ...] = ()
    models: tuple[ModelSource, ...] = ()
    configurations: tuple[Configuration, ...] = Field(default=(), alias="arms")
    sparsities: tuple[Fraction, ...] = ()
    allocators: tuple[AllocatorSpec, ...] = (AllocatorSpec(),)
    """Allocators of each of `sparsities`."""
    plans: tuple[SparsityPlan, ...] = ()
    calibration: CalibrationSpec = CalibrationSpec()
    evaluation: EvaluationSpec = EvaluationSpec()
    latency: LatencySpec | None = None

    def published_model(self, model: str) -> str:
        """Return the paper's model whose numbers are shown beside those of a role or location."""
        return next((role.beside for role in self.roles if role.name == model and role.beside), model)

    def allocators_of(self, configuration: Configuration) -> tuple[AllocatorSpec, ...]:
        return configuration.allocators or self.allocators

    @model_validator(mode="after")
    def _check(self) -> Self:
        if bool(self.models) != bool(self.configurations) or not (self.models or self.latency):
            raise ValueError("a study needs `models` and `configurations`, or a `latency` sweep, or all of them")
        role_names = {role.name for role in self.roles}
        if len(role_names) < len(self.roles):
            raise ValueError("every role needs a name of its own")
        for model in self.models:
            if model.location.startswith(ROLE) and model.location.removeprefix(ROLE) not in role_names:
                raise ValueError(f'a model is "{model.location}", but `roles` has none of that name')
        for name in {name for configuration in self.configurations for name in configuration.roles} - role_names:
            raise ValueError(f'a configuration is for the role "{name}", but `roles` has none of that name')
        without_sparsities = [
            configuration
            for configuration in self.configurations
            if configuration.method.name != "dense" and not configuration.sparsities
        ]
        if without_sparsities and not self.sparsities and not self.plans:
            raise ValueError("a study with a sparse method needs `sparsities`, `plans`, or both")
        check_synthetic(self.models, self.evaluation)
        return self
