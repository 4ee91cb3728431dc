"""The table of stored metrics: sorted, filtered, and updated in place."""

from collections.abc import Collection, Iterable, Mapping
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
    """Shows the rows that pass a filter, and where it is narrowed to a study those of its runs."""

    def __init__(self) -> None:
        super().__init__(COLUMNS)
        self._terms: tuple[Term, ...] = ()
        self._runs: Collection[str] | None = None

    def set_filter(self, terms: tuple[Term, ...]) -> None:
        """Show only rows with all terms."""
        if terms != self._terms:
            self._terms = terms
            self._pass()

    def set_scope(
        self, columns: tuple[Column, ...], runs: Collection[str] | None, terms: tuple[Term, ...], entries: list[Entry]
    ) -> None:
        """Show the runs with these hashes alone, None for all, in other columns; the entries have to have those."""
        self.beginResetModel()
        self.columns, self._runs, self._terms = columns, runs, terms
        self._entries = {entry.key: entry for entry in entries}
        self._passing = self._passes(entries)
        self._shown, self._sort = self._passing, None
        self.endResetModel()
        self.content_changed.emit()

    def _passes(self, entries: list[Entry]) -> list[Entry]:
        if self._runs is not None:
            entries = [entry for entry in entries if entry.row.run in self._runs]
        return [entry for entry in entries if matches(self._terms, entry.folded)] if self._terms else entries
