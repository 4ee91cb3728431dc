"""A stored metric as the table and the plots share it."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # SQLAlchemy takes a second to import: only the store's thread does
    from wina_core.store import MetricRow

Key = tuple[str, str, str, str]
"""Run, unit, task and metric: names a row for good."""


class Entry:
    """One row. There are a hundred thousand: it holds nothing that can be made when it is looked at."""

    __slots__ = ("row",)

    def __init__(self, row: "MetricRow") -> None:
        self.row = row

    @property
    def key(self) -> Key:
        """What names the row for good."""
        row = self.row
        return row.run, row.unit, row.task, row.metric


def make_entries(rows: "Iterable[MetricRow]") -> list[Entry]:
    """An entry for each row."""
    return [Entry(row) for row in rows]
