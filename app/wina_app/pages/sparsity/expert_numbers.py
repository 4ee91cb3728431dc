"""Stored numbers of the experts of a Mixture of Experts."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # SQLAlchemy takes a second to import: only the store's thread does
    from wina_core.store.rows import CellStat

ExpertNumbers = dict[tuple[str, int, str], dict[int, float]]
"""Numbers of experts by metric, layer and projection."""


def expert_numbers(stats: "Iterable[CellStat]") -> ExpertNumbers:
    """Sort stored numbers whose x is the number of an expert."""
    numbers: ExpertNumbers = {}
    for row in stats:
        if row.x is not None:
            numbers.setdefault((row.metric, row.layer, row.projection), {})[int(row.x)] = row.value
    return numbers
