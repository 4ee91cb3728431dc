"""View of the results table: columns in a chosen order, the first of which stays while the others scroll."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

from PySide6.QtCore import QAbstractTableModel, QItemSelectionModel, QPoint, Qt, Signal
from PySide6.QtGui import QAction, QFontMetrics, QGuiApplication, QKeyEvent, QKeySequence, QResizeEvent
from PySide6.QtWidgets import QAbstractItemView, QFrame, QHeaderView, QMenu, QTableView

from wina_app.pages.results.table import ResultsTable
from wina_app.style.theme import GRID
from wina_app.widgets.table_view import RowTableView
from wina_core.analysis.results.columns import ResultColumn

_FEW = 200
"""Most categories whose texts are measured to fit a column."""


class ResultsTableView(RowTableView):
    """Table view that emits actions on the selected rows."""

    copy_requested = Signal(str)
    """The suffix of a format; empty for rows as they read."""
    delete_requested = Signal()
    columns_moved = Signal(list)
    """Keys of the shown columns in their new order."""
    column_hidden = Signal(str)

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.widths: dict[str, float] = {}
        """Widths that the user gave to columns, in digits, so that they follow the text size."""
        self._placing = False
        """True while the program changes the columns, not the user."""
        self._placed: tuple[object, ...] = ()
        header = self.horizontalHeader()
        header.setSortIndicatorClearable(True)
        header.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        header.customContextMenuRequested.connect(self._show_header_menu)
        header.sectionResized.connect(self._on_resized)
        header.sectionMoved.connect(self._on_moved)
        self._first = _FirstColumn(self)
        self.add_action("Copy cell", self._copy_cell, "Ctrl+Shift+C")
        self.add_action("Copy as Markdown", lambda: self.copy_requested.emit(".md"))
        self.add_action("Copy as LaTeX", lambda: self.copy_requested.emit(".tex"))
        self.add_separator()

    def add_action(self, text: str, do: Callable[[], object], keys: str = "") -> None:
        """Add an action to the context menu; its shortcut works while the table has the focus."""
        action = QAction(text, self)
        action.setShortcut(QKeySequence(keys))
        action.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
        action.triggered.connect(lambda: do())
        self.addAction(action)

    def add_separator(self) -> None:
        line = QAction(self)
        line.setSeparator(True)
        self.addAction(line)

    def model(self) -> ResultsTable:  # type: ignore[override]
        return cast(ResultsTable, QTableView.model(self))

    def show_table(self, table: QAbstractTableModel) -> None:
        super().show_table(table)
        # For headings that look selected Qt asks for each row whether it is, time and again.
        self.horizontalHeader().setSelectionModel(QItemSelectionModel(table, self.horizontalHeader()))
        self._first.setModel(table)
        self._first.setSelectionModel(self.selectionModel())

    def show_columns(self, keys: Sequence[str]) -> None:
        """Show these columns in this order, and hide the others; the first one does not scroll."""
        # Nothing is laid out anew where nothing changed: this runs with every reading of the store. The first rows
        # count as a change, since a column of words is as wide as its content.
        columns = self.model().columns
        widths = tuple(column.width for column in columns)
        placed = columns, widths, tuple(keys), self.model().keys[:1], self.model().stored > 0
        if placed == self._placed:
            return
        self._placed = placed
        self._size_columns()
        self._placing = True
        header = self.horizontalHeader()
        sections = {column.key: section for section, column in enumerate(columns)}
        for section in range(header.count()):
            header.setSectionHidden(section, columns[section].key not in keys)
        header.setStretchLastSection(False)  # or each move that changes the last one lays out the view: a millisecond
        for visual, key in enumerate(keys):
            header.moveSection(header.visualIndex(sections[key]), visual)
        header.setStretchLastSection(True)
        self._mark_sorted(sections)
        self._placing = False
        self._first.show_column(sections[keys[0]] if keys else -1)

    def _mark_sorted(self, sections: dict[str, int]) -> None:
        """Let the sort indicator follow its column to another place, or vanish with it."""
        header, key = self.horizontalHeader(), next(iter(self.model().keys), None)
        order = Qt.SortOrder.DescendingOrder if key is not None and key.descending else Qt.SortOrder.AscendingOrder
        blocked = header.blockSignals(True)  # the rows are sorted already
        header.setSortIndicator(-1 if key is None else sections[key.column], order)
        header.blockSignals(blocked)

    def _size_columns(self) -> None:
        self._placing = True
        super()._size_columns()
        self._placing = False

    def _width_of(self, column: ResultColumn, digit: float, heading: QFontMetrics) -> int:
        """Return the user's width, or that of the column's content and heading."""
        if column.key in self.widths:
            return round(self.widths[column.key] * digit)
        widest = max(map(heading.horizontalAdvance, (column.heading or column.title).split("\n")))
        return max(math.ceil(_digits(self.model(), column) * digit), widest) + 2 * GRID

    def resizeColumnToContents(self, column: int) -> None:
        super().resizeColumnToContents(column)
        self._keep_width(column)

    def _on_resized(self, section: int, _before: int, width: int) -> None:
        """Keep a width that the user drags."""
        # Qt itself stretches the last column, and restores it.
        by_user = QGuiApplication.mouseButtons() != Qt.MouseButton.NoButton and section != self._last_section()
        if by_user and width and not self._placing:
            self._keep_width(section)

    def _keep_width(self, section: int) -> None:
        self.widths[self.model().columns[section].key] = round(self.columnWidth(section) / self.digit, 2)

    def _last_section(self) -> int:
        header = self.horizontalHeader()
        sections = map(header.logicalIndex, reversed(range(header.count())))
        return next((section for section in sections if not header.isSectionHidden(section)), -1)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._first.follow()

    def _on_moved(self) -> None:
        if self._placing:
            return
        # The header has moved a column already; the next `show_columns` must not take it for placed.
        self._placed = ()
        header = self.horizontalHeader()
        sections = (header.logicalIndex(visual) for visual in range(header.count()))
        self.columns_moved.emit(
            [self.model().columns[section].key for section in sections if not header.isSectionHidden(section)]
        )

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Delete runs on Delete."""
        if event.key() == Qt.Key.Key_Delete:
            self.delete_requested.emit()
        else:
            super().keyPressEvent(event)

    def _copy(self) -> None:
        if self.selectionModel().hasSelection():
            self.copy_requested.emit("")

    def _copy_cell(self) -> None:
        if (text := self.currentIndex().data()) is not None:
            QGuiApplication.clipboard().setText(str(text))

    def _show_header_menu(self, where: QPoint) -> None:
        header = self.horizontalHeader()
        section = header.logicalIndexAt(where)
        if section >= 0:
            header_menu(self, section).exec(header.mapToGlobal(where))


class _FirstColumn(QTableView):
    """Copy of a view's first column, shown while that has scrolled away; it shares model and selection."""

    def __init__(self, main: ResultsTableView) -> None:
        super().__init__(main)
        self._main, self._column = main, -1
        self.setAccessibleName(f"{main.accessibleName()}, first column")
        self.setFrameShape(QFrame.Shape.NoFrame)
        # Keys go to the view below, whose current cell this one shares.
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.viewport().setFocusProxy(main)
        self.setSelectionBehavior(main.selectionBehavior())
        self.setSelectionMode(main.selectionMode())
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setAlternatingRowColors(True)
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setVerticalScrollMode(main.verticalScrollMode())
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setStyleSheet(f"{main.styleSheet()} QTableView {{ border: none; }}")
        self.verticalHeader().hide()
        self.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        self.horizontalHeader().setHighlightSections(False)
        main.horizontalHeader().sectionResized.connect(lambda *_: self.follow())
        main.horizontalScrollBar().valueChanged.connect(lambda _: self.follow())
        # Each follows the other: the selection may scroll either.
        main.verticalScrollBar().valueChanged.connect(self.verticalScrollBar().setValue)
        self.verticalScrollBar().valueChanged.connect(main.verticalScrollBar().setValue)
        self.hide()

    def show_column(self, column: int) -> None:
        self._column = column
        for section in range(self.horizontalHeader().count()):
            self.setColumnHidden(section, section != column)
        self.follow()

    def follow(self) -> None:
        """Take size and scroll position of the view; hide unless its first column has scrolled away."""
        view, header = self._main.viewport(), self._main.horizontalHeader()
        width = self._main.columnWidth(self._column)
        if not self._main.horizontalScrollBar().value() or not 0 < width < view.width() // 2:
            self.hide()
            return
        self.setColumnWidth(self._column, width)
        self.horizontalHeader().setFixedHeight(header.height())
        self.verticalHeader().setDefaultSectionSize(self._main.verticalHeader().defaultSectionSize())
        self.setFont(self._main.font())
        self.setGeometry(view.x(), view.y() - header.height(), width, view.height() + header.height())
        self.verticalScrollBar().setValue(self._main.verticalScrollBar().value())
        self.show()
        self.raise_()


def _digits(table: ResultsTable, column: ResultColumn) -> int:
    """Return the width of a column's content, at most its usual one."""
    if column.numeric or column.key not in table.cells:
        return column.width
    cells = table.cells[column.key]
    if not 0 < len(cells.categories) <= _FEW:
        return column.width
    return min(column.width, int(cells.folded.str.len().max()))


def header_menu(view: ResultsTableView, section: int) -> QMenu:
    """Return the menu of a column; its actions sort the view and emit its signals."""
    menu, key = QMenu(view), view.model().columns[section].key
    for text, order in (
        ("Sort ascending", Qt.SortOrder.AscendingOrder),
        ("Sort descending", Qt.SortOrder.DescendingOrder),
    ):
        menu.addAction(text, partial(view.sortByColumn, section, order))
    menu.addAction("Clear the sort", lambda: view.sortByColumn(-1, Qt.SortOrder.AscendingOrder))
    menu.addSeparator()
    menu.addAction("Hide the column", lambda: view.column_hidden.emit(key))
    menu.addAction("Fit the width to the content", lambda: view.resizeColumnToContents(section))
    return menu
