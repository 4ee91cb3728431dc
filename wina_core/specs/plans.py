"""Plans: the target sparsity of each projection of each decoder layer, and their budget.

A plan is resolved into the fraction that each mask drops, without a model. The shares that R-Sparse's authors searched
are read from their own file format.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, ValidationError, model_validator

from wina_core.errors import WinaError, explain
from wina_core.files.user_file import read_file
from wina_core.specs.base import PROVENANCE, SpecPart
from wina_core.specs.gates import MethodSpec
from wina_core.specs.methods import get_method
from wina_core.specs.methods.base import BLOCKS, Method

PROJECTIONS = ("q", "k", "v", "o", "gate", "up", "down")
"""All canonical names, in the order of every plan's columns; without a gated MLP there is no "gate"."""
Sparsity = Annotated[float, Field(ge=0.0, lt=1.0, allow_inf_nan=False)]
Share = Annotated[float, Field(gt=0.0, le=1.0, allow_inf_nan=False)]
Cell = tuple[int, int]
"""(decoder layer, index into `projections`)."""
Rows = tuple[tuple[float, ...], ...]
"""Values of a plan's cells, [layer][projection]."""


class PlanLayout(SpecPart):
    """The shape of a plan: decoder layers x projections, with each matrix's number of weights."""

    projections: tuple[str, ...] = Field(min_length=1)
    """Some of PROJECTIONS, in their order."""
    parameters: tuple[tuple[int, ...], ...] = Field(min_length=1)
    """Weights per matrix, [layer][projection]."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if any(len(row) != len(self.projections) for row in self.parameters):
            raise ValueError("every layer needs one parameter count for each projection")
        return self

    @property
    def layers(self) -> int:
        return len(self.parameters)

    def check_table(self, table: Rows) -> None:
        """Raise ValueError for a table of another shape."""
        if len(table) != self.layers or any(len(row) != len(self.projections) for row in table):
            raise ValueError(f"the table must have {self.layers} layers x {len(self.projections)} projections")

    def uniform(self, value: float) -> Rows:
        return ((value,) * len(self.projections),) * self.layers

    def mean(self, table: Rows) -> float:
        """Return the mean of a table, weighted by each matrix's number of weights."""
        weights = [count for row in self.parameters for count in row]
        values = [value for row in table for value in row]
        return sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights)

    def check_model(self, loaded: "PlanLayout", plan: str) -> None:
        """Raise WinaError if the loaded model has another layout than this one of a `plan`, named in the error."""
        if loaded != self:
            raise WinaError(
                f"This {plan} was made for a model with {_described(self)}, but the loaded model has "
                f"{_described(loaded)}; open the plan's own model or start a new plan."
            )


class UniformSparsity(SpecPart):
    """The same target for every projection of any model."""

    kind: Literal["uniform"] = "uniform"
    sparsity: Sparsity

    @property
    def budget(self) -> float:
        return self.sparsity

    @property
    def provenance(self) -> str:
        return "uniform"

    def for_layout(self, layout: PlanLayout) -> "SparsityPlan":
        return SparsityPlan.uniform(layout, self.sparsity)


class SparsityPlan(SpecPart):
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
            self.layout.check_table(table)
        return self

    @classmethod
    def uniform(cls, layout: PlanLayout, sparsity: float) -> "SparsityPlan":
        return cls(layout=layout, sparsity=layout.uniform(sparsity), provenance="uniform")

    @property
    def budget(self) -> float:
        return self.layout.mean(self.sparsity)

    def with_cells(self, values: dict[Cell, float], provenance: str = "edited") -> "SparsityPlan":
        # model_copy would not validate the new targets.
        table = with_values(self.sparsity, values)
        return SparsityPlan(layout=self.layout, sparsity=table, provenance=provenance, rho=self.rho)

    def for_layout(self, layout: PlanLayout) -> "SparsityPlan":
        self.layout.check_model(layout, "sparsity plan")
        return self


def same_table(one: SparsityPlan | None, other: SparsityPlan) -> bool:
    return one is not None and (one.layout, one.sparsity, one.rho) == (other.layout, other.sparsity, other.rho)


def with_values(table: Rows, values: Mapping[Cell, float]) -> Rows:
    rows = [list(row) for row in table]
    for (layer, column), value in values.items():
        rows[layer][column] = value
    return tuple(map(tuple, rows))


def _described(layout: PlanLayout) -> str:
    total = sum(map(sum, layout.parameters))
    return f"{layout.layers} layers x ({', '.join(layout.projections)}) and {total:,} gated weights"


def read_searched_shares(path: Path, layout: PlanLayout) -> SparsityPlan:
    """Return the plan in a file of searched shares, such as R-Sparse's released config/llama3_sparsity_50_….npy.

    The file is text, in spite of its suffix: for each decoder layer and q, k, v, o, gate, up, down in this order a
    share rho of the mask in (0, 1] and a sparsity in [0, 1), one number a line. Raises WinaError for a file that cannot
    be read, has other content, or is of another model.
    """
    content = read_file(path, "file of shares")
    hint = "choose one like R-Sparse's released config/llama3_sparsity_50_evolutionary_search.npy"
    if layout.projections != PROJECTIONS:
        raise WinaError(
            f"R-Sparse's searched shares are of {', '.join(PROJECTIONS)}, but this model has "
            f"{', '.join(layout.projections)}; open a model with a gated MLP."
        )
    try:
        numbers = [float(word) for word in content.decode("ascii").split()]
        expected = 2 * layout.layers * len(PROJECTIONS)
        if len(numbers) != expected:
            raise ValueError(f"it has {len(numbers)} numbers, not a share and a sparsity for each matrix, {expected}")
        return SparsityPlan(
            layout=layout,
            sparsity=_rows(numbers[1::2], layout),
            rho=_rows(numbers[::2], layout),
            provenance="R-Sparse's search",
        )
    except ValidationError as error:
        raise WinaError(f"The file {path} does not hold searched shares ({explain(error)[:-1]}); {hint}.") from error
    except ValueError as error:
        raise WinaError(f"The file {path} does not hold searched shares ({error}); {hint}.") from error


def _rows(values: list[float], layout: PlanLayout) -> tuple[tuple[float, ...], ...]:
    width = len(layout.projections)
    return tuple(tuple(values[start : start + width]) for start in range(0, len(values), width))


@dataclass(frozen=True)
class ResolvedPlan:
    """A plan as one method applies it to one model."""

    targets: SparsityPlan
    """The dropped fraction of each cell's inputs, as the method can reach it."""
    masks: Rows
    """The fraction of inputs that each cell's mask drops: the target, or more beside a low-rank part."""
    fractions: Rows
    """The fraction of the dense model's scores at which each cell's calibrated threshold is read: the mask's, or the
    one whose threshold drops that in the gated model (`gating.tuning.correct_fractions`)."""

    @classmethod
    def of(cls, targets: SparsityPlan, spec: MethodSpec) -> "ResolvedPlan":
        """Return the plan with these reachable targets."""
        method, masks = get_method(spec), targets.sparsity
        if method.default_rho is not None:
            masks = tuple(
                tuple(
                    method.mask_sparsity(target, cell_rho(targets, layer, column)) for column, target in enumerate(row)
                )
                for layer, row in enumerate(targets.sparsity)
            )
        return cls(targets, masks, masks)


def resolve_plan(plan: UniformSparsity | SparsityPlan, layout: PlanLayout, spec: MethodSpec) -> ResolvedPlan:
    """Return the plan with the target of every cell as the method can reach it.

    A uniform target is the sparsity of all the plan's weights: a method that leaves some matrices dense gets
    s_cell = s * all / gated in the others, one with levels of its own (LaRoSA) gets those. Cells that share a mask get
    their mean, weighted by numbers of weights. A method that gates nothing has targets of 0.

    Raises WinaError for a target out of reach, a target in a dense matrix, different targets of up and down where one
    mask serves both, shares rho without a low-rank part, and another model's table.
    """
    return ResolvedPlan.of(_reachable(plan, layout, spec), spec)


def _reachable(plan: UniformSparsity | SparsityPlan, layout: PlanLayout, spec: MethodSpec) -> SparsityPlan:
    method = get_method(spec)
    names = tuple(name for name in layout.projections if method.gates(name))
    method.check_projections(layout.projections)
    if not names:
        return SparsityPlan.uniform(layout, 0.0)
    if isinstance(plan, UniformSparsity):
        return _concentrated(plan.sparsity, layout, names, method)
    table = plan.for_layout(layout)
    if table.rho is not None and method.default_rho is None:
        raise WinaError(
            f'The plan has shares rho of a low-rank part, which the method "{spec.name}" does not have; choose the '
            "plan's own method, or allocate the budget again."
        )
    for row in table.sparsity:
        cells = dict(zip(layout.projections, row, strict=True))
        outside = [name for name, target in cells.items() if target > 0 and name not in names]
        if outside:
            raise WinaError(
                f'The method "{spec.name}" leaves {", ".join(outside)} dense, but the plan has targets there; '
                "set them to 0 or choose another method."
            )
        if method.by_gate_activation and cells["up"] != cells["down"]:
            raise WinaError(
                f'The method "{spec.name}" drops the same rows of up and columns of down, but the plan has '
                f"{100 * cells['up']:.4g} and {100 * cells['down']:.4g} % there; make them equal."
            )
    return _averaged(table) if spec.masks == "shared" else table


def cell_rho(plan: SparsityPlan, layer: int, column: int) -> float | None:
    """Return the plan's own rho of a cell; None where the method's applies."""
    return None if plan.rho is None else plan.rho[layer][column]


def shares_of(plan: SparsityPlan, layer: int) -> dict[str, float] | None:
    """Return the plan's own rho of a layer's cells by name; None where the method's applies."""
    return None if plan.rho is None else dict(zip(plan.layout.projections, plan.rho[layer], strict=True))


def _concentrated(sparsity: float, layout: PlanLayout, names: tuple[str, ...], method: Method) -> SparsityPlan:
    if set(names) == set(layout.projections):
        row = tuple(method.cell_target(name, sparsity) for name in names)
        return SparsityPlan(layout=layout, sparsity=(row,) * layout.layers)
    columns = [layout.projections.index(name) for name in names]
    gated = sum(row[column] for row in layout.parameters for column in columns)
    share = gated / sum(map(sum, layout.parameters))
    if sparsity >= share:
        dense = [name for name in layout.projections if name not in names]
        raise WinaError(
            f'The method "{method.name}" reaches less than {100 * share:.1f} % of this model\'s weights, since it '
            f"leaves {', '.join(dense)} dense, so {100 * sparsity:.4g} % is out of its reach; choose a lower sparsity."
        )
    # The gated matrices carry the budget of the dense ones, too.
    cells = {(layer, column): sparsity / share for layer in range(layout.layers) for column in columns}
    return SparsityPlan.uniform(layout, 0.0).with_cells(cells, provenance="uniform")


def _averaged(plan: SparsityPlan) -> SparsityPlan:
    rho = None if plan.rho is None else block_means(plan.rho, plan.layout)
    return SparsityPlan(
        layout=plan.layout, sparsity=block_means(plan.sparsity, plan.layout), provenance=plan.provenance, rho=rho
    )


def block_means(table: Rows, layout: PlanLayout) -> Rows:
    """Return the table with each block's cells at their mean, weighted by numbers of weights."""
    rows = []
    for row, counts in zip(table, layout.parameters, strict=True):
        values = list(row)
        for block in BLOCKS:
            columns = [layout.projections.index(name) for name in block if name in layout.projections]
            # Equal targets stay: their mean could differ from them by rounding.
            if len({row[column] for column in columns}) > 1:
                total = sum(counts[column] for column in columns)
                mean = sum(row[column] * counts[column] for column in columns) / total
                for column in columns:
                    values[column] = mean
        rows.append(tuple(values))
    return tuple(rows)
