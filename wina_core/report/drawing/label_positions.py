"""Positions of names beside the ends of lines, so that no two overlap."""

from collections.abc import Sequence


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Return positions as near as possible to the wanted ones, at least `gap` apart and in [low, high], in input order.

    Positions that do not all fit are spread evenly over the range.
    """
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    placed = [0.0] * len(wanted)
    if (len(wanted) - 1) * gap > high - low:
        step = (high - low) / max(len(wanted) - 1, 1)
        for rank, index in enumerate(order):
            placed[index] = low + rank * step
        return placed
    # Blocks of touching names, each centred on the mean of the positions its members want.
    blocks: list[tuple[float, list[int]]] = []
    for index in order:
        block = (min(max(wanted[index], low), high), [index])
        while blocks and blocks[-1][0] + len(blocks[-1][1]) * gap > block[0]:
            members = blocks.pop()[1] + block[1]
            middle = sum(wanted[member] - rank * gap for rank, member in enumerate(members)) / len(members)
            block = (min(max(middle, low), high - (len(members) - 1) * gap), members)
        blocks.append(block)
    for start, members in blocks:
        for rank, index in enumerate(members):
            placed[index] = start + rank * gap
    return placed
