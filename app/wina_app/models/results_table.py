"""The table of stored metrics: filtered, sorted, and updated in place so that selection and scroll stay."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, Qt, Signal

from wina_app.models.results_filter import Term, matches
from wina_app.models.results_rows import COLUMNS, Entry, Key

if TYPE_CHECKING:  # SQLAlchemy takes a second to import: only the store's thread does
    from wina_core.store import MetricRow

_Index = QModelIndex | QPersistentModelIndex
_TOP = QModelIndex()
_NUMBERS = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
_WORDS = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter


def make_entries(rows: "Iterable[MetricRow]", known: Mapping[Key, Entry]) -> list[Entry]:
    """Entries for the rows; those that are known and unchanged are used again. Done on the store's thread."""
    entries = []
    for row in rows:
        entry = known.get((row.run, row.unit, row.task, row.metric))
        entries.append(entry if entry is not None and entry.row == row else Entry(row))
    return entries


class ResultsTable(QAbstractTableModel):
    """Sorts and filters in Python over plain rows: a proxy model would call back for every comparison, which takes
    seconds for the tens of thousands of rows of a large study."""

    content_changed = Signal()
    """Other rows, or other values, are shown; not emitted when they are only sorted."""

    def __init__(self) -> None:
        super().__init__()
        self._entries: dict[Key, Entry] = {}
        self._passing: list[Entry] = []
        self._shown: list[Entry] = []
        self._terms: tuple[Term, ...] = ()
        self._sort: tuple[int, Qt.SortOrder] | None = None

    # ---- content -------------------------------------------------------------------------------------------------

    @property
    def entries(self) -> Mapping[Key, Entry]:
        """Everything stored, by key."""
        return self._entries

    @property
    def passing(self) -> Sequence[Entry]:
        """What passes the filter, in the store's order."""
        return self._passing

    @property
    def shown(self) -> Sequence[Entry]:
        """What passes the filter, in the order of the table."""
        return self._shown

    def set_entries(self, entries: Iterable[Entry]) -> None:
        """Take over a new reading of the store."""
        fresh = {entry.key: entry for entry in entries}
        if fresh != self._entries:
            self._entries = fresh
            self._pass()

    def set_filter(self, terms: tuple[Term, ...]) -> None:
        """Show only rows with all terms."""
        if terms != self._terms:
            self._terms = terms
            self._pass()

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        """Sort by a column; unknown values come last either way. Column -1 restores the store's order."""
        wanted = (column, order) if column >= 0 else None
        if wanted != self._sort:
            self._sort = wanted
            self._arrange()

    def _pass(self) -> None:
        everything = list(self._entries.values())
        self._passing = (
            [entry for entry in everything if matches(self._terms, entry.folded)] if self._terms else everything
        )
        self._arrange()
        self.content_changed.emit()

    def _arrange(self) -> None:
        self.layoutAboutToBeChanged.emit()
        before = self.persistentIndexList()
        keys = [self._shown[index.row()].key for index in before]
        self._shown = _sorted(self._passing, *self._sort) if self._sort else self._passing
        places = {entry.key: row for row, entry in enumerate(self._shown)} if before else {}
        after = [
            self.createIndex(places[key], index.column()) if key in places else QModelIndex()
            for key, index in zip(keys, before, strict=True)
        ]
        self.changePersistentIndexList(before, after)
        self.layoutChanged.emit()

    # ---- Qt's interface ------------------------------------------------------------------------------------------

    def rowCount(self, parent: _Index = _TOP) -> int:
        """Rows that pass the filter."""
        return 0 if parent.isValid() else len(self._shown)

    def columnCount(self, parent: _Index = _TOP) -> int:
        """All columns."""
        return 0 if parent.isValid() else len(COLUMNS)

    def data(self, index: _Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Text, alignment and tooltip of a cell."""
        if role == Qt.ItemDataRole.DisplayRole:
            return self._shown[index.row()].texts[index.column()]
        if role == Qt.ItemDataRole.ToolTipRole:
            return self._shown[index.row()].tip(index.column())
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _NUMBERS if COLUMNS[index.column()].numeric else _WORDS
        return None

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Titles and what they mean."""
        if orientation != Qt.Orientation.Horizontal:
            return None
        column = COLUMNS[section]
        if role == Qt.ItemDataRole.DisplayRole:
            return column.title
        if role == Qt.ItemDataRole.ToolTipRole:
            return column.explanation or None
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _NUMBERS if column.numeric else _WORDS
        return None


def _sorted(entries: Sequence[Entry], column: int, order: Qt.SortOrder) -> list[Entry]:
    # A flat list and numbers of rows: 100,000 pairs would set off full garbage collections on the window's thread.
    values = [entry.value(column) for entry in entries]
    known = [row for row, value in enumerate(values) if value is not None]
    known.sort(key=values.__getitem__, reverse=order == Qt.SortOrder.DescendingOrder)
    unknown = [entry for entry, value in zip(entries, values, strict=True) if value is None]
    return [entries[row] for row in known] + unknown
