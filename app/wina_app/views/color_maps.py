"""Colours for numbers: a colour-blind-safe map over a stated range, and ink that stays readable on it."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import pyqtgraph as pg
from PySide6.QtGui import QColor

MAGNITUDE = "cividis"
"""For quantities that start at zero; monotone in lightness, so it also reads in grey."""
DIFFERENCE = "CET-CBD1"
"""For signed differences, centred at zero; blue to white to ochre, safe for all common colour vision."""

_STEPS = 256
_DARK_INK = QColor(16, 16, 20)
_LIGHT_INK = QColor(255, 255, 255)


@cache
def lookup_table(name: str) -> np.ndarray:
    """The map as uint8 RGB, shape [256, 3], from low to high."""
    return np.asarray(pg.colormap.get(name).getLookupTable(0.0, 1.0, _STEPS, alpha=False))


@dataclass(frozen=True)
class ColorScale:
    """A colour map over [low, high] with the title and the number format that its colour bar and cells share."""

    title: str
    unit: str
    low: float
    high: float
    text: Callable[[float], str]
    name: str = MAGNITUDE

    def color(self, value: float) -> QColor:
        """The colour of a finite value; values outside the range take the nearest end."""
        span = self.high - self.low
        position = (value - self.low) / span if span > 0 else 0.0
        index = round(min(max(position, 0.0), 1.0) * (_STEPS - 1))
        return QColor(*map(int, lookup_table(self.name)[index]))


def ink_on(background: QColor) -> QColor:
    """Dark or light text, whichever contrasts more; the better of the two is never under 4.5:1."""
    return max((_DARK_INK, _LIGHT_INK), key=lambda ink: contrast(ink, background))


def contrast(first: QColor, second: QColor) -> float:
    """Contrast ratio of two opaque colours, 1 to 21 (WCAG 2.1, relative luminance)."""
    high, low = sorted((_luminance(first), _luminance(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def _luminance(color: QColor) -> float:
    channels = (color.redF(), color.greenF(), color.blueF())
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def percent(value: float) -> str:
    """A fraction as a percentage with one decimal where it has one: 0.5 -> "50", 0.625 -> "62.5"."""
    rounded = round(100.0 * value, 1)
    return f"{rounded:.0f}" if math.isclose(rounded, round(rounded), abs_tol=1e-9) else f"{rounded:.1f}"
