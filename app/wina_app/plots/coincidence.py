"""Lines that lie upon each other at the present zoom."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_BESIDE = 8.0
"""Pixels along x by which the ends of two lines may differ: a marker's size."""
_UPON = 1.0
"""Pixels of height by which two lines may differ: half their width."""
_SAME = 1e-6
"""Relative difference up to which values are called equal."""

Points = tuple[np.ndarray, np.ndarray]
"""x in ascending order and y of a line, all finite."""


@dataclass(frozen=True)
class CoincidingLines:
    """Lines that coincide on the screen."""

    members: tuple[int, ...]
    """Indices of at least two lines, the lowest first."""
    equal: bool
    """True where the values are the same, False where they differ by less than a pixel."""


def coinciding(lines: Sequence[Points | None], pixel: tuple[float, float]) -> tuple[CoincidingLines, ...]:
    """Group lines that lie upon their group's first one, for a pixel of this width and height; None for no line."""
    groups: list[list[int]] = []
    for index, line in enumerate(lines):
        if line is None or not len(line[0]):
            continue
        upon = next((group for group in groups if _agree(_points(lines, group[0]), line, *pixel)), None)
        if upon is None:
            groups.append([index])
        else:
            upon.append(index)
    return tuple(
        CoincidingLines(
            tuple(group), all(_same(_points(lines, group[0]), _points(lines, other)) for other in group[1:])
        )
        for group in groups
        if len(group) > 1
    )


def dashes(position: int, count: int) -> tuple[float, float]:
    """Return (dash, gap) in line widths of the line at a position above the lowest of a group of `count`.

    Each covers a part of those below, so that all colours follow each other along the line.
    """
    unit = 4.0
    return unit * (count - position), unit * position


def _points(lines: Sequence[Points | None], index: int) -> Points:
    line = lines[index]
    assert line is not None  # groups have no others
    return line


def _agree(one: Points, other: Points, width: float, height: float) -> bool:
    (x, y), (u, v) = one, other
    if abs(y[-1] - v[-1]) > _BESIDE * height and len(x) == len(u):
        return False  # most lines differ at their ends, which is quicker to test
    if max(abs(x[0] - u[0]), abs(x[-1] - u[-1])) > _BESIDE * width:
        return False
    if len(x) == len(u) and bool((x == u).all()):
        return float(np.abs(y - v).max()) <= _UPON * height
    # Both are straight between their points: the largest distance is at a point of either.
    low, high = max(x[0], u[0]), min(x[-1], u[-1])
    at = np.union1d(x, u)
    at = np.clip(at, low, high) if low <= high else at
    return float(np.abs(np.interp(at, x, y) - np.interp(at, u, v)).max()) <= _UPON * height


def _same(one: Points, other: Points) -> bool:
    return len(one[0]) == len(other[0]) and all(
        np.allclose(a, b, rtol=_SAME, atol=0.0) for a, b in zip(one, other, strict=True)
    )
