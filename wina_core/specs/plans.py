"""Plans: the target sparsity of each projection of each decoder layer, and their budget."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from wina_core.errors import WinaError
from wina_core.specs.base import PROVENANCE, Part

Sparsity = Annotated[float, Field(ge=0.0, lt=1.0, allow_inf_nan=False)]
Share = Annotated[float, Field(gt=0.0, le=1.0, allow_inf_nan=False)]
Cell = tuple[int, int]
"""(decoder layer, index into `projections`)."""


class PlanLayout(Part):
    """The shape of a plan: decoder layers x projections, with each matrix's number of weights."""

    projections: tuple[str, ...] = Field(min_length=1)
    """Canonical names in order: q, k, v, o, gate, up, down."""
    parameters: tuple[tuple[int, ...], ...] = Field(min_length=1)
    """Weights per matrix, [layer][projection]."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if any(len(row) != len(self.projections) for row in self.parameters):
            raise ValueError("every layer needs one parameter count for each projection")
        return self

    @property
    def layers(self) -> int:
        """Return the number of decoder layers."""
        return len(self.parameters)


class UniformSparsity(Part):
    """The same target for every projection of any model."""

    kind: Literal["uniform"] = "uniform"
    sparsity: Sparsity

    @property
    def budget(self) -> float:
        """Return the one target, named as a table's."""
        return self.sparsity

    @property
    def provenance(self) -> str:
        """Return the provenance of a table with equal cells."""
        return "uniform"

    def for_layout(self, layout: PlanLayout) -> "SparsityPlan":
        """Return the table for a model of the given layout."""
        return SparsityPlan.uniform(layout, self.sparsity)


class SparsityPlan(Part):
    """Target sparsity per decoder layer and projection: the dropped fraction of that matrix's inputs."""

    kind: Literal["table"] = "table"
    layout: PlanLayout
    sparsity: tuple[tuple[Sparsity, ...], ...]
    """[layer][projection]."""
    provenance: Annotated[str, PROVENANCE] = Field(default="uniform", alias="origin")
    """Provenance: "uniform", "edited", or an allocator's name. Equal tables are the same plan to the store."""
    rho: tuple[tuple[Share, ...], ...] | None = None
    """R-Sparse's share of the mask in each cell, [layer][projection]; None where the method's own applies."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        for table in filter(None, (self.sparsity, self.rho)):
            self._check_shape(table)
        return self

    def _check_shape(self, table: tuple[tuple[float, ...], ...]) -> None:
        if len(table) != self.layout.layers or any(len(row) != len(self.layout.projections) for row in table):
            raise ValueError(
                f"the table must have {self.layout.layers} layers x {len(self.layout.projections)} projections"
            )

    @classmethod
    def uniform(cls, layout: PlanLayout, sparsity: float) -> "SparsityPlan":
        """Return a plan with the same target in every cell."""
        row = (sparsity,) * len(layout.projections)
        return cls(layout=layout, sparsity=(row,) * layout.layers, provenance="uniform")

    @property
    def budget(self) -> float:
        """Return the mean target weighted by each matrix's number of weights."""
        weights = [count for row in self.layout.parameters for count in row]
        values = [value for row in self.sparsity for value in row]
        return sum(w * s for w, s in zip(weights, values, strict=True)) / sum(weights)

    def with_cells(self, values: dict[Cell, float], provenance: str = "edited") -> "SparsityPlan":
        """Return a copy with new targets in the given cells, validated like any others."""
        table = [list(row) for row in self.sparsity]
        for (layer, column), value in values.items():
            table[layer][column] = value
        return SparsityPlan(layout=self.layout, sparsity=tuple(map(tuple, table)), provenance=provenance, rho=self.rho)

    def for_layout(self, layout: PlanLayout) -> "SparsityPlan":
        """Return this plan; WinaError where it was made for another model."""
        if layout != self.layout:
            raise WinaError(
                f"This sparsity plan was made for a model with {describe_layout(self.layout)}, but the loaded model "
                f"has {describe_layout(layout)}; open the plan's own model or start a new plan."
            )
        return self


def describe_layout(layout: PlanLayout) -> str:
    """Return the layers, projections and weights of a plan's model in words."""
    total = sum(map(sum, layout.parameters))
    return f"{layout.layers} layers x ({', '.join(layout.projections)}) and {total:,} gated weights"
