"""The table of stored metrics: sorted, filtered, and updated in place."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from wina_app.models.results_filter import Term, matches
from wina_app.models.results_rows import COLUMNS, Entry
from wina_app.models.row_table import Key, RowTable

if TYPE_CHECKING:  # SQLAlchemy takes a second to import: only the store's thread does
    from wina_core.store import MetricRow


def make_entries(rows: "Iterable[MetricRow]", known: Mapping[Key, Entry]) -> list[Entry]:
    """Entries for the rows; those that are known and unchanged are used again. Done on the store's thread."""
    entries = []
    for row in rows:
        entry = known.get((row.run, row.unit, row.task, row.metric))
        entries.append(entry if entry is not None and entry.row == row else Entry(row))
    return entries


class ResultsTable(RowTable):
    """Shows the rows that pass a filter."""

    def __init__(self) -> None:
        super().__init__(COLUMNS)
        self._terms: tuple[Term, ...] = ()

    def set_filter(self, terms: tuple[Term, ...]) -> None:
        """Show only rows with all terms."""
        if terms != self._terms:
            self._terms = terms
            self._pass()

    def _passes(self, entries: list[Entry]) -> list[Entry]:
        return [entry for entry in entries if matches(self._terms, entry.folded)] if self._terms else entries
