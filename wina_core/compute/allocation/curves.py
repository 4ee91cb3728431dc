"""Allocation over cells with cost curves: a Lagrangian on lower convex hulls, with its bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Curve:
    """A cell's cost over its sparsity, linear between points of ascending sparsity."""

    sparsity: Array
    cost: Array

    def at(self, sparsity: float) -> float:
        """Return the cost at a sparsity within the curve."""
        return float(np.interp(sparsity, self.sparsity, self.cost))


@dataclass(frozen=True)
class Spread:
    """A budget spread over curves."""

    values: tuple[float, ...]
    cost: float
    """Sum of the curves at `values`."""
    bound: float
    """Lower bound of the cost for this budget."""


def lower_hull(curve: Curve) -> Curve:
    """Return the largest convex function below the curve, through some of its points (Andrew's monotone chain)."""
    kept: list[int] = []
    x, y = curve.sparsity, curve.cost
    for point in range(len(x)):
        while len(kept) >= 2:
            before, last = kept[-2:]
            if (y[last] - y[before]) * (x[point] - x[before]) < (y[point] - y[before]) * (x[last] - x[before]):
                break
            kept.pop()
        kept.append(point)
    return Curve(x[kept], y[kept])


def spread(curves: Sequence[Curve], weights: Sequence[float], budget: float) -> Spread:
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
    order = np.argsort(np.concatenate(slopes), kind="stable")
    if room < -1e-9 or room > float(weight @ [hull.sparsity[-1] for hull in hulls] - weight @ values) + 1e-9:
        raise ValueError("the budget is out of the curves' reach")
    for cell, width in zip(np.concatenate(cells)[order], np.concatenate(widths)[order], strict=True):
        taken = min(width, max(room, 0.0) / weight[cell])
        values[cell] += taken
        room -= taken * weight[cell]
    found = tuple(
        float(np.clip(value, curve.sparsity[0], curve.sparsity[-1]))
        for value, curve in zip(values, curves, strict=True)
    )
    return Spread(
        values=found,
        cost=sum(curve.at(value) for curve, value in zip(curves, found, strict=True)),
        bound=sum(hull.at(value) for hull, value in zip(hulls, found, strict=True)),
    )


def between(sparsities: Sequence[float], costs: Sequence[float], step: float) -> Curve:
    """Return a measured curve on a grid of about `step`, its square root linear between the measurements.

    A divergence grows as the square of its error, which grows almost linearly. Negative costs, from rounding, count as
    0.
    """
    count = max(1, round((sparsities[-1] - sparsities[0]) / step))
    grid = np.union1d(np.linspace(sparsities[0], sparsities[-1], count + 1), sparsities)
    roots = np.sqrt(np.maximum(np.asarray(costs, dtype=np.float64), 0.0))
    return Curve(grid, np.interp(grid, sparsities, roots) ** 2)


def parabola(sparsities: Sequence[float], costs: Sequence[float], reach: float, points: int = 9) -> Curve:
    """Return the parabola through three measurements, within `reach` of the middle one, at `points` sparsities.

    If the middle one lies at an end (a cell at 0), two are left, joined by a line. The curve stays within the
    measurements.
    """
    x, y = np.unique(sparsities, return_index=True)
    centre = sparsities[1]
    grid = np.union1d(np.linspace(max(x[0], centre - reach), min(x[-1], centre + reach), points), [centre])
    coefficients = np.polyfit(x - centre, np.asarray(costs, dtype=np.float64)[y], len(x) - 1)
    return Curve(grid, np.asarray(np.polyval(coefficients, grid - centre), dtype=np.float64))
