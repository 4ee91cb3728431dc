"""The table of stored results, one row per metric or per run: filtered, sorted, grouped, and updated in place."""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, Qt, Signal

from wina_app.pages.results.arrangement import Arrangement, ClosedGroups, RowGroup, SortKey, TableSnapshot, arrange
from wina_app.widgets.plain_text import plain_tip
from wina_core.analysis.results.columns import COLUMNS, PINNED, ResultColumn
from wina_core.analysis.results.filter import common
from wina_core.analysis.results.runs import RunResults, measure_of
from wina_core.analysis.results.table import Codes, Key, Mask, MetricResults
from wina_core.store.metric_frames import metric_rows_of, metrics_frame
from wina_core.store.rows import MetricRow

EDITED = ("tags", "note")
"""Columns that are edited in the table."""

if TYPE_CHECKING:  # pandas takes seconds to import
    import pandas as pd

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
_ROLES = frozenset((_DISPLAY, _EDIT, _TIP, _ALIGNMENT, _READ))
_SELECTABLE = Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable | Qt.ItemFlag.ItemNeverHasChildren
_EDITABLE = _SELECTABLE | Qt.ItemFlag.ItemIsEditable
_NUMBERS = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
_WORDS = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter


class ResultsTable(QAbstractTableModel):
    """Table model whose lines are rows and, where they are grouped, the headings of groups."""

    content_changed = Signal()
    """Other rows, or other values, are shown; not emitted when they are only sorted or grouped."""
    edited = Signal(str, str, str)
    """Run, key of a column of `EDITED`, and what was typed."""

    def __init__(self) -> None:
        super().__init__()
        self.columns: tuple[ResultColumn, ...] = COLUMNS
        self.metrics = MetricResults(columns=COLUMNS)
        """All metrics; runs are made of them too."""
        self.cells = self.metrics
        """Cells of the rows, which are runs or metrics."""
        self._passing: Mask = np.zeros(0, np.bool_)
        self._mask: Mask = self._passing
        self._arrangement = Arrangement(np.zeros(0, np.intp))
        self._keys: tuple[SortKey, ...] = ()
        """Sort keys; some may be of columns that the table lacks now."""
        self._group = ""
        self._closed = ClosedGroups()

    # ---- content -------------------------------------------------------------------------------------------------

    @property
    def keys(self) -> tuple[SortKey, ...]:
        """Sort keys whose columns the table has, the first one first."""
        return tuple(key for key in self._keys if key.column in self.cells)

    @property
    def group(self) -> str:
        """Key of the column that the rows are grouped by; empty for none."""
        return self._group if self._group in self.cells else ""

    @property
    def of_runs(self) -> bool:
        return isinstance(self.cells, RunResults)

    @property
    def stored(self) -> int:
        return len(self.cells)

    @property
    def count(self) -> int:
        """Number of rows that pass the filter."""
        return int(np.count_nonzero(self._mask))

    @property
    def passing_count(self) -> int:
        """Number of metrics that pass the filter."""
        return int(np.count_nonzero(self._passing))

    @property
    def listed_rows(self) -> list[MetricRow]:
        """Shown metrics, or the first one of each shown run, in the table's order."""
        rows = self._arrangement.rows
        return self._rows(self.cells.first_rows[rows] if isinstance(self.cells, RunResults) else rows)

    def passing(self) -> "Callable[[], pd.DataFrame]":
        """Return a function that makes the frame of the metrics that pass now, in the store's order, on any thread."""
        return partial(_passing, self.metrics.metrics, self._passing)

    def passing_runs(self, runs: Collection[str]) -> frozenset[str]:
        rows = self.metrics.rows_of_runs(runs) if runs else ()
        return frozenset(str(self.metrics["hash"].value(row)) for row in rows if self._passing[row])

    def passing_rows(self, runs: Collection[str]) -> tuple[MetricRow, ...]:
        rows = self.metrics.rows_of_runs(runs) if runs else np.zeros(0, np.intp)
        return tuple(self._rows(rows[self._passing[rows]]))

    def _rows(self, rows: Codes) -> list[MetricRow]:
        metrics = self.metrics.metrics
        return [] if metrics is None else metric_rows_of(metrics.take(rows))

    @cached_property
    def common(self) -> Mapping[str, str]:
        """Key: text of the columns that read alike in all rows that pass."""
        return common(self.cells, self._mask)

    def show(self, cells: MetricResults, mask: Mask, runs: RunResults | None = None) -> None:
        """Show the metrics of a reading that are in the mask, or the runs that are made of these."""
        listed, listed_mask = (cells, mask) if runs is None else (runs, np.ones(len(runs), np.bool_))
        self.metrics, self._passing = cells, mask
        # A reset costs selection and scroll position: it is for columns that are gone or moved.
        if _is_subsequence(self.columns, listed.columns):
            self._insert_columns(listed.columns)
            self._rearrange(listed, listed_mask)
        else:
            self.beginResetModel()
            self.columns, self.cells, self._mask = listed.columns, listed, listed_mask
            self._arrangement = self._arranged()
            self.endResetModel()
        self._pass()

    def _insert_columns(self, columns: tuple[ResultColumn, ...]) -> None:
        """Insert the new columns, whose cells stay empty until the rows follow."""
        # One at a time: Qt's signal is about neighbours.
        for position, column in enumerate(columns):
            if position == len(self.columns) or self.columns[position] != column:
                self.beginInsertColumns(_TOP, position, position)
                self.columns = (*self.columns[:position], column, *self.columns[position:])
                self.endInsertColumns()
        self.columns = columns  # equal, with new explanations

    def _pass(self) -> None:
        self.__dict__.pop("common", None)
        self.content_changed.emit()

    # ---- order ---------------------------------------------------------------------------------------------------

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        """Sort by a column; unknown values come last either way. Column -1 restores the store's order."""
        descending = order == Qt.SortOrder.DescendingOrder
        self.sort_by((SortKey(self.columns[column].key, descending),) if column >= 0 else ())

    def sort_by(self, keys: tuple[SortKey, ...]) -> None:
        if keys != self._keys:
            self._keys = keys
            self._rearrange(self.cells, self._mask)
            if self.columns:
                self.headerDataChanged.emit(Qt.Orientation.Horizontal, 0, len(self.columns) - 1)

    def sort_further(self, column: int, descending: bool | None = None) -> None:
        """Append a column to the sort keys; if it is one, set its direction, by default the other one."""
        key, keys = self.columns[column].key, {sort_key.column: sort_key.descending for sort_key in self.keys}
        keys[key] = (key in keys and not keys[key]) if descending is None else descending
        self.sort_by(tuple(SortKey(*sort_key) for sort_key in keys.items()))

    def unsort(self, column: int) -> None:
        self.sort_by(tuple(key for key in self.keys if key.column != self.columns[column].key))

    def group_by(self, key: str) -> None:
        """Group rows with the same value in the column of this key; empty for no groups."""
        if key != self._group:
            self._group, self._closed = key, ClosedGroups()
            self._rearrange(self.cells, self._mask)

    def toggle(self, line: int) -> None:
        """Close or open the group whose heading this line is."""
        groups, number = self._arrangement.groups, ~int(self._arrangement.lines[line])
        if groups is not None and number >= 0:
            self._closed = self._closed.toggled(groups.key(number))
            self._rearrange(self.cells, self._mask)

    def close_groups(self, closed: bool) -> None:
        self._closed = ClosedGroups(all_others=closed)
        self._rearrange(self.cells, self._mask)

    def _arranged(self) -> Arrangement:
        return arrange(self.cells, self._mask, self.keys, self.group, self._closed)

    def _rearrange(self, cells: MetricResults, mask: Mask) -> None:
        # Selection and current cell are persistent indexes: each must be moved to the line where its row is now.
        self.layoutAboutToBeChanged.emit()
        before = self.persistentIndexList()
        rows = [self.row_at(index.row()) for index in before]
        keys = [None if row is None else self.cells.key(row) for row in rows]
        self.cells, self._mask = cells, mask
        self._arrangement = self._arranged()
        lines = self._lines_of_keys({key for key in keys if key is not None})
        after = [
            self.createIndex(lines[key], index.column()) if key in lines else QModelIndex()
            for key, index in zip(keys, before, strict=True)
        ]
        self.changePersistentIndexList(before, after)
        self.layoutChanged.emit()

    def _lines_of_keys(self, keys: Collection[Key]) -> dict[Key | None, int]:
        """Return the lines of the rows of these keys, of those that are shown."""
        if not keys:
            return {}
        lines = np.full(self.stored, -1, np.intp)
        row_lines = np.flatnonzero(self._arrangement.lines >= 0)
        lines[self._arrangement.lines[row_lines]] = row_lines
        rows = self.cells.rows_of_runs({key[0] for key in keys})
        return {key: int(lines[row]) for row in rows if lines[row] >= 0 and (key := self.cells.key(row)) in keys}

    # ---- lines ---------------------------------------------------------------------------------------------------

    def row_at(self, line: int) -> int | None:
        """Return the number of the row in this line; None for the heading of a group and beyond the last line."""
        lines = self._arrangement.lines
        return int(lines[line]) if 0 <= line < len(lines) and lines[line] >= 0 else None

    def run_at(self, line: int) -> str | None:
        """Return the run of the row in this line; None for the heading of a group and beyond the last line."""
        row = self.row_at(line)
        return None if row is None else str(self.cells["hash"].value(row))

    def measure_at(self, line: int, column: int) -> tuple[str, str] | None:
        """Return task and metric of a cell: those of a run's column, or of the row; None where it has none."""
        row = self.row_at(line)
        if row is None:
            return None
        if self.of_runs:
            return measure_of(self.columns[column].key)
        return self.cells["task"].text(row), self.cells["metric"].text(row)

    def group_at(self, line: int) -> RowGroup | None:
        """Return the group whose heading this line is."""
        lines, groups = self._arrangement.lines, self._arrangement.groups
        return groups[~int(lines[line])] if groups is not None and 0 <= line < len(lines) and lines[line] < 0 else None

    def mean_at(self, line: int, column: int) -> str:
        """Return the mean of a metric's column over the group whose heading this line is; empty where it has none."""
        groups, number = self._arrangement.groups, ~int(self._arrangement.lines[line])
        of_runs = self.of_runs and groups is not None and number >= 0
        return groups.mean_text(number, self.columns[column].key) if of_runs and groups is not None else ""

    def is_pinned(self, line: int) -> bool:
        row = self.row_at(line)
        return row is not None and self.cells["pin"].value(row) == PINNED

    def lines_of_runs(self, runs: Collection[str]) -> list[int]:
        selected = np.zeros(self.stored + 1, np.bool_)  # the last is that of headings
        selected[self.cells.rows_of_runs(runs)] = True
        lines = self._arrangement.lines
        return [int(line) for line in np.flatnonzero(selected[np.where(lines < 0, -1, lines)])]

    def snapshot(self, keys: Sequence[str]) -> TableSnapshot:
        return TableSnapshot(self.cells, self._arrangement, self.group, tuple(keys))

    # ---- Qt's interface ------------------------------------------------------------------------------------------

    def rowCount(self, parent: _Index = _TOP) -> int:
        return 0 if parent.isValid() else len(self._arrangement.lines)

    def columnCount(self, parent: _Index = _TOP) -> int:
        return 0 if parent.isValid() else len(self.columns)

    def flags(self, index: _Index) -> Qt.ItemFlag:
        editable = self.columns[index.column()].key in EDITED and self.row_at(index.row()) is not None
        return _EDITABLE if editable else _SELECTABLE

    def setData(self, index: _Index, value: Any, role: int = _EDIT) -> bool:
        """Emit the typed text; it is shown once it is stored."""
        run = self.run_at(index.row())
        if role != _EDIT or run is None:
            return False
        self.edited.emit(run, self.columns[index.column()].key, str(value))
        return True

    def data(self, index: _Index, role: int = _DISPLAY) -> Any:
        """Return text, alignment or tooltip of a cell. A heading's text is for painting and screen readers."""
        if role not in _ROLES:  # most of what Qt asks for each cell that it paints
            return None
        row = self.row_at(index.row())
        if row is None:
            group = self.group_at(index.row())
            return plain_tip(group.label) if group is not None and role in (_READ, _TIP) else None
        column = self.columns[index.column()]
        if role == _ALIGNMENT:
            return _NUMBERS if column.numeric else _WORDS
        if column.key not in self.cells:  # just inserted
            return None
        cells = self.cells[column.key]
        return plain_tip(cells.tip(row)) if role == _TIP else cells.text(row)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = _DISPLAY) -> Any:
        """Return a column's title, its explanation, or its place among the sort keys."""
        if orientation != Qt.Orientation.Horizontal or not 0 <= section < len(self.columns):
            return None
        column = self.columns[section]
        if role == _DISPLAY:
            return (column.heading or column.title) + self._sort_mark(column.key)
        if role == _TIP:
            sorts = "Click to sort; with Shift, within what is sorted already. Right-click for more."
            return "\n".join(filter(None, (column.title if column.heading else "", column.explanation, sorts)))
        if role == _ALIGNMENT:
            return _NUMBERS if column.numeric else _WORDS
        return None

    def _sort_mark(self, key: str) -> str:
        for rank, sort_key in enumerate(self.keys, 1):
            if sort_key.column == key:
                arrow = (
                    "\N{BLACK DOWN-POINTING SMALL TRIANGLE}"
                    if sort_key.descending
                    else ("\N{BLACK UP-POINTING SMALL TRIANGLE}")
                )
                return f" {arrow}{rank}" if len(self.keys) > 1 else f" {arrow}"
        return ""


def _is_subsequence(previous: tuple[ResultColumn, ...], columns: tuple[ResultColumn, ...]) -> bool:
    """Return whether `columns` has all of `previous` in their order."""
    remaining = iter(columns)
    return all(column in remaining for column in previous)


def _passing(metrics: "pd.DataFrame | None", mask: Mask) -> "pd.DataFrame":
    if metrics is None:
        return metrics_frame(())
    return metrics if mask.all() else metrics[mask].reset_index(drop=True)
