"""Curves over sparsity for all cells of a plan."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from wina_core.specs.plans import PlanLayout

if TYPE_CHECKING:  # SQLAlchemy takes a second to import: only the store's thread does
    from wina_core.store.rows import CellStat


@dataclass(frozen=True, eq=False)
class CellCurves:
    """Piecewise linear curves on one grid."""

    x: np.ndarray
    """Sparsities, ascending, float64 [points]."""
    values: np.ndarray
    """float64 [layers, projections, points], NaN where nothing is known."""

    @classmethod
    def of(cls, layout: PlanLayout, stats: "Iterable[CellStat]", at_zero: float | None = None) -> Self | None:
        """Return the curves of one metric, or None without data. `at_zero` is its value at sparsity 0."""
        points: dict[tuple[int, str], dict[float, float]] = {}
        for row in stats:
            if row.x is not None and row.layer < layout.layers and row.projection in layout.projections:
                start = {} if at_zero is None else {0.0: at_zero}
                points.setdefault((row.layer, row.projection), start)[row.x] = row.value
        if not points:
            return None
        x = np.array(sorted({sparsity for curve in points.values() for sparsity in curve}))
        values = np.full((layout.layers, len(layout.projections), len(x)), np.nan)
        for (layer, projection), curve in points.items():
            measured = sorted(curve)
            heights = [curve[sparsity] for sparsity in measured]
            column = layout.projections.index(projection)
            values[layer, column] = np.interp(x, measured, heights, left=np.nan, right=np.nan)
        return cls(x, values)

    def at(self, sparsity: np.ndarray) -> np.ndarray:
        """Return each cell's value at its sparsity, both [layers, projections]; NaN beyond a curve's ends."""
        if len(self.x) < 2:
            return np.where(sparsity == self.x[0], self.values[..., 0], np.nan)
        lower = np.clip(np.searchsorted(self.x, sparsity, side="right") - 1, 0, len(self.x) - 2)
        left, right = self.x[lower], self.x[lower + 1]
        below, above = (
            np.take_along_axis(self.values, index[..., None], axis=-1)[..., 0] for index in (lower, lower + 1)
        )
        share = (sparsity - left) / (right - left)
        between = np.where(share <= 0, below, np.where(share >= 1, above, below + share * (above - below)))
        tolerance = 1e-9  # of targets such as 0.95, which a step of 0.05 may miss by a rounding error
        return np.where((share < -tolerance) | (share > 1 + tolerance), np.nan, between)
