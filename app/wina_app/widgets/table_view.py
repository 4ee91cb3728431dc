"""View of a table of stored rows on all pages: sized columns, sorting, copying with Ctrl+C, a context menu."""

import math
from pathlib import Path
from typing import Any, cast

from PySide6.QtCore import QAbstractTableModel, QItemSelectionModel, QModelIndex, QPoint, Qt
from PySide6.QtGui import QAction, QFontMetrics, QFontMetricsF, QGuiApplication, QKeySequence
from PySide6.QtWidgets import QAbstractItemView, QMenu, QTableView, QWidget

from wina_app.style.theme import GRID, font, notifier
from wina_app.widgets.file_dialogs import save_as
from wina_app.widgets.table_model import RowTable

_FORMATS = (
    "CSV (*.csv);;TSV (*.tsv);;JSON (*.json);;Markdown (*.md);;LaTeX (*.tex);;Excel (*.xlsx);;Parquet (*.parquet)"
)


class RowTableView(QTableView):
    """Whole rows are selected; its actions are its context menu."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.setAccessibleName(name)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setAlternatingRowColors(True)
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setTabKeyNavigation(False)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.customContextMenuRequested.connect(self._show_menu)
        self.verticalHeader().hide()
        self.horizontalHeader().setHighlightSections(False)
        self.horizontalHeader().setSectionsMovable(True)
        self.horizontalHeader().setStretchLastSection(True)
        self.setStyleSheet(f"QTableView::item {{ padding: 0 {GRID - 3}px; }}")  # with Qt's own 3 as the headings
        copy = QAction("Copy rows", self)
        copy.setShortcut(QKeySequence.StandardKey.Copy)
        copy.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
        copy.triggered.connect(self._copy)
        self.addAction(copy)
        notifier().changed.connect(self._size_columns)

    def show_table(self, table: QAbstractTableModel) -> None:
        """Show a table in the store's order until a heading is clicked."""
        if table is super().model():  # setModel would keep its selection model, which is deleted below
            return
        before = self.selectionModel()
        self.setSortingEnabled(False)
        self.setModel(table)
        table.modelReset.connect(self._size_columns)  # with other columns
        if before is not None:  # Qt leaves it to its maker
            before.deleteLater()
        self.setSortingEnabled(True)
        self.horizontalHeader().setSortIndicator(-1, Qt.SortOrder.AscendingOrder)
        self._size_columns()

    def model(self) -> RowTable:
        return cast(RowTable, super().model())

    def selected_rows(self) -> list[int]:
        """Return the numbers of the selected rows, from top to bottom."""
        ranges = self.selectionModel().selection()  # `selectedRows` tests each of 100,000 rows
        spans = (ranges.at(number) for number in range(ranges.size()))
        return sorted({row for span in spans for row in range(span.top(), span.bottom() + 1)})

    def _copy(self) -> None:
        rows = self.selected_rows()
        if rows:
            QGuiApplication.clipboard().setText(self.model().text_of(rows))

    def _show_menu(self, where: QPoint) -> None:
        index = self.indexAt(where)
        if index.isValid():
            self.show_menu(index, self.viewport().mapToGlobal(where))

    def show_menu(self, index: QModelIndex, where: QPoint) -> None:
        """Show the context menu of a cell at a point of the screen."""
        if not self.selectionModel().isSelected(index):
            rows = QItemSelectionModel.SelectionFlag.ClearAndSelect | QItemSelectionModel.SelectionFlag.Rows
            self.selectionModel().setCurrentIndex(index, rows)
        else:
            self.selectionModel().setCurrentIndex(index, QItemSelectionModel.SelectionFlag.NoUpdate)
        menu = QMenu(self)
        menu.addActions(self.actions())
        menu.exec(where)
        menu.deleteLater()

    def _size_columns(self) -> None:
        self.setFont(font(tabular=True))
        heading = QFontMetrics(font("small"))
        self.verticalHeader().setDefaultSectionSize(QFontMetrics(self.font()).height() + GRID)
        if self.model() is not None:
            for index, column in enumerate(self.model().columns):
                width = self._width_of(column, self.digit, heading)
                if width != self.columnWidth(index):  # each change calls for a new layout
                    self.setColumnWidth(index, width)

    @property
    def digit(self) -> float:
        """Width of a digit in pixels."""
        # As a fraction: rounded down, the width for many digits would lack room for one.
        return QFontMetricsF(self.font()).horizontalAdvance("0")

    def _width_of(self, column: Any, digit: float, heading: QFontMetrics) -> int:
        return max(math.ceil(column.width * digit), heading.horizontalAdvance(column.title)) + 2 * GRID


def ask_table_file(parent: QWidget, name: str) -> Path | None:
    """Ask where to export a table to; None when the user cancels."""
    return save_as(parent, "Export table", f"{name}.csv", _FORMATS)
