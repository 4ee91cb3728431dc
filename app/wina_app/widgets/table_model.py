"""Table of stored rows: columns with their texts, order and exports, and the model for Qt's views."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, Qt

from wina_app.widgets.plain_text import plain_tip
from wina_core.files.tables import neutralized, write_table

Value = str | float | int | None
Key = tuple[str, ...]
"""Stable key of a row."""
_Index = QModelIndex | QPersistentModelIndex
_TOP = QModelIndex()
_NUMBERS = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
_WORDS = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter


@dataclass(frozen=True)
class Column:
    """One column: `value` is what is sorted and exported, `text` what is shown."""

    key: str
    title: str
    value: Callable[[Any], Value]
    text: Callable[[Any], str]
    numeric: bool = False
    width: int = 10
    """Width in digits."""
    explanation: str = ""
    tip: Callable[[Any], str] | None = None
    """A sentence about the cell; where there is none, or it is empty, the text is shown."""


class TableEntry:
    """A stored row with its texts, made once."""

    columns: tuple[Column, ...]

    def __init__(self, key: Key, row: Any) -> None:
        self.row = row
        self.key = key
        self.texts = tuple(column.text(row) for column in self.columns)

    def tip(self, column: int) -> str:
        """Return a cell's warning, or its text, which may be cut off in the table."""
        tip = self.columns[column].tip
        return (tip(self.row) if tip else "") or self.texts[column]

    def value(self, column: int) -> Value:
        """Return the value that a column sorts by and exports; NaN counts as unknown."""
        value = self.columns[column].value(self.row)
        return None if isinstance(value, float) and math.isnan(value) else value


class RowTable(QAbstractTableModel):
    """Model of plain rows, sorted in Python: a proxy model would call back for every comparison, which takes seconds
    for tens of thousands of rows. Updated in place, so that selection and scroll stay."""

    def __init__(self, columns: tuple[Column, ...]) -> None:
        super().__init__()
        self.columns = columns
        self._entries: dict[Key, TableEntry] = {}
        self._ordered: list[TableEntry] = []
        self._sort: tuple[int, Qt.SortOrder] | None = None

    # ---- content -------------------------------------------------------------------------------------------------

    @property
    def shown(self) -> Sequence[Any]:
        return self._ordered

    def set_entries(self, entries: Iterable[TableEntry]) -> None:
        """Take over a new reading of the store."""
        fresh = {entry.key: entry for entry in entries}
        # Entries compare by identity; a reading keeps those that have not changed.
        if fresh != self._entries:
            self._entries = fresh
            self._arrange()

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        """Sort by a column; unknown values come last either way. Column -1 restores the store's order."""
        sorting = (column, order) if column >= 0 else None
        if sorting != self._sort:
            self._sort = sorting
            self._arrange()

    def write(self, path: Path) -> None:
        """Write what is shown, in its order; the suffix names the format. Raises WinaError."""
        rows = [[column.value(entry.row) for column in self.columns] for entry in self._ordered]
        write_table([column.title for column in self.columns], rows, path)

    def text_of(self, rows: Sequence[int]) -> str:
        """Return titles and the given rows as shown, with tabs between cells, for the clipboard."""
        lines = [[column.title for column in self.columns], *(self._ordered[row].texts for row in rows)]
        return "\n".join("\t".join(map(neutralized, line)) for line in lines)

    def _arrange(self) -> None:
        self.layoutAboutToBeChanged.emit()
        # Selection and current cell are persistent indexes, which move with their rows.
        before = self.persistentIndexList()
        keys = [self._ordered[index.row()].key for index in before]
        entries = list(self._entries.values())
        self._ordered = _sorted(entries, *self._sort) if self._sort else entries
        row_by_key = {entry.key: row for row, entry in enumerate(self._ordered)} if before else {}
        after = [
            self.createIndex(row_by_key[key], index.column()) if key in row_by_key else QModelIndex()
            for key, index in zip(keys, before, strict=True)
        ]
        self.changePersistentIndexList(before, after)
        self.layoutChanged.emit()

    # ---- Qt's interface ------------------------------------------------------------------------------------------

    def rowCount(self, parent: _Index = _TOP) -> int:
        return 0 if parent.isValid() else len(self._ordered)

    def columnCount(self, parent: _Index = _TOP) -> int:
        return 0 if parent.isValid() else len(self.columns)

    def data(self, index: _Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Return text, alignment or tooltip of a cell."""
        if role == Qt.ItemDataRole.DisplayRole:
            return self._ordered[index.row()].texts[index.column()]
        if role == Qt.ItemDataRole.ToolTipRole:
            return plain_tip(self._ordered[index.row()].tip(index.column()))
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _NUMBERS if self.columns[index.column()].numeric else _WORDS
        return None

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Return a column's title, or its explanation as a tooltip."""
        if orientation != Qt.Orientation.Horizontal:
            return None
        column = self.columns[section]
        if role == Qt.ItemDataRole.DisplayRole:
            return column.title
        if role == Qt.ItemDataRole.ToolTipRole:
            return column.explanation or None
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _NUMBERS if column.numeric else _WORDS
        return None


def _sorted(entries: Sequence[TableEntry], column: int, order: Qt.SortOrder) -> list[TableEntry]:
    # A flat list and numbers of rows: 100,000 pairs would set off full garbage collections on the window's thread.
    values = [entry.value(column) for entry in entries]
    ordered = [row for row, value in enumerate(values) if value is not None]
    ordered.sort(key=cast(list[Any], values).__getitem__, reverse=order == Qt.SortOrder.DescendingOrder)
    unknown = [entry for entry, value in zip(entries, values, strict=True) if value is None]
    return [entries[row] for row in ordered] + unknown
