"""Allocators, which spread a budget over the cells of a plan, and the plans of runs."""

from collections.abc import Callable, Iterable
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from wina_core.specs.base import Spec, SpecPart
from wina_core.specs.evaluations import TextSpec
from wina_core.specs.plans import Sparsity, SparsityPlan, UniformSparsity
from wina_core.specs.plugins import Plugins, callable_of

AllocatorName = Annotated[str, Field(pattern=r"^[A-Za-z_]\w*$")]
BUILT_IN_ALLOCATORS = ("uniform", "greedy", "curves", "refine", "evolution", "marginal")
_RESERVED = ("joint", "greedy_wina_released", "greedy_teal_released")
"""Names of the command line's that mean something else."""
ALLOCATOR_PLUGINS: Plugins[Callable[..., Any]] = Plugins("allocator", (*BUILT_IN_ALLOCATORS, *_RESERVED), callable_of)
GreedyVariant = Literal["corrected", "wina_released", "teal_released"]
_RELEASED: dict[GreedyVariant, str] = {"wina_released": "WINA", "teal_released": "TEAL"}
_OWN_STEPS: dict[GreedyVariant, float] = {"teal_released": 0.05}
"""Steps that labels do not name."""


class DivergenceSpec(Spec):
    """The text on which an allocator measured the divergence that each cell causes alone, for the store."""

    divergence_text: TextSpec


class AllocatorSpec(Spec):
    """The allocation of a budget to the cells of a plan (decoder layer x projection).

    `uniform`: the same target everywhere. `greedy`: TEAL's, the same budget in every layer; corrected, or as the
    authors of WINA or of TEAL released it (see `allocation.greedy`). `curves`: the optimum over all layers of each
    cell's own KL divergence, by Lagrange multipliers. `refine`: moves budget between cells, from `curves` on, while the
    measured KL falls. `evolution`: an evolutionary search over s and, for R-Sparse, rho. `marginal`: one more dropped
    weight costs the same KL everywhere, as measured in the gated model with the targets of a projection in neighbouring
    layers raised together.
    Other names are those of packages (`check_allocator`), which may read all settings.
    """

    name: AllocatorName = "uniform"
    variant: GreedyVariant = "corrected"
    step: float = Field(default=0.025, gt=0.0, le=0.5)
    """Greedy: the sparsity that one step adds to q, to others in inverse proportion to their weights. Others: the
    smallest move between cells."""
    rounds: int = Field(default=20, ge=1)
    """Refine: passes over the cells; evolution: generations; a package's allocator: as it documents."""
    text: TextSpec = TextSpec(tokens=8_192)
    """The text to measure errors and divergences on."""
    seed: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.variant != "corrected" and self.name != "greedy":
            raise ValueError(f'only greedy has the variant "{self.variant}"; leave it out for {self.name}')
        return self

    @property
    def is_released(self) -> bool:
        """Return whether it is a released greedy search, which uses dense thresholds."""
        return self.variant != "corrected"

    @property
    def label(self) -> str:
        """Return a short name with all settings other than the default, for example "refine (6 rounds)".

        Two allocators never share a line of a plot, and one that saw the evaluation's text shows it.
        """
        default = AllocatorSpec()
        other = self.name not in BUILT_IN_ALLOCATORS
        searches = other or self.name in ("refine", "evolution")
        details = {
            f"as released by {_RELEASED.get(self.variant)}": self.is_released,
            f"step {self.step:g}": self.step != _OWN_STEPS.get(self.variant, default.step),
            f"{self.rounds} round{'s' if self.rounds > 1 else ''}": self.rounds != default.rounds and searches,
            f"seed {self.seed}": self.seed != default.seed and (other or self.name == "evolution"),
            f"on {self.text.label}": self.text != default.text,
        }
        text = ", ".join(detail for detail, differs in details.items() if differs)
        return f"{self.name} ({text})" if text and self.name != "uniform" else self.name


def allocator_names() -> tuple[str, ...]:
    """Return the names of all allocators; no package is loaded."""
    return (*BUILT_IN_ALLOCATORS, *ALLOCATOR_PLUGINS.names)


def check_allocator(plan: object, *, load: bool = False) -> None:
    """Raise WinaError for a plan whose allocator is not known; with `load`, also for one that cannot be used."""
    if isinstance(plan, AllocatedSparsity):
        ALLOCATOR_PLUGINS.check(plan.allocator.name, BUILT_IN_ALLOCATORS, load=load)


class AllocatedSparsity(SpecPart):
    """A budget and the allocator that spreads it; the session that has the model computes the table."""

    kind: Literal["allocated"] = "allocated"
    sparsity: Sparsity
    """The budget: mean target over all cells, weighted by their numbers of weights."""
    allocator: AllocatorSpec

    @property
    def budget(self) -> float:
        return self.sparsity

    @property
    def provenance(self) -> str:
        return self.allocator.label


Plan = Annotated[UniformSparsity | SparsityPlan | AllocatedSparsity, Field(discriminator="kind")]


def with_texts(
    allocators: Iterable[AllocatorSpec], change: Callable[[TextSpec], TextSpec]
) -> tuple[AllocatorSpec, ...]:
    return tuple(allocator.model_copy(update={"text": change(allocator.text)}) for allocator in allocators)
