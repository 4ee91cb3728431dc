"""The table of stored results, one row per metric or per run: filtered, sorted, and updated in place."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, Qt, Signal
from PySide6.QtGui import QColor

from wina_app.style.theme import tokens
from wina_app.widgets.plain_text import plain_tip
from wina_core.analysis.results.columns import COLUMNS, PINNED, ResultColumn
from wina_core.analysis.results.publication import PLAIN_STYLE, SUFFIXES, Publication, Style, usual_caption
from wina_core.analysis.results.runs import RunResults, is_measure, measure_of, with_error_columns
from wina_core.analysis.results.table import Codes, Key, Mask, MetricResults, TableRows
from wina_core.files.tables import Rows, neutralized, table_text, write_lines, write_table
from wina_core.store.metric_frames import metric_rows_of, metrics_frame
from wina_core.store.rows import MetricRow

if TYPE_CHECKING:  # pandas takes seconds to import
    import pandas as pd

_Index = QModelIndex | QPersistentModelIndex
_TOP = QModelIndex()
_DISPLAY, _TIP, _ALIGNMENT, _COLOUR = (
    int(role)
    for role in (
        Qt.ItemDataRole.DisplayRole,
        Qt.ItemDataRole.ToolTipRole,
        Qt.ItemDataRole.TextAlignmentRole,
        Qt.ItemDataRole.ForegroundRole,
    )
)
_ROLES = frozenset((_DISPLAY, _TIP, _ALIGNMENT, _COLOUR))
_NUMBERS = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
_WORDS = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter


_LAST_RANK = np.int32(np.iinfo(np.int32).max)
"""Rank of unknown values, which come last in either order."""
_NOTES = frozenset(
    ("when", "status", "warning", "tags", "note", "pin", "seconds", "hardware", "user", "host", "study", "hash")
)
"""Columns that a compact table omits."""


class SortKey(NamedTuple):
    """A column to sort by."""

    column: str
    descending: bool = False


@dataclass(frozen=True)
class TableSnapshot:
    """The table as it is shown, for files and the clipboard."""

    cells: MetricResults
    rows: Codes
    """Places of the shown rows in their order."""
    keys: Sequence[str]
    """Keys of the columns, in their order."""

    def write(self, path: Path, style: Style = PLAIN_STYLE) -> int:
        """Write all rows in the format of the suffix, and return their number. Raises WinaError.

        LaTeX and Markdown have texts as shown, all other formats numbers with every digit.
        """
        suffix = path.suffix.lower()
        if suffix in SUFFIXES:
            write_lines(Publication(self.cells, self.rows, self.keys, style=style).write(suffix), path)
        else:
            write_table(*self.table(), path)
        return len(self.rows)

    def copy(self, suffix: str, style: Style = PLAIN_STYLE) -> str:
        """Return the rows as text, in the format of files with this suffix."""
        if suffix in SUFFIXES:
            return "".join(Publication(self.cells, self.rows, self.keys, style=style).write(suffix))
        return table_text(*self.table(), suffix)

    def text(self) -> str:
        """Return the rows as shown, with tabs between cells; a spreadsheet takes no cell for a formula."""
        columns = [self.cells[key] for key in self.keys]
        table = [[column.column.title for column in columns]]
        table += [[column.text(row) for column in columns] for row in self.rows.tolist()]
        return "\n".join("\t".join(neutralized(" ".join(cell.split())) for cell in row) for row in table)

    def table(self) -> tuple[list[str], Rows]:
        """Return titles and cells, each metric with its standard error in the next column."""
        columns = with_error_columns([self.cells[key] for key in self.keys])
        return [column.column.title for column in columns], TableRows(columns, self.rows)

    def lines(self, lines: Sequence[int]) -> "TableSnapshot":
        """The table of these lines alone."""
        return replace(self, rows=self.rows[np.asarray(lines, np.intp)])

    @property
    def compact(self) -> "TableSnapshot":
        """The table without notes, dates and columns that are the same in all rows."""
        alike = {key for key in self.keys if len(self.rows) > 1 and self.cells[key].common_text(self.rows) is not None}
        keys = [key for key in self.keys if key == "method" or is_measure(key) or key not in alike | _NOTES]
        return replace(self, keys=keys)

    @property
    def usual_style(self) -> Style:
        return Style(usual_caption(self.cells, self.rows), "tab:results")


class ResultsTable(QAbstractTableModel):
    """Table model of rows in the order of their sort keys, those of pinned runs before all others."""

    content_changed = Signal()
    """Other rows, or other values, are shown; not emitted when they are only sorted."""

    def __init__(self) -> None:
        super().__init__()
        self.columns: tuple[ResultColumn, ...] = COLUMNS
        self.metrics = MetricResults(columns=COLUMNS)
        """All metrics; runs are made of them too."""
        self.cells = self.metrics
        """Cells of the rows, which are runs or metrics."""
        self._passing: Mask = np.zeros(0, np.bool_)
        self._mask: Mask = self._passing
        self._lines: Codes = np.zeros(0, np.intp)
        """The row of each line."""
        self._keys: tuple[SortKey, ...] = ()
        """Sort keys, the latest first; some may be of columns that the table lacks now."""

    # ---- content -------------------------------------------------------------------------------------------------

    @property
    def keys(self) -> tuple[SortKey, ...]:
        """Sort keys whose columns the table has, the first one first."""
        return tuple(key for key in self._keys if key.column in self.cells)

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
        rows = self._lines
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
            self._lines = self._sorted()
            self.endResetModel()
        self.content_changed.emit()

    def _insert_columns(self, columns: tuple[ResultColumn, ...]) -> None:
        """Insert the new columns, whose cells stay empty until the rows follow."""
        # One at a time: Qt's signal is about neighbours.
        for position, column in enumerate(columns):
            if position == len(self.columns) or self.columns[position] != column:
                self.beginInsertColumns(_TOP, position, position)
                self.columns = (*self.columns[:position], column, *self.columns[position:])
                self.endInsertColumns()
        self.columns = columns  # equal, with new explanations

    # ---- order ---------------------------------------------------------------------------------------------------

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        """Sort by a column, and where it is equal as before; unknown values come last either way.

        Column -1 restores the store's order.
        """
        if column < 0:
            self.sort_by(())
            return
        key = SortKey(self.columns[column].key, order == Qt.SortOrder.DescendingOrder)
        self.sort_by((key, *(other for other in self.keys if other.column != key.column)))

    def sort_by(self, keys: tuple[SortKey, ...]) -> None:
        if keys != self._keys:
            self._keys = keys
            self._rearrange(self.cells, self._mask)

    def _sorted(self) -> Codes:
        """Return the rows that pass in the order of the keys."""
        rows, pins = np.flatnonzero(self._mask), self.cells["pin"]
        levels = [~np.array(pins.categories, np.bool_)[pins.codes[rows]]] if any(pins.categories) else []
        for key in self.keys:
            cells = self.cells[key.column]
            ranks = cells.ranks[cells.codes[rows]] if len(rows) else rows
            levels.append(np.where(ranks < 0, _LAST_RANK, -ranks if key.descending else ranks))
        # np.lexsort sorts by its last key first.
        return rows[np.lexsort(levels[::-1])] if levels else rows

    def _rearrange(self, cells: MetricResults, mask: Mask) -> None:
        # Selection and current cell are persistent indexes: each must be moved to the line where its row is now.
        self.layoutAboutToBeChanged.emit()
        before = self.persistentIndexList()
        rows = [self.row_at(index.row()) for index in before]
        keys = [None if row is None else self.cells.key(row) for row in rows]
        self.cells, self._mask = cells, mask
        self._lines = self._sorted()
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
        lines[self._lines] = np.arange(len(self._lines))
        rows = self.cells.rows_of_runs({key[0] for key in keys})
        return {key: int(lines[row]) for row in rows if lines[row] >= 0 and (key := self.cells.key(row)) in keys}

    # ---- lines ---------------------------------------------------------------------------------------------------

    def row_at(self, line: int) -> int | None:
        """Return the number of the row in this line; None beyond the last line."""
        return int(self._lines[line]) if 0 <= line < len(self._lines) else None

    def run_at(self, line: int) -> str | None:
        """Return the run of the row in this line; None beyond the last line."""
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

    def lines_of_runs(self, runs: Collection[str]) -> list[int]:
        selected = np.zeros(self.stored, np.bool_)
        selected[self.cells.rows_of_runs(runs)] = True
        return np.flatnonzero(selected[self._lines]).tolist()

    def snapshot(self, keys: Sequence[str]) -> TableSnapshot:
        return TableSnapshot(self.cells, self._lines, tuple(keys))

    # ---- Qt's interface ------------------------------------------------------------------------------------------

    def rowCount(self, parent: _Index = _TOP) -> int:
        return 0 if parent.isValid() else len(self._lines)

    def columnCount(self, parent: _Index = _TOP) -> int:
        return 0 if parent.isValid() else len(self.columns)

    def data(self, index: _Index, role: int = _DISPLAY) -> Any:
        """Return text, alignment, colour or tooltip of a cell; rows of pinned runs have the accent."""
        if role not in _ROLES:  # most of what Qt asks for each cell that it paints
            return None
        row, column = int(self._lines[index.row()]), self.columns[index.column()]
        if role == _COLOUR:
            return QColor(tokens().accent) if self.cells["pin"].value(row) == PINNED else None
        if role == _ALIGNMENT:
            return _NUMBERS if column.numeric else _WORDS
        if column.key not in self.cells:  # just inserted
            return None
        cells = self.cells[column.key]
        return plain_tip(cells.tip(row)) if role == _TIP else cells.text(row)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = _DISPLAY) -> Any:
        """Return a column's title or its explanation."""
        if orientation != Qt.Orientation.Horizontal or not 0 <= section < len(self.columns):
            return None
        column = self.columns[section]
        if role == _DISPLAY:
            return column.heading or column.title
        if role == _TIP:
            return "\n".join(filter(None, (column.title if column.heading else "", column.explanation))) or None
        if role == _ALIGNMENT:
            return _NUMBERS if column.numeric else _WORDS
        return None


def _is_subsequence(previous: tuple[ResultColumn, ...], columns: tuple[ResultColumn, ...]) -> bool:
    """Return whether `columns` has all of `previous` in their order."""
    remaining = iter(columns)
    return all(column in remaining for column in previous)


def _passing(metrics: "pd.DataFrame | None", mask: Mask) -> "pd.DataFrame":
    if metrics is None:
        return metrics_frame(())
    return metrics if mask.all() else metrics[mask].reset_index(drop=True)
