"""Points, boundaries and histograms of the gate inspector's plots, as log10 values."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wina_app.pages.gate_inspector.view_state import PlannedGate
from wina_core.analysis.gate_views import InspectedCell

MOST_POINTS = 3000
"""Most points drawn, sampled with a fixed seed."""
BINS = 40


@dataclass(frozen=True, eq=False)
class Points:
    """Inputs in the plane of magnitude and weight."""

    token: np.ndarray
    """int64 [points]."""
    neuron: np.ndarray
    x: np.ndarray
    """log10 of the scored magnitude."""
    y: np.ndarray
    """log10 of c."""
    kept_mask: np.ndarray
    """bool."""
    total: int
    """Number of inputs, drawn or not."""


@dataclass(frozen=True, eq=False)
class Boundary:
    """A method's boundary as two points in the plane of `Points`."""

    gate: PlannedGate
    x: tuple[float, float]
    y: tuple[float, float]


@dataclass(frozen=True, eq=False)
class Histogram:
    """Histogram of scores."""

    middles: np.ndarray
    """log10 of scores, [BINS]."""
    width: float
    kept_counts: np.ndarray
    dropped_counts: np.ndarray
    boundaries: tuple[float, ...]
    """log10 of the lowest, median and highest threshold of the tokens; empty if nothing is dropped."""


def rows(token: int | None, tokens: int) -> slice:
    """Return the rows of one token, or of all for None."""
    return slice(tokens) if token is None else slice(token, token + 1)


def logs(values: np.ndarray) -> np.ndarray:
    """Return log10; zeros become a tenth of the least positive value."""
    positive = values[values > 0]
    least = float(positive.min()) / 10 if positive.size else 1.0
    return np.log10(np.maximum(values, least, dtype=np.float64))


def weights(cell: InspectedCell, planned: PlannedGate) -> np.ndarray:
    """Return the plane's second axis: the method's c, or the matrix's column norms if that is 1."""
    return cell.norms if planned.gate.scale is None else planned.gate.scale


def points(cell: InspectedCell, planned: PlannedGate, token: int | None) -> Points:
    """Return the inputs of one token, or of all for None."""
    chosen = rows(token, len(planned.mask))
    magnitudes = planned.gate.magnitudes[chosen]
    total = magnitudes.size
    picked = np.arange(total)
    if total > MOST_POINTS:
        picked = np.sort(np.random.default_rng(0).choice(total, MOST_POINTS, replace=False))
    row, neuron = np.divmod(picked, magnitudes.shape[1])
    return Points(
        token=row + (token or 0),
        neuron=neuron,
        x=logs(magnitudes.reshape(-1)[picked]),
        y=logs(weights(cell, planned))[neuron],
        kept_mask=planned.mask[chosen].reshape(-1)[picked],
        total=total,
    )


def boundaries(
    cell: InspectedCell, gates: Sequence[PlannedGate], current: PlannedGate, token: int | None
) -> list[Boundary]:
    """Return the boundaries of methods in the shown one's plane: vertical for c = 1, a hyperbola for its own c, which
    is straight in log10. All tokens have their median's."""
    axis, lines = weights(cell, current), []
    low, high = float(logs(axis).min()), float(logs(axis).max())
    low, high = low - 0.05, high + 0.05
    for planned in gates:
        thresholds = finite(planned.boundaries[rows(token, len(planned.mask))])
        if planned.gate.decision.scored != current.gate.decision.scored or not thresholds.size:
            continue
        level = float(logs(np.array([np.median(thresholds)]))[0])
        if planned.gate.scale is None:
            lines.append(Boundary(planned, (level, level), (low, high)))
        elif np.array_equal(planned.gate.scale, axis):
            lines.append(Boundary(planned, (level - low, level - high), (low, high)))
    return lines


def histogram(planned: PlannedGate, token: int | None) -> Histogram:
    """Return the histogram of a method's scores, of one token or of all for None."""
    chosen = rows(token, len(planned.mask))
    scores, kept_mask = logs(planned.gate.scores[chosen]).reshape(-1), planned.mask[chosen].reshape(-1)
    low, high = float(scores.min()), float(scores.max())
    edges = np.linspace(low, high if high > low else low + 1.0, BINS + 1)
    thresholds = finite(planned.boundaries[chosen])
    levels = np.quantile(thresholds, (0.0, 0.5, 1.0), method="nearest") if thresholds.size else np.empty(0)
    return Histogram(
        middles=(edges[1:] + edges[:-1]) / 2,
        width=float(edges[1] - edges[0]),
        kept_counts=np.histogram(scores[kept_mask], edges)[0],
        dropped_counts=np.histogram(scores[~kept_mask], edges)[0],
        boundaries=tuple(dict.fromkeys(float(level) for level in np.log10(levels[levels > 0]))),
    )


def finite(values: np.ndarray) -> np.ndarray:
    """Return the finite values."""
    return values[np.isfinite(values)]


def order(cell: InspectedCell, planned: PlannedGate, by: str) -> np.ndarray:
    """Return neurons, int64 [n], by "index", or descending by "norm" or by the "kept" share."""
    if by == "norm":
        return np.argsort(-weights(cell, planned), kind="stable")
    if by == "kept":
        return np.argsort(-planned.mask.sum(axis=0), kind="stable")
    return np.arange(planned.mask.shape[1])
