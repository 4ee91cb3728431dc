"""Colours for numbers: colour-blind-safe maps over a stated range."""

import math
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from pyqtgraph import colormap
from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QBrush, QColor, QPainter

from wina_app.style.theme import magnitude_map, tokens

MAGNITUDE = "magnitude"
"""For quantities that start at zero: the map that the user prefers, monotone in lightness, so it also reads in grey."""
DIFFERENCE = "CET-CBD1"
"""For signed differences, centred at zero; blue to white to ochre, safe for all common colour vision."""
HIGHLIGHT = "highlight"
"""For the background of texts: from near the page's background to the most prominent colour on it."""
_LIGHT_HIGHLIGHT = "CET-L18"
"""White, yellow, red: the map for magnitudes begins dark, which is the most prominent end on a light background."""

_STEPS = 256
_RAMP = 32
"""Colours of a map in a figure; between two of them the eye sees no difference."""
_FINE_RAMP = 57
"""Colours of a map with stops, whose distances differ: for 2 to 16 bits one for each quarter of a bit."""


def lookup_table(name: str) -> np.ndarray:
    """Return the map's colours from low to high, uint8 [256, 3] as RGB."""
    return _table(_map_named(name))


def _map_named(name: str) -> str:
    """Return pyqtgraph's name of the map that the theme shows under one of the names above."""
    if name == HIGHLIGHT and not tokens().dark:
        return _LIGHT_HIGHLIGHT
    return magnitude_map() if name in (MAGNITUDE, HIGHLIGHT) else name


@cache
def _table(name: str) -> np.ndarray:
    return colormap.get(name).getLookupTable(nPts=_STEPS)[:, :3]


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
    stops: tuple[float, ...] = ()
    """Ascending values at equal distances on the map, from `low` to `high`; empty for a linear scale."""

    @property
    def heading(self) -> str:
        return f"{self.title} ({self.unit})" if self.unit else self.title

    def colour(self, value: float) -> QColor:
        """Return the colour of a finite value, the nearest end's outside the range; the caller must not change it."""
        index = round(min(max(self._position(value), 0.0), 1.0) * (_STEPS - 1))
        return _colours(_map_named(self.name))[index]

    def ramp(self) -> tuple[str, ...]:
        """Return colours at equal distances from `low` to `high`, as "#rrggbb"."""
        count = _FINE_RAMP if self.stops else _RAMP
        values = (self.low + (self.high - self.low) * step / (count - 1) for step in range(count))
        return tuple(self.colour(value).name() for value in values)

    @property
    def marks(self) -> tuple[float, ...]:
        """Values at equal distances on the map, to be named beside it."""
        return self.stops or (self.low, (self.low + self.high) / 2, self.high)

    def _position(self, value: float) -> float:
        span = self.high - self.low
        if not self.stops:
            return (value - self.low) / span if span > 0 else 0.0
        above = min(max(bisect_right(self.stops, value), 1), len(self.stops) - 1)
        low, high = self.stops[above - 1], self.stops[above]
        return (above - 1 + (value - low) / (high - low)) / (len(self.stops) - 1)


def percent(value: float) -> str:
    """Write a fraction as a percentage, with one decimal where it has one: 0.5 -> "50", 0.625 -> "62.5"."""
    rounded = round(100.0 * value, 1)
    return f"{rounded:.0f}" if math.isclose(rounded, round(rounded), abs_tol=1e-9) else f"{rounded:.1f}"


def percent_with_decimal(value: float) -> str:
    return f"{100.0 * value:.1f}"


def signed_points(value: float) -> str:
    """Write a difference of fractions in percentage points, with its sign: -0.012 -> "−1.2"."""
    rounded = round(100.0 * value, 1) + 0.0
    return f"{rounded:+.1f}".replace("-", "\N{MINUS SIGN}") if rounded else "0"


def three_digits(value: float) -> str:
    return f"{value:.3g}"


_CATEGORIES = ("#0072B2", "#56B4E9", "#009E73", "#CC79A7", "#D55E00", "#E69F00", "#8A4BE0")
"""Okabe and Ito's hues, and a violet, for lines that have no colour of their own; safe for all common colour vision."""


def category(index: int) -> QColor:
    return QColor(_CATEGORIES[index % len(_CATEGORIES)])


def hatch(painter: QPainter, rect: QRectF) -> None:
    """Fill an area with the pattern for "no data"."""
    painter.fillRect(rect, QColor(tokens().raised))
    painter.setBrushOrigin(rect.topLeft())
    painter.fillRect(rect, QBrush(QColor(tokens().border), Qt.BrushStyle.BDiagPattern))
