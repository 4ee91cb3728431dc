"""Thresholds between the targets for which calibrations store them."""

from collections.abc import Sequence
from typing import Any

FRACTIONS = tuple(index / 2000 for index in range(2001))
"""Targets with a stored threshold: every 0.05 percentage points."""


def threshold_at(thresholds: Sequence[float] | Any, target: float) -> float:
    """Return the score that a kept input exceeds when the target fraction is dropped.

    Interpolates linearly between `thresholds`, a sequence, array or tensor [len(FRACTIONS)].
    """
    position = target * (len(FRACTIONS) - 1)
    lower = min(int(position), len(FRACTIONS) - 2)
    below, above = map(float, thresholds[lower : lower + 2])
    return below + (position - lower) * (above - below)
