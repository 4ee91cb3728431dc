"""Targets at which one more dropped weight costs the same divergence everywhere, by measurements in the gated model.

A band's rate is the rise of the divergence per weight where its targets are raised alone. The logarithm of the
divergence rises about linearly with the sparsity, and so does that of a rate: a band at r times the mean rate is moved
by -log(r) / slope.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from wina_core.compute.allocation.cells import LARGEST, Cells, Values

STEP = 0.1
"""The rise of a band's targets that is measured: the divergence of a smaller one drowns in noise."""
DAMPINGS = (1.0, 0.7, 0.4)
"""Shares of the move that are tried: rates change while others move."""
_MIDDLE_BANDS = 6
_LEAST_RATE = 0.1
"""Lowest rate that is believed, over the mean: noise makes some negative."""

Band = tuple[int, ...]
"""Places of blocks that move together."""


def bands(cells: Cells) -> list[Band]:
    """Return the blocks of equal projections in neighbouring layers: the first and the last layer's alone, others in
    six parts. Few bands are measured more precisely and faster than each block."""
    last = cells.layout.layers - 1
    found: dict[tuple[tuple[int, ...], int], list[int]] = {}
    for place, block in enumerate(cells.blocks):
        part = 0 if block.layer == 0 else _MIDDLE_BANDS + 1
        if 0 < block.layer < last:
            part = 1 + (block.layer - 1) * min(_MIDDLE_BANDS, last - 1) // (last - 1)
        found.setdefault((block.columns, part), []).append(place)
    return [tuple(places) for places in found.values()]


def raised(values: Sequence[float], band: Sequence[int]) -> Values:
    """Return the values with those of a band raised by `STEP`, as far as a plan may hold."""
    return tuple(min(value + STEP, LARGEST) if place in band else value for place, value in enumerate(values))


def levelled(
    cells: Cells, budget: float, values: Values, cost: float, whole: float, costs: Sequence[float]
) -> list[Values]:
    """Return the values that level the rates, for each of `DAMPINGS`, of the budget; none without a rise to measure.

    `cost` is the divergence at `values`, `whole` that with all of them raised, `costs` those of each of `bands`.
    """
    own, every = bands(cells), range(len(values))
    before = cells.budget(values)
    total, *rises = (cells.budget(raised(values, band)) - before for band in (every, *own))
    if not 0 < cost < whole or total <= 0:
        return []
    slope = math.log(whole / cost) * sum(cells.weights) / total
    differences = [each - cost for each in costs]
    mean = sum(differences) / sum(rises)
    if mean <= 0:
        return []
    moves = [0.0] * len(values)
    for band, difference, rise in zip(own, differences, rises, strict=True):
        for place in band if rise > 0 else ():
            moves[place] = -math.log(max(difference / rise / mean, _LEAST_RATE)) / slope
    return [
        cells.fitted([value + damping * move for value, move in zip(values, moves, strict=True)], budget)
        for damping in DAMPINGS
    ]
