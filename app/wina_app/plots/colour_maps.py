"""Colours for numbers: a colour-blind-safe map over a stated range."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import pyqtgraph as pg
from PySide6.QtGui import QColor

from wina_app.style.theme import magnitude_map, tokens

MAGNITUDE = "magnitude"
"""For quantities that start at zero: the map that the user prefers, monotone in lightness, so it also reads in grey."""
DIFFERENCE = "CET-CBD1"
"""For signed differences, centred at zero; blue to white to ochre, safe for all common colour vision."""
HIGHLIGHT = "highlight"
"""For the ground of texts: from next to the page's own ground to what stands out from it most."""
_LIGHT_HIGHLIGHT = "CET-L18"
"""White, yellow, red; the map for magnitudes begins dark, which stands out from a light ground most."""

_STEPS = 256


def lookup_table(name: str) -> np.ndarray:
    """The map as uint8 RGB, shape [256, 3], from low to high."""
    return _table(_map_named(name))


def _map_named(name: str) -> str:
    """pyqtgraph's name of what the theme shows for a name of ours."""
    if name == HIGHLIGHT and not tokens().dark:
        return _LIGHT_HIGHLIGHT
    return magnitude_map() if name in (MAGNITUDE, HIGHLIGHT) else name


@cache
def _table(name: str) -> np.ndarray:
    return np.asarray(pg.colormap.get(name).getLookupTable(0.0, 1.0, _STEPS, alpha=False))


@cache
def _colours(name: str) -> tuple[QColor, ...]:
    return tuple(QColor(*rgb) for rgb in _table(name).tolist())


@dataclass(frozen=True)
class ColourScale:
    """A colour map over [low, high], with the title, unit and number format that colour bar and cells share."""

    title: str
    unit: str
    low: float
    high: float
    text: Callable[[float], str]
    name: str = MAGNITUDE

    def colour(self, value: float) -> QColor:
        """The colour of a finite value, not to be changed; values outside the range take the nearest end."""
        span = self.high - self.low
        position = (value - self.low) / span if span > 0 else 0.0
        index = round(min(max(position, 0.0), 1.0) * (_STEPS - 1))
        return _colours(_map_named(self.name))[index]


def percent(value: float) -> str:
    """A fraction as a percentage with one decimal where it has one: 0.5 -> "50", 0.625 -> "62.5"."""
    rounded = round(100.0 * value, 1)
    return f"{rounded:.0f}" if math.isclose(rounded, round(rounded), abs_tol=1e-9) else f"{rounded:.1f}"


def percent_with_decimal(value: float) -> str:
    """A fraction as a percentage with exactly one decimal: 0.5 -> "50.0"."""
    return f"{100.0 * value:.1f}"


def signed_points(value: float) -> str:
    """A difference of fractions in percentage points, with its sign: -0.012 -> "−1.2"."""
    rounded = round(100.0 * value, 1) + 0.0
    return f"{rounded:+.1f}".replace("-", "\N{MINUS SIGN}") if rounded else "0"


def three_digits(value: float) -> str:
    """Three significant digits at most: 0.02134 -> "0.0213"."""
    return f"{value:.3g}"


_CATEGORIES = ("#0072B2", "#56B4E9", "#009E73", "#CC79A7", "#D55E00", "#E69F00", "#8A4BE0")
"""Okabe and Ito's hues, and a violet, for lines that have no colour of their own; safe for all common colour vision."""


def category(index: int) -> QColor:
    """The colour of the index-th of some equal lines, for example projections."""
    return QColor(_CATEGORIES[index % len(_CATEGORIES)])
