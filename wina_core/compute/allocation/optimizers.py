"""The arithmetic of the allocators, on numbers alone.

- Cost curves of cells: a Lagrangian on lower convex hulls, with its bound.
- Marginal costs: targets at which one more dropped weight costs the same divergence everywhere, by measurements in the
  gated model. A band's rate is the rise of the divergence per weight where its targets are raised alone. The logarithm
  of the divergence rises about linearly with the sparsity, and so does that of a rate: a band at r times the mean rate
  is moved by -log(r) / slope.
- Evolution: breeding and survival over sparsities and, for R-Sparse, rho. R-Sparse (Zhang et al., "R-Sparse:
  Rank-Aware Activation Sparsity for Efficient LLM Inference") searches rho at given sparsities; here the sparsities are
  searched too, under the budget.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wina_core.compute.allocation.cells import MAX_TARGET, Cells, PlanCandidate, Values

Array = NDArray[np.float64]


@dataclass(frozen=True)
class CostCurve:
    """A cell's cost over its sparsity, linear between points of ascending sparsity."""

    sparsity: Array
    cost: Array

    def at(self, sparsity: float) -> float:
        return float(np.interp(sparsity, self.sparsity, self.cost))


@dataclass(frozen=True)
class BudgetSpread:
    """A budget spread over curves."""

    values: tuple[float, ...]
    cost: float
    """Sum of the curves at `values`."""
    bound: float
    """Lower bound of the cost for this budget."""


def lower_hull(curve: CostCurve) -> CostCurve:
    """Return the largest convex function below the curve, through some of its points (Andrew's monotone chain)."""
    corners: list[int] = []
    x, y = curve.sparsity, curve.cost
    for point in range(len(x)):
        while len(corners) >= 2:
            before, last = corners[-2:]
            if (y[last] - y[before]) * (x[point] - x[before]) < (y[point] - y[before]) * (x[last] - x[before]):
                break
            corners.pop()
        corners.append(point)
    return CostCurve(x[corners], y[corners])


def spread(curves: Sequence[CostCurve], weights: Sequence[float], budget: float) -> BudgetSpread:
    """Return values s with sum w_i s_i = budget that minimize sum f_i(s_i), up to a proven gap.

    min over s of sum f_i >= min over s of sum hull(f_i) = max over the multiplier of the Lagrangian dual. The minimum
    on the hulls takes their segments by ascending slope per weight until the budget is met: all values are corners of
    hulls, where f_i = hull(f_i), except that of the last segment. So the gap is one cell's distance from its hull.
    Raises ValueError for a budget beyond the curves' ends.
    """
    hulls = [lower_hull(curve) for curve in curves]
    weight = np.asarray(weights, dtype=np.float64)
    values = np.array([hull.sparsity[0] for hull in hulls])
    room = budget - float(weight @ values)
    slopes, cells, widths = [], [], []
    for cell, hull in enumerate(hulls):
        width = np.diff(hull.sparsity)
        slopes.append(np.diff(hull.cost) / (width * weight[cell]))
        widths.append(width)
        cells.append(np.full(len(width), cell))
    # Slopes of a convex hull rise, so the order keeps each cell's segments in sequence.
    order = np.argsort(np.concatenate(slopes), kind="stable")
    if room < -1e-9 or room > float(weight @ [hull.sparsity[-1] for hull in hulls] - weight @ values) + 1e-9:
        raise ValueError("the budget is out of the curves' reach")
    for cell, width in zip(np.concatenate(cells)[order], np.concatenate(widths)[order], strict=True):
        added = min(width, max(room, 0.0) / weight[cell])
        values[cell] += added
        room -= added * weight[cell]
    fitted = tuple(
        float(np.clip(value, curve.sparsity[0], curve.sparsity[-1]))  # a sum of segments passes an end by rounding
        for value, curve in zip(values, curves, strict=True)
    )
    return BudgetSpread(
        values=fitted,
        cost=sum(curve.at(value) for curve, value in zip(curves, fitted, strict=True)),
        bound=sum(hull.at(value) for hull, value in zip(hulls, fitted, strict=True)),
    )


def between(sparsities: Sequence[float], costs: Sequence[float], step: float) -> CostCurve:
    """Return a measured curve on a grid of about `step`, its square root linear between the measurements.

    A divergence grows as the square of its error, which grows almost linearly. Negative costs, from rounding, count as
    0.
    """
    count = max(1, round((sparsities[-1] - sparsities[0]) / step))
    grid = np.union1d(np.linspace(sparsities[0], sparsities[-1], count + 1), sparsities)
    roots = np.sqrt(np.maximum(np.asarray(costs, dtype=np.float64), 0.0))
    return CostCurve(grid, np.interp(grid, sparsities, roots) ** 2)


def parabola(sparsities: Sequence[float], costs: Sequence[float], reach: float) -> CostCurve:
    """Return the parabola through three measurements, within `reach` of the middle one, at nine sparsities.

    If the middle one lies at an end (a cell at 0), two are left, joined by a line. The curve stays within the
    measurements.
    """
    x, y = np.unique(sparsities, return_index=True)
    centre = sparsities[1]
    grid = np.union1d(np.linspace(max(x[0], centre - reach), min(x[-1], centre + reach), 9), [centre])
    coefficients = np.polyfit(x - centre, np.asarray(costs, dtype=np.float64)[y], len(x) - 1)
    return CostCurve(grid, np.asarray(np.polyval(coefficients, grid - centre), dtype=np.float64))


PROBED_RISE = 0.1
"""Rise of a band's targets in a measurement; the divergence of a smaller one is lost in noise."""
DAMPINGS = (1.0, 0.7, 0.4)
"""Shares of the move that are tried: rates change while others move."""
_MIDDLE_BANDS = 6
_LEAST_RATE = 0.1
"""Lowest rate, over the mean; lower ones are raised to it, since noise makes some negative."""

Band = tuple[int, ...]
"""Indices of blocks that move together."""


def bands(cells: Cells) -> list[Band]:
    """Return the blocks of equal projections in neighbouring layers: the first and the last layer's alone, others in
    six sections. Few bands are measured more precisely and faster than each block."""
    last = cells.layout.layers - 1
    grouped: dict[tuple[tuple[int, ...], int], list[int]] = {}
    for index, block in enumerate(cells.blocks):
        section = 0 if block.layer == 0 else _MIDDLE_BANDS + 1
        if 0 < block.layer < last:
            section = 1 + (block.layer - 1) * min(_MIDDLE_BANDS, last - 1) // (last - 1)
        grouped.setdefault((block.columns, section), []).append(index)
    return [tuple(indices) for indices in grouped.values()]


def raised(values: Sequence[float], band: Sequence[int]) -> Values:
    return tuple(min(value + PROBED_RISE, MAX_TARGET) if index in band else value for index, value in enumerate(values))


def levelled(
    cells: Cells, budget: float, values: Values, cost: float, whole: float, costs: Sequence[float]
) -> list[Values]:
    """Return the values that level the rates, for each of `DAMPINGS`, of the budget; none without a rise to measure.

    `cost` is the divergence at `values`, `whole` that with all of them raised, `costs` those of each of `bands`.
    """
    all_bands, every = bands(cells), range(len(values))
    before = cells.budget(values)
    total, *rises = (cells.budget(raised(values, band)) - before for band in (every, *all_bands))
    if not 0 < cost < whole or total <= 0:
        return []
    slope = math.log(whole / cost) * sum(cells.weights) / total
    differences = [band_cost - cost for band_cost in costs]
    mean = sum(differences) / sum(rises)
    if mean <= 0:
        return []
    moves = [0.0] * len(values)
    for band, difference, rise in zip(all_bands, differences, rises, strict=True):
        for block in band if rise > 0 else ():
            moves[block] = -math.log(max(difference / rise / mean, _LEAST_RATE)) / slope
    return [
        cells.fitted([value + damping * move for value, move in zip(values, moves, strict=True)], budget)
        for damping in DAMPINGS
    ]


POPULATION = 8
"""Parents kept and children bred in each generation."""
_MUTATED = 0.25
"""Fraction of a child's blocks that mutate."""
_SPREAD = 4
"""Standard deviation of a mutation, in steps."""
MIN_RHO = 0.5


@dataclass(frozen=True)
class Individual(PlanCandidate):
    """A candidate with its divergence once measured."""

    cost: float = float("inf")


def children(
    parents: Sequence[Individual], cells: Cells, budget: float, step: float, generator: np.random.Generator
) -> list[Individual]:
    """Breed POPULATION children of the budget: each block from either of two parents, then a few of them mutated.

    Each parent is the better of two drawn at random. `step` is the unit of mutations.
    """
    return [_child(_drawn(parents, generator), _drawn(parents, generator), cells, budget, step, generator)
            for _ in range(POPULATION)]  # fmt: skip


def survivors(population: Sequence[Individual]) -> list[Individual]:
    # Parents come first and the sort is stable, so the older one survives among equals.
    return sorted(population, key=lambda individual: individual.cost)[:POPULATION]


def _drawn(parents: Sequence[Individual], generator: np.random.Generator) -> Individual:
    first, second = generator.integers(len(parents), size=2)
    return min(parents[first], parents[second], key=lambda parent: parent.cost)


def _child(
    mother: Individual, father: Individual, cells: Cells, budget: float, step: float, generator: np.random.Generator
) -> Individual:
    blocks = len(mother.values)
    from_mother = generator.random(blocks) < 0.5
    values = np.where(from_mother, mother.values, father.values)
    values = values + _mutation(blocks, step, generator)
    rho = None
    if mother.rho is not None and father.rho is not None:
        shares = np.where(from_mother, mother.rho, father.rho) + _mutation(blocks, step, generator)
        rho = tuple(np.clip(shares, MIN_RHO, 1.0).tolist())
    # Crossing and mutation leave the budget; all values shift to return to it.
    return Individual(cells.fitted(values.tolist(), budget), rho)


def _mutation(blocks: int, step: float, generator: np.random.Generator) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    change = generator.normal(0.0, _SPREAD * step, blocks)
    return np.where(generator.random(blocks) < _MUTATED, change, 0.0)
