"""The table of stored metrics: sorted, filtered, and updated in place."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from wina_app.models.results_filter import Term, matches
from wina_app.models.results_rows import COLUMNS, Entry
from wina_app.models.row_table import Column, Key, RowTable

if TYPE_CHECKING:  # SQLAlchemy takes a second to import: only the store's thread does
    from wina_core.store import MetricRow


def make_entries(
    rows: "Iterable[MetricRow]", known: Mapping[Key, Entry], columns: tuple[Column, ...] = COLUMNS
) -> list[Entry]:
    """Entries for the rows; those that are known and unchanged are used again. Done on the store's thread."""
    entries = []
    for row in rows:
        entry = known.get((row.run, row.unit, row.task, row.metric))
        same = entry is not None and entry.row == row and entry.columns is columns
        entries.append(entry if same else Entry(row, columns))
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

    def replace(self, columns: tuple[Column, ...], terms: tuple[Term, ...], entries: list[Entry]) -> None:
        """Show other entries in other columns, which they have to have."""
        self.beginResetModel()
        self.columns, self._terms = columns, terms
        self._entries = {entry.key: entry for entry in entries}
        self._passing = self._passes(entries)
        self._shown, self._sort = self._passing, None
        self.endResetModel()
        self.content_changed.emit()

    def _passes(self, entries: list[Entry]) -> list[Entry]:
        return [entry for entry in entries if matches(self._terms, entry.folded)] if self._terms else entries
