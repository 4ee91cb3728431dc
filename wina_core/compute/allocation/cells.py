"""The cells of a plan that a search sets, with their budget, and the model and method that the search gates them in."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from wina_core.compute.calibration import Calibration
from wina_core.compute.gating import Gates, attach
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.view import ModelView, is_fused
from wina_core.errors import WinaError
from wina_core.specs import MethodSpec
from wina_core.specs.methods import get_method
from wina_core.specs.methods.base import BLOCKS
from wina_core.specs.plans import PlanLayout, SparsityPlan, UniformSparsity, resolve_plan

MAX_TARGET = 0.99
"""Largest target of a cell: top-k selection keeps at least one input."""

Values = tuple[float, ...]
"""One number for each block."""


@dataclass(frozen=True)
class PlanCandidate:
    """Targets, one for each block, and R-Sparse's shares if they are searched."""

    values: Values
    rho: Values | None = None


@dataclass(frozen=True)
class Block:
    """Cells of one decoder layer that share their mask and therefore their target; usually one."""

    layer: int
    columns: tuple[int, ...]
    weight: float
    """Its share of all weights in the plan's table."""


@dataclass(frozen=True)
class Cells:
    """All blocks of a model that a method gates, from the first layer to the last."""

    layout: PlanLayout
    blocks: tuple[Block, ...]

    @classmethod
    def of(cls, layout: PlanLayout, names: Sequence[str], together: Sequence[Sequence[str]] = ()) -> Cells:
        """Return blocks for the projections `names` of every layer; those of one tuple of `together` move together."""
        total = sum(map(sum, layout.parameters))
        grouped: dict[str, list[int]] = {}
        for name in names:
            first = next((group[0] for group in together if name in group), name)
            grouped.setdefault(first, []).append(layout.projections.index(name))
        blocks = [
            Block(layer, tuple(columns), sum(row[column] for column in columns) / total)
            for layer, row in enumerate(layout.parameters)
            for columns in grouped.values()
        ]
        return cls(layout, tuple(blocks))

    @property
    def weights(self) -> Values:
        """Each block's share of all weights; less than 1 in sum if the method leaves cells dense."""
        return tuple(block.weight for block in self.blocks)

    def in_layer(self, layer: int) -> Cells:
        """Return the blocks of one layer, with weights as shares of that layer's."""
        share = sum(self.layout.parameters[layer]) / sum(map(sum, self.layout.parameters))
        blocks = tuple(
            Block(layer, block.columns, block.weight / share) for block in self.blocks if block.layer == layer
        )
        return Cells(self.layout, blocks)

    def check(self, budget: float, method: str) -> None:
        """Raise WinaError if these cells cannot hold the budget."""
        reach = MAX_TARGET * sum(self.weights)
        if budget > reach + 1e-9:
            raise WinaError(
                f"{method} cannot reach a sparsity of {100 * budget:.4g} %, since what it gates holds at most "
                f"{100 * reach:.4g} % of the weights; choose a lower sparsity."
            )

    def budget(self, values: Sequence[float]) -> float:
        """Return the mean target over all cells of the table, weighted by numbers of weights; others count as 0."""
        return sum(weight * value for weight, value in zip(self.weights, values, strict=True))

    def fitted(self, values: Sequence[float], budget: float) -> Values:
        """Shift the values by one amount and clip them to [0, MAX_TARGET], so that they meet the budget."""
        low, high = -1.0 - max(values), 1.0 - min(values)
        for _ in range(60):  # halvings of at most 4, down to the rounding of float64
            middle = (low + high) / 2
            if self.budget([_clipped(value + middle) for value in values]) < budget:
                low = middle
            else:
                high = middle
        return tuple(_clipped(value + high) for value in values)

    def uniform(self, budget: float) -> Values:
        return self.fitted((0.0,) * len(self.blocks), budget)

    def plan(self, values: Sequence[float], provenance: str, rho: Sequence[float] | None = None) -> SparsityPlan:
        """Return the plan of these values, with 0 in cells without a block, and of `rho`, with 1 there."""
        table = self._table(values, 0.0)
        shares = None if rho is None else self._table(rho, 1.0)
        return SparsityPlan(layout=self.layout, sparsity=table, provenance=provenance, rho=shares)

    def _table(self, values: Sequence[float], other: float) -> tuple[tuple[float, ...], ...]:
        table = [[other] * len(self.layout.projections) for _ in range(self.layout.layers)]
        for block, value in zip(self.blocks, values, strict=True):
            for column in block.columns:
                table[block.layer][column] = value
        return tuple(map(tuple, table))


def _clipped(value: float) -> float:
    return min(max(value, 0.0), MAX_TARGET)


def cells_of(layout: PlanLayout, method: MethodSpec, fused: Sequence[Sequence[str]] = ()) -> Cells:
    """Return the cells that a method gates; those of one tuple of `fused` move together. Raises WinaError if there are
    none."""
    rule = get_method(method)
    resolve_plan(UniformSparsity(sparsity=0.0), layout, method)  # an allocator may measure nothing, and so not find out
    names = [name for name in layout.projections if rule.gates(name)]
    if not names:
        raise WinaError(f'The method "{method.name}" gates nothing, so there is no budget to spread; choose another.')
    together: Sequence[Sequence[str]] = BLOCKS if method.masks == "shared" else fused
    if rule.by_gate_activation:
        together = (("up", "down"),)
    return Cells.of(layout, names, together)


def check_joint(view: ModelView) -> None:
    """Raise WinaError for a Mixture of Experts, whose bits and sparsities are not allocated together."""
    if view.has_experts:
        raise WinaError(
            "Bits and sparsities are not allocated together for separate experts; choose one quantization for all and "
            "allocate the sparsity by curves."
        )


@dataclass(frozen=True)
class AllocationSubject:
    """A model and the method that gates it, with the method's calibration if it needs one."""

    loaded: LoadedModel
    method: MethodSpec
    calibration: Calibration | None = None

    @property
    def fused(self) -> tuple[tuple[str, ...], ...]:
        """Tuples of the projections whose weights are rows of one matrix."""
        return tuple(names for names in BLOCKS if is_fused(self.loaded.view.layers[0], names))

    def gated(self, plan: SparsityPlan, layers: Sequence[int]) -> AbstractContextManager[Gates]:
        chosen = [self.loaded.view.layers[index] for index in layers]
        # A view counts its layers from 0, and so do its plan and calibration.
        view = replace(self.loaded.view, layers=tuple(layer.at(index) for index, layer in enumerate(chosen)))
        table = tuple(plan.sparsity[index] for index in layers)
        rho = None if plan.rho is None else tuple(plan.rho[index] for index in layers)
        layer_plan = SparsityPlan(layout=view.layout, sparsity=table, provenance=plan.provenance, rho=rho)
        calibration = None if self.calibration is None else self.calibration.of_layers(layers)
        return attach(replace(self.loaded, view=view), self.method, layer_plan, calibration)
