"""Calibrated cuts between the targets at which they are kept. Light."""

from collections.abc import Sequence
from typing import Any

FRACTIONS = tuple(index / 2000 for index in range(2001))
"""Where cuts are kept: every 0.05 percentage points."""


def cut_at(quantiles: Sequence[float] | Any, target: float) -> float:
    """What a key must exceed for its input to be kept when the target fraction is to be dropped: linear between the
    cuts at FRACTIONS, a sequence, array or tensor of them."""
    position = target * (len(FRACTIONS) - 1)
    lower = min(int(position), len(FRACTIONS) - 2)
    below, above = map(float, quantiles[lower : lower + 2])
    return below + (position - lower) * (above - below)
