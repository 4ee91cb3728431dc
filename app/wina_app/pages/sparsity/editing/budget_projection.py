"""Projection of a plan onto a budget."""

import numpy as np

Table = np.ndarray[tuple[int, int], np.dtype[np.float64]]
Mask = np.ndarray[tuple[int, int], np.dtype[np.bool_]]

_ROUNDING = 1e-14
"""Largest distance from the budget that counts as met: float64 rounding."""


def balanced(values: Table, parameters: Table, free: Mask, budget: float, highest: float, lowest: float = 0.0) -> Table:
    """Return the table nearest to `values` whose mean, weighted by `parameters`, is `budget`; only `free` cells differ.

    Nearest in the sum of squares weighted by `parameters`, for which all free cells move by the same amount,
    each until it is at `lowest` or at `highest` (or where it was, if that is above). Where the budget cannot be
    reached, all free cells are at the end nearest to it. float64 [layers, projections] and bool of the same shape.

    The conditions of Karush, Kuhn and Tucker say that a free cell is at clip(value + shift) with one shift for all;
    the weighted sum of those is piecewise linear in the shift, with a bend where a cell leaves or reaches an end.
    """
    weights = parameters / parameters.sum()
    missing = budget - float((weights * values).sum())
    if abs(missing) <= _ROUNDING or not free.any():
        return values
    start, weight = values[free], weights[free]
    top = np.maximum(start, highest)
    shift = _shift(start - lowest, top - lowest, weight, missing)
    result = values.copy()
    result[free] = np.clip(start + shift, lowest, top)
    return result


def _shift(start: np.ndarray, top: np.ndarray, weight: np.ndarray, missing: float) -> float:
    """Return the shift that changes the weighted sum of clip(start + shift, 0, top) by `missing` as far as possible."""
    bends = np.concatenate((-start, top - start))  # here a cell begins to follow the shift, and there it stops
    slopes = np.concatenate((weight, -weight))
    order = np.argsort(bends, kind="stable")
    bends, slope = bends[order], np.cumsum(slopes[order])
    sums = np.concatenate(([0.0], np.cumsum(slope[:-1] * np.diff(bends))))
    return float(np.interp(missing + float((weight * start).sum()), sums, bends))
