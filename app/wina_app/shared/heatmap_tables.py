"""Names, explanations and colour scales of the sparsity heatmap's tables."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from wina_app.plots.colour_maps import (
    DIFFERENCE,
    ColourScale,
    percent,
    percent_with_decimal,
    signed_points,
    three_digits,
)
from wina_core.specs import Selection
from wina_core.specs.quantization import PLANES_BITS, WEIGHT_BITS

MapKey = Literal[
    "target", "measured", "difference", "change", "threshold", "predicted", "kl", "kept", "residual", "spread", "bits"
]
MAP_KEYS: tuple[MapKey, ...] = get_args(MapKey)
BITS_STOPS = tuple(sorted({*map(float, WEIGHT_BITS), *map(float, PLANES_BITS)}))
"""Bits at equal distances on the colour map: linearly, 2 and 3 would look alike."""


@dataclass(frozen=True)
class MapTexts:
    """A table's name on the switch, the colour bar's title and unit, and an explanation."""

    name: str
    title: str
    unit: str
    explanation: str


_TEXTS: dict[MapKey, MapTexts] = {
    "target": MapTexts(
        "Target",
        "Target sparsity",
        "%",
        "The plan: the fraction of each matrix's inputs to drop",
    ),
    "measured": MapTexts(
        "Measured",
        "Measured sparsity",
        "%",
        "Dropped fraction, counted from the masks of the latest stored run with this plan",
    ),
    "difference": MapTexts(
        "Measured − target",
        "Measured minus target",
        "points",
        "How far the latest stored run with this plan missed its targets, in percentage points",
    ),
    "change": MapTexts(
        "Difference to another plan",
        "This plan minus the other",
        "points",
        "Targets of this plan minus those of the plan that it is compared with, in percentage points",
    ),
    "threshold": MapTexts(
        "Threshold",
        "Threshold",
        "",
        (
            "The calibrated value that a token's scores must exceed to be kept at the target; top-k selection "
            "needs none, and is shown that of plain thresholds"
        ),
    ),
    "predicted": MapTexts(
        "Predicted error",
        "Predicted relative output error",
        "",
        (
            "Norm of what gating changes in each matrix's output, over the norm of that output: at its target, "
            "on the dense model's inputs, read off the stored calibration, which keeps each token's own top k "
            "whatever the selection"
        ),
    ),
    "kl": MapTexts(
        "Predicted KL",
        "KL from dense that each cell causes alone",
        "nats per token",
        (
            "KL divergence of the model's next-token distribution from the dense model's when this cell alone "
            "is gated at its target, read off the stored curves, which are measured with each token's own top "
            "k whatever the selection; cells that share a mask share it"
        ),
    ),
    "bits": MapTexts(
        "Bits",
        "Code width",
        "bits",
        (
            "The bits of each matrix's codes, in which the model is quantized after rotating; 16 leaves a "
            "matrix as it is. Scales and zeros come on top, except in planes by energy"
        ),
    ),
    "kept": MapTexts(
        "Kept energy",
        "Kept energy",
        "%",
        (
            "Share of the sum of (|x| c)² that the kept inputs carry at the target, c being "
            "the norms of the matrix's columns: 1 − error² if these were orthogonal"
        ),
    ),
    "residual": MapTexts(
        "Off-diagonal energy",
        "Off-diagonal energy of WᵀW",
        "",
        (
            "Squared off-diagonal entries of WᵀW over all its squared entries: 0 "
            "where the columns are orthogonal, as the gate's bound assumes; depends on the rotation alone"
        ),
    ),
    "spread": MapTexts(
        "Column-norm spread",
        "Standard deviation over mean of column norms",
        "",
        (
            "How unequal the norms of each matrix's columns are: 0 where all are as long, so that WINA's masks "
            "are TEAL's; depends on the rotation alone"
        ),
    ),
}


def map_texts(key: MapKey) -> MapTexts:
    return _TEXTS[key]


def scale_for(key: MapKey, values: np.ndarray, selection: Selection = "topk") -> ColourScale:
    """Return a table's scale: 0 to 100 % for sparsities, so that plans compare, else the span of the data."""
    texts = map_texts(key)
    match key:
        case "target" | "measured":
            whole = np.allclose(percentages := 100 * values[~np.isnan(values)], np.round(percentages), atol=0.05)
            return ColourScale(texts.title, "%", 0.0, 1.0, percent if whole else percent_with_decimal)
        case "difference" | "change":
            reach = max(0.01, _round_up(_largest(np.abs(values))))
            return ColourScale(texts.title, texts.unit, -reach, reach, signed_points, DIFFERENCE)
        case "bits":
            return ColourScale(texts.title, texts.unit, BITS_STOPS[0], BITS_STOPS[-1], bits_text, stops=BITS_STOPS)
        case "kept":
            low = 1.0 - (_round_up(_largest(1.0 - values)) or 1.0)
            return ColourScale(texts.title, "%", max(low, 0.0), 1.0, percent_with_decimal)
        case "threshold":
            return ColourScale(
                texts.title, _threshold_unit(selection), 0.0, _round_up(_largest(values)) or 1.0, threshold_text
            )
        case _:
            return ColourScale(texts.title, texts.unit, 0.0, _round_up(_largest(values)) or 1.0, three_digits)


def bits_text(value: float) -> str:
    return f"{round(value, 2):g}"


def _threshold_unit(selection: Selection) -> str:
    match selection:
        case "statistical":
            return "standard deviations above the token's mean"
        case "top_p":
            return "share of the token's mass that is not above it"
        case _:
            return "score, |x| c"


def threshold_text(value: float) -> str:
    """Write a threshold; a negative one, as of a target of 0, keeps everything."""
    return "none" if value < 0 else three_digits(value)


def _largest(values: np.ndarray) -> float:
    finite = values[~np.isnan(values)]
    return float(finite.max()) if finite.size else 0.0


def _round_up(value: float) -> float:
    """Return the next round number, at most a third larger."""
    if value <= 0:
        return 0.0
    power = 10.0 ** math.floor(math.log10(value))
    # The tolerance is for values that exceed a round number by a rounding error alone.
    return next(power * step for step in (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10) if power * step >= value * (1 - 1e-9))
