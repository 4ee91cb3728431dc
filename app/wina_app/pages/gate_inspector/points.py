"""What the gate inspector's plots draw: points, boundaries and histograms as plain numbers, in powers of ten."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wina_app.pages.gate_inspector.view_state import GateNow
from wina_core.masks.inspect import InspectedCell

MOST_POINTS = 3000
"""Of all tokens' inputs so many are drawn, chosen by a fixed seed; more would be one blot, drawn slowly."""
BINS = 40


@dataclass(frozen=True, eq=False)
class Points:
    """Inputs in the plane of what is scored and what weighs it."""

    token: np.ndarray
    """int64 [points]."""
    neuron: np.ndarray
    x: np.ndarray
    """log10 of the magnitude that is scored."""
    y: np.ndarray
    """log10 of c."""
    kept: np.ndarray
    """bool."""
    total: int
    """Inputs that there are, drawn or not."""


@dataclass(frozen=True, eq=False)
class Boundary:
    """Where a method draws the line, as two points in the plane of `Points`."""

    gate: GateNow
    x: tuple[float, float]
    y: tuple[float, float]


@dataclass(frozen=True, eq=False)
class Histogram:
    """How many inputs have which score."""

    middles: np.ndarray
    """log10 of scores, [BINS]."""
    width: float
    kept: np.ndarray
    dropped: np.ndarray
    boundaries: tuple[float, ...]
    """log10 of the lowest, the middle and the highest of the tokens', or of the one there is; none where nothing is
    dropped."""


def rows(token: int | None, tokens: int) -> slice:
    """The rows of one token, or of all for None."""
    return slice(tokens) if token is None else slice(token, token + 1)


def logs(values: np.ndarray) -> np.ndarray:
    """log10, zeros standing a tenth below the least value that is none."""
    positive = values[values > 0]
    least = float(positive.min()) / 10 if positive.size else 1.0
    return np.log10(np.maximum(values, least, dtype=np.float64))


def weights(cell: InspectedCell, now: GateNow) -> np.ndarray:
    """What the plane's second axis is: the c of the method or, where that is 1, the matrix's own column norms."""
    return cell.norms if now.gate.scale is None else now.gate.scale


def points(cell: InspectedCell, now: GateNow, token: int | None) -> Points:
    """The inputs of one token, or of all."""
    chosen = rows(token, len(now.mask))
    magnitudes = now.gate.magnitudes[chosen]
    total = magnitudes.size
    picked = np.arange(total)
    if total > MOST_POINTS:
        picked = np.sort(np.random.default_rng(0).choice(total, MOST_POINTS, replace=False))
    row, neuron = np.divmod(picked, magnitudes.shape[1])
    return Points(
        token=row + (token or 0),
        neuron=neuron,
        x=logs(magnitudes.reshape(-1)[picked]),
        y=logs(weights(cell, now))[neuron],
        kept=now.mask[chosen].reshape(-1)[picked],
        total=total,
    )


def boundaries(cell: InspectedCell, gates: Sequence[GateNow], shown: GateNow, token: int | None) -> list[Boundary]:
    """The line of every method that has one in the plane of the shown one: vertical where c = 1, and where it weighs by
    the plane's own c the hyperbola, straight in powers of ten. Of all tokens the middle one's."""
    axis, found = weights(cell, shown), []
    low, high = float(logs(axis).min()), float(logs(axis).max())
    low, high = low - 0.05, high + 0.05
    for now in gates:
        known = finite(now.boundaries[rows(token, len(now.mask))])
        if now.gate.decision.scored != shown.gate.decision.scored or not known.size:
            continue
        level = float(logs(np.array([np.median(known)]))[0])
        if now.gate.scale is None:
            found.append(Boundary(now, (level, level), (low, high)))
        elif np.array_equal(now.gate.scale, axis):
            found.append(Boundary(now, (level - low, level - high), (low, high)))
    return found


def histogram(now: GateNow, token: int | None) -> Histogram:
    """The shown method's scores of one token, or of all."""
    chosen = rows(token, len(now.mask))
    scores, kept = logs(now.gate.scores[chosen]).reshape(-1), now.mask[chosen].reshape(-1)
    low, high = float(scores.min()), float(scores.max())
    edges = np.linspace(low, high if high > low else low + 1.0, BINS + 1)
    known = finite(now.boundaries[chosen])
    levels = np.quantile(known, (0.0, 0.5, 1.0), method="nearest") if known.size else np.empty(0)
    return Histogram(
        middles=(edges[1:] + edges[:-1]) / 2,
        width=float(edges[1] - edges[0]),
        kept=np.histogram(scores[kept], edges)[0],
        dropped=np.histogram(scores[~kept], edges)[0],
        boundaries=tuple(dict.fromkeys(float(each) for each in np.log10(levels[levels > 0]))),
    )


def finite(values: np.ndarray) -> np.ndarray:
    """Those that are numbers."""
    return values[np.isfinite(values)]


def order(cell: InspectedCell, now: GateNow, by: str) -> np.ndarray:
    """Neurons, int64 [n], by "index", or from the highest down by "norm" or by the "kept" share of the tokens."""
    if by == "norm":
        return np.argsort(-weights(cell, now), kind="stable")
    if by == "kept":
        return np.argsort(-now.mask.sum(axis=0), kind="stable")
    return np.arange(now.mask.shape[1])
