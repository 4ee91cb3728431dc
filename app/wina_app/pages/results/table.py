"""The table of stored metrics: filtered, sorted, grouped, and updated in place."""

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, Qt, Signal

from wina_app.pages.results.clipboard import Shown
from wina_app.pages.results.grouping import Arrangement, Closed, Group, SortKey, arrange
from wina_app.pages.results.rows import Entry, Key, make_entries
from wina_app.style.translation import tr
from wina_app.widgets.plain_text import plain_tip
from wina_core.results.columns import COLUMNS, PINNED, ResultColumn
from wina_core.results.filter import common
from wina_core.results.frame import Frame, Mask

EDITED = ("tags", "note")
"""Columns that are edited in the table."""

_Index = QModelIndex | QPersistentModelIndex
_TOP = QModelIndex()
_DISPLAY, _EDIT, _TIP, _ALIGNMENT, _READ = (
    int(role)
    for role in (
        Qt.ItemDataRole.DisplayRole,
        Qt.ItemDataRole.EditRole,
        Qt.ItemDataRole.ToolTipRole,
        Qt.ItemDataRole.TextAlignmentRole,
        Qt.ItemDataRole.AccessibleTextRole,
    )
)
_TOLD = frozenset((_DISPLAY, _EDIT, _TIP, _ALIGNMENT, _READ))
_SELECTABLE = Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable | Qt.ItemFlag.ItemNeverHasChildren
_EDITABLE = _SELECTABLE | Qt.ItemFlag.ItemIsEditable
_NUMBERS = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
_WORDS = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter


class Content:
    """A reading of the store, whole; made on the store's thread."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.entries = np.empty(len(frame), object)  # an array, for a hundred thousand are picked from it at once
        self.entries[:] = make_entries(frame.rows)
        frame.prepare()

    def rows_of(self, keys: Collection[Key]) -> dict[Key, int]:
        """Where the rows of these keys are, of those that there are."""
        runs = {key[0] for key in keys}
        factor = self.frame.factor("hash")
        wanted = np.array([run in runs for run in factor.raws], np.bool_)
        near = np.flatnonzero(wanted[factor.codes]) if len(wanted) else ()
        return {key: int(row) for row in near if (key := self.entries[row].key) in keys}


class ResultsTable(QAbstractTableModel):
    """Its lines are rows and, where they are grouped, the headings of groups."""

    content_changed = Signal()
    """Other rows, or other values, are shown; not emitted when they are only sorted or grouped."""
    edited = Signal(str, str, str)
    """Run, key of a column of `EDITED`, and what was typed."""

    def __init__(self) -> None:
        super().__init__()
        self.columns: tuple[ResultColumn, ...] = COLUMNS
        self._content = Content(Frame([], {}, COLUMNS))
        self._mask: Mask = np.zeros(0, np.bool_)
        self._arrangement = Arrangement(np.zeros(0, np.intp))
        self.keys: tuple[SortKey, ...] = ()
        self.group = ""
        """Key of the column that the rows are grouped by; empty for none."""
        self._closed = Closed()

    # ---- content -------------------------------------------------------------------------------------------------

    @property
    def frame(self) -> Frame:
        """Everything there is."""
        return self._content.frame

    @property
    def stored(self) -> int:
        """How many rows there are."""
        return len(self.frame)

    @property
    def count(self) -> int:
        """How many rows pass the filter."""
        return int(np.count_nonzero(self._mask))

    @property
    def passing(self) -> Sequence[Entry]:
        """The rows that pass the filter, in the store's order."""
        return self._passing

    @property
    def shown(self) -> Sequence[Entry]:
        """The rows that are shown, in the order of the table, without headings and what is under closed ones."""
        return tuple(self._content.entries[self._arrangement.rows])

    @cached_property
    def _passing(self) -> tuple[Entry, ...]:
        return tuple(self._content.entries[self._mask])

    @cached_property
    def common(self) -> Mapping[str, str]:
        """Key: text of the columns that read alike in all rows that pass."""
        return common(self.frame, self._mask)

    def show(self, content: Content, mask: Mask) -> None:
        """Show those rows of another reading that are in the mask; where it has other columns, in these."""
        if content.frame.columns != self.columns:
            self.beginResetModel()
            self.columns = content.frame.columns
            known = {column.key for column in self.columns}
            self.keys = tuple(key for key in self.keys if key.column in known)
            self.group = self.group if self.group in known else ""
            self._content, self._mask = content, mask
            self._arrangement = self._arranged()
            self.endResetModel()
        else:
            self._rearrange(content, mask)
        self._pass()

    def set_mask(self, mask: Mask) -> None:
        """Show other rows of the same reading."""
        if not np.array_equal(mask, self._mask):
            self._rearrange(self._content, mask)
            self._pass()

    def _pass(self) -> None:
        for outdated in ("_passing", "common"):
            self.__dict__.pop(outdated, None)
        self.content_changed.emit()

    # ---- order ---------------------------------------------------------------------------------------------------

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        """Sort by a column; unknown values come last either way. Column -1 restores the store's order."""
        descending = order == Qt.SortOrder.DescendingOrder
        self.sort_by((SortKey(self.columns[column].key, descending),) if column >= 0 else ())

    def sort_by(self, keys: tuple[SortKey, ...]) -> None:
        """Sort by several columns, the first one first."""
        if keys != self.keys:
            self.keys = keys
            self._rearrange(self._content, self._mask)
            if self.columns:
                self.headerDataChanged.emit(Qt.Orientation.Horizontal, 0, len(self.columns) - 1)

    def sort_further(self, column: int) -> None:
        """Sort by one column more, or by this one, which is sorted by already, the other way round."""
        key = self.columns[column].key
        keys = [SortKey(key, not each.descending) if each.column == key else each for each in self.keys]
        self.sort_by(tuple(keys) if keys != list(self.keys) else (*self.keys, SortKey(key)))

    def group_by(self, key: str) -> None:
        """Put rows together that have the same value in the column of this key; empty for no groups."""
        if key != self.group:
            self.group, self._closed = key, Closed()
            self._rearrange(self._content, self._mask)

    def toggle(self, line: int) -> None:
        """Close or open the group whose heading this line is."""
        groups, number = self._arrangement.groups, ~int(self._arrangement.lines[line])
        if groups is not None and number >= 0:
            self._closed = self._closed.toggled(groups.key(number))
            self._rearrange(self._content, self._mask)

    def close_groups(self, closed: bool) -> None:
        """Close or open all groups."""
        self._closed = Closed(all_others=closed)
        self._rearrange(self._content, self._mask)

    def _arranged(self) -> Arrangement:
        return arrange(self.frame, self._mask, self.keys, self.group, self._closed)

    def _rearrange(self, content: Content, mask: Mask) -> None:
        self.layoutAboutToBeChanged.emit()
        before = self.persistentIndexList()
        entries = [self.entry_at(index.row()) for index in before]
        keys = [None if entry is None else entry.key for entry in entries]
        self._content, self._mask = content, mask
        self._arrangement = self._arranged()
        places = self._places({key for key in keys if key is not None})
        after = [
            self.createIndex(places[key], index.column()) if key in places else QModelIndex()
            for key, index in zip(keys, before, strict=True)
        ]
        self.changePersistentIndexList(before, after)
        self.layoutChanged.emit()

    def _places(self, keys: Collection[Key]) -> dict[Key | None, int]:
        """In which lines the rows of these keys are, of those that are shown."""
        if not keys:
            return {}
        rows = self._content.rows_of(keys)
        lines = np.full(self.stored, -1, np.intp)
        shown = np.flatnonzero(self._arrangement.lines >= 0)
        lines[self._arrangement.lines[shown]] = shown
        return {key: int(lines[row]) for key, row in rows.items() if lines[row] >= 0}

    # ---- lines ---------------------------------------------------------------------------------------------------

    def row_at(self, line: int) -> int | None:
        """Number of the row in this line; None for the heading of a group and where there is no line."""
        lines = self._arrangement.lines
        return int(lines[line]) if 0 <= line < len(lines) and lines[line] >= 0 else None

    def entry_at(self, line: int) -> Entry | None:
        """The row in this line; None for the heading of a group and where there is no line."""
        row = self.row_at(line)
        return None if row is None else self._content.entries[row]

    def group_at(self, line: int) -> Group | None:
        """The group whose heading this line is."""
        lines, groups = self._arrangement.lines, self._arrangement.groups
        return groups[~int(lines[line])] if groups is not None and 0 <= line < len(lines) and lines[line] < 0 else None

    def is_pinned(self, line: int) -> bool:
        """Whether this line is a row of a pinned run."""
        row = self.row_at(line)
        return row is not None and self.frame.factor("pin").value(row) == PINNED

    def lines_of_runs(self, runs: Collection[str]) -> list[int]:
        """The lines with rows of these runs."""
        factor = self.frame.factor("hash")
        wanted = np.array([run in runs for run in factor.raws], np.bool_)
        lines = self._arrangement.lines
        if not len(wanted):
            return []
        return [int(line) for line in np.flatnonzero((lines >= 0) & wanted[factor.codes[lines]])]

    def as_shown(self, keys: Sequence[str]) -> Shown:
        """What is shown now, in the columns with these keys."""
        return Shown(self.frame, self._arrangement, self.group, tuple(keys))

    # ---- Qt's interface ------------------------------------------------------------------------------------------

    def rowCount(self, parent: _Index = _TOP) -> int:
        """Lines that are shown."""
        return 0 if parent.isValid() else len(self._arrangement.lines)

    def columnCount(self, parent: _Index = _TOP) -> int:
        """All columns, also those that the view hides."""
        return 0 if parent.isValid() else len(self.columns)

    def flags(self, index: _Index) -> Qt.ItemFlag:
        """Tags and notes are edited in place."""
        editable = self.columns[index.column()].key in EDITED and self.row_at(index.row()) is not None
        return _EDITABLE if editable else _SELECTABLE

    def setData(self, index: _Index, value: Any, role: int = _EDIT) -> bool:
        """Tell what was typed; it is shown once it is stored."""
        entry = self.entry_at(index.row())
        if role != _EDIT or entry is None:
            return False
        self.edited.emit(entry.row.run, self.columns[index.column()].key, str(value))
        return True

    def data(self, index: _Index, role: int = _DISPLAY) -> Any:
        """Text, alignment and tooltip of a cell. A heading's words are for whoever paints it, or reads it aloud."""
        if role not in _TOLD:  # most of what Qt asks for each cell that it paints
            return None
        row = self.row_at(index.row())
        if row is None:
            return plain_tip(self.group_at(index.row()).label) if role in (_READ, _TIP) else None
        factor = self.frame.factors[index.column()]
        if role == _ALIGNMENT:
            return _NUMBERS if factor.column.numeric else _WORDS
        return plain_tip(factor.tip(row)) if role == _TIP else factor.text(row)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = _DISPLAY) -> Any:
        """Titles, what they mean, and which columns the rows are sorted by."""
        if orientation != Qt.Orientation.Horizontal or not 0 <= section < len(self.columns):
            return None
        column = self.columns[section]
        if role == _DISPLAY:
            return column.title + self._sort_mark(column.key)
        if role == _TIP:
            sorts = tr("Click to sort; with Shift, within what is sorted already.")
            return f"{column.explanation}\n{sorts}" if column.explanation else sorts
        if role == _ALIGNMENT:
            return _NUMBERS if column.numeric else _WORDS
        return None

    def _sort_mark(self, key: str) -> str:
        for place, each in enumerate(self.keys, 1):
            if each.column == key:
                arrow = (
                    "\N{BLACK DOWN-POINTING SMALL TRIANGLE}"
                    if each.descending
                    else ("\N{BLACK UP-POINTING SMALL TRIANGLE}")
                )
                return f" {arrow}{place}" if len(self.keys) > 1 else f" {arrow}"
        return ""
