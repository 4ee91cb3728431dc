"""The numbers that the sparsity heatmap can show: tables [layer, projection] in which NaN means "no data"."""

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from wina_core.plan import PlanLayout, SparsityPlan

if TYPE_CHECKING:  # SQLAlchemy takes a second to import: only the store's thread does
    from wina_core.store import Curve, LayerMap


def target_table(plan: SparsityPlan) -> np.ndarray:
    """Target sparsity of every cell, float64 [layers, projections]."""
    return np.asarray(plan.sparsity, dtype=float)


def measured_table(layout: PlanLayout, stored: "LayerMap | None") -> np.ndarray:
    """A stored map in the layout's order, NaN for what it lacks; float64 [layers, projections]."""
    table = _unknown(layout)
    if stored is None:
        return table
    values = np.asarray(stored.values, dtype=float)[: layout.layers]
    for column, projection in enumerate(layout.projections):
        if projection in stored.projections:
            table[: len(values), column] = values[:, stored.projections.index(projection)]
    return table


def predicted_table(plan: SparsityPlan, curves: "Iterable[Curve]") -> np.ndarray:
    """Relative output error of every projection at its target, read linearly off its calibration curve.

    A target of zero costs nothing, whatever the curve's first point; beyond the last point, and where there is no
    curve, the answer is NaN. float64 [layers, projections].
    """
    layout = plan.layout
    table = _unknown(layout)
    for curve in curves:
        if curve.projection in layout.projections and curve.layer < layout.layers:
            column = layout.projections.index(curve.projection)
            starts_at_zero = curve.x[0] == 0
            x = curve.x if starts_at_zero else (0.0, *curve.x)
            y = curve.value if starts_at_zero else (0.0, *curve.value)
            table[curve.layer, column] = np.interp(plan.sparsity[curve.layer][column], x, y, right=math.nan)
    return table


def weighted_mean(layout: PlanLayout, table: np.ndarray) -> float | None:
    """Mean weighted by each matrix's number of weights, as the budget is; None when a value is missing."""
    if np.isnan(table).any():
        return None
    return float(np.average(table, weights=np.asarray(layout.parameters, dtype=float)))


def _unknown(layout: PlanLayout) -> np.ndarray:
    return np.full((layout.layers, len(layout.projections)), math.nan)
