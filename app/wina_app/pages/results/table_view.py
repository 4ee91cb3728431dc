"""View of the results table: several sort keys, groups that open and close, pins, columns in a chosen order."""

import math
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import cast

from PySide6.QtCore import (
    QAbstractTableModel,
    QItemSelectionModel,
    QModelIndex,
    QPersistentModelIndex,
    QPoint,
    QRect,
    Qt,
    Signal,
)
from PySide6.QtGui import (
    QAction,
    QColor,
    QFontMetrics,
    QGuiApplication,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
)
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QMenu, QTableView

from wina_app.pages.results.arrangement import SortKey
from wina_app.pages.results.frozen_columns import FrozenColumns
from wina_app.pages.results.table import ResultsTable
from wina_app.style.theme import GRID, HALF, font, tokens
from wina_app.widgets.table_view import RowTableView
from wina_core.analysis.results.columns import ResultColumn

_PIN = 3
"""Width of the bar before pinned rows."""


_FEW = 200
"""Most categories whose texts are measured to fit a column."""


class ResultsTableView(RowTableView):
    """Table view that emits actions on the selected rows."""

    copy_requested = Signal(str)
    """The suffix of a format; empty for rows as they read."""
    delete_requested = Signal()
    columns_moved = Signal(list)
    """Keys of the shown columns in their new order."""
    column_pinned = Signal(str, bool)
    column_hidden = Signal(str)
    columns_requested = Signal()
    """The user wants to choose the columns."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.setEditTriggers(QAbstractItemView.EditTrigger.DoubleClicked | QAbstractItemView.EditTrigger.EditKeyPressed)
        self.widths: dict[str, float] = {}
        """Widths that the user gave to columns, in digits, so that they follow the text size."""
        self.pinned: frozenset[str] = frozenset()
        self._placing = False
        """True while the program changes the columns, not the user."""
        self._placed: tuple[object, ...] = ()
        self._frozen = FrozenColumns(self, self._paint_lines)
        self._frozen.customContextMenuRequested.connect(self._show_frozen_menu)
        for header in (self.horizontalHeader(), self._frozen.horizontalHeader()):
            header.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
            header.customContextMenuRequested.connect(partial(self._show_header_menu, header))
        self._frozen.horizontalHeader().sectionClicked.connect(self._sort)
        self._frozen.horizontalHeader().sectionHandleDoubleClicked.connect(self.resizeColumnToContents)
        self.horizontalHeader().sectionResized.connect(self._on_resized)
        self.horizontalHeader().sectionClicked.connect(self._sort)
        self.horizontalHeader().sectionMoved.connect(self._on_moved)
        self.add_action("Copy cell", self._copy_cell, "Ctrl+Shift+C")
        self.add_action("Copy as Markdown", lambda: self.copy_requested.emit(".md"))
        self.add_action("Copy as LaTeX", lambda: self.copy_requested.emit(".tex"))
        self.add_separator()
        self.add_action("Sort ascending by this column", lambda: self._sort_current(False), "Alt+Up")
        self.add_action("Sort descending by this column", lambda: self._sort_current(True), "Alt+Down")
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
        """Show a table; clicks on its headings sort it, with Shift within what is sorted already."""
        super().show_table(table)
        self.setSortingEnabled(False)  # Qt sorts by one column; `_sort` knows several
        # For headings that look selected Qt asks for each row whether it is, time and again.
        self.horizontalHeader().setSelectionModel(QItemSelectionModel(table, self.horizontalHeader()))
        self.horizontalHeader().setSectionsClickable(True)
        self.horizontalHeader().setSortIndicatorShown(False)
        self._frozen.show_table(table)

    def show_columns(self, keys: Sequence[str], pinned: Collection[str] = ()) -> None:
        """Show these columns in this order, and hide the others; the pinned ones, which stand first, do not scroll."""
        # Nothing is laid out anew where nothing changed: this runs with every reading of the store. The first rows
        # count as a change, since a column of words is as wide as its content.
        columns, self.pinned = self.model().columns, frozenset(pinned)
        widths = tuple(column.width for column in columns)
        placed = columns, widths, tuple(keys), self.pinned, self.model().stored > 0
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
        self._placing = False
        frozen = [sections[key] for key in keys if key in self.pinned]
        self._frozen.pin(frozen, [section for section in range(header.count()) if section not in frozen])

    def _size_columns(self) -> None:
        self._placing = True
        super()._size_columns()
        self._placing = False

    def _width_of(self, column: ResultColumn, digit: float, heading: QFontMetrics) -> int:
        """Return the user's width, or that of the column's content and heading."""
        if column.key in self.widths:
            return round(self.widths[column.key] * digit)
        lines = (column.heading or column.title).split("\n")
        # Room for the sort mark in a heading of two lines.
        lines[-1] += "  \N{BLACK UP-POINTING SMALL TRIANGLE}1" if len(lines) > 1 else ""
        return max(math.ceil(_digits(self.model(), column) * digit), *map(heading.horizontalAdvance, lines)) + 2 * GRID

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
        self._frozen.follow()

    def scrollTo(
        self,
        index: QModelIndex | QPersistentModelIndex,
        hint: QAbstractItemView.ScrollHint = QAbstractItemView.ScrollHint.EnsureVisible,
    ) -> None:
        """Scroll to a cell, out from under the pinned columns."""
        bar = self.horizontalScrollBar()
        before = bar.value()
        if self._frozen.is_pinned(index.column()):  # it is visible however far the others have scrolled
            super().scrollTo(index, hint)
            bar.setValue(before)
            return
        super().scrollTo(index, hint)
        hidden = self._frozen.covered - self.columnViewportPosition(index.column())
        if hidden > 0:
            bar.setValue(bar.value() - hidden)

    # ---- order ---------------------------------------------------------------------------------------------------

    def _sort(self, section: int) -> None:
        if QGuiApplication.keyboardModifiers() & Qt.KeyboardModifier.ShiftModifier:
            self.model().sort_further(section)
            return
        key = self.model().columns[section].key
        up, down = (SortKey(key),), (SortKey(key, True),)
        keys = self.model().keys
        self.model().sort_by(down if keys == up else () if keys == down else up)

    def _sort_current(self, descending: bool) -> None:
        if self.currentIndex().isValid():
            self.model().sort_by((SortKey(self.model().columns[self.currentIndex().column()].key, descending),))

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

    # ---- keyboard and mouse --------------------------------------------------------------------------------------

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Delete runs on Delete; close a group on Left, open it on Right, toggle it on Space and Return."""
        line = self.currentIndex().row()
        group = self.model().group_at(line)
        if event.key() == Qt.Key.Key_Delete:
            self.delete_requested.emit()
        elif group is not None and (
            event.key() in (Qt.Key.Key_Space, Qt.Key.Key_Return, Qt.Key.Key_Enter)
            or event.key() == (Qt.Key.Key_Left if group.open else Qt.Key.Key_Right)
        ):
            self._toggle(line)
        else:
            super().keyPressEvent(event)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        super().mousePressEvent(event)
        self.press_line(event)

    def press_line(self, event: QMouseEvent) -> None:
        """Open or close the group whose heading was clicked."""
        line = self.rowAt(round(event.position().y()))
        if event.button() == Qt.MouseButton.LeftButton and self.model().group_at(line) is not None:
            self._toggle(line)

    def _toggle(self, line: int) -> None:
        column = self.currentIndex().column()
        self.model().toggle(line)
        # A heading has no key by which the new arrangement finds it: the current cell is lost.
        self.setCurrentIndex(self.model().index(line, max(column, 0)))

    def _copy(self) -> None:
        if self.selectionModel().hasSelection():
            self.copy_requested.emit("")

    def _copy_cell(self) -> None:
        if (text := self.currentIndex().data()) is not None:
            QGuiApplication.clipboard().setText(str(text))

    def _show_header_menu(self, header: QHeaderView, where: QPoint) -> None:
        section = header.logicalIndexAt(where)
        if section >= 0:
            header_menu(self, section).exec(header.mapToGlobal(where))

    def _show_frozen_menu(self, where: QPoint) -> None:
        index = self._frozen.indexAt(where)
        if index.isValid():
            self.show_menu(index, self._frozen.viewport().mapToGlobal(where))

    # ---- paint ---------------------------------------------------------------------------------------------------

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint headings of groups across all columns, and a bar before the rows of pinned runs."""
        super().paintEvent(event)
        painter = QPainter(self.viewport())
        self._paint_lines(painter, self)
        painter.end()

    def _paint_lines(self, painter: QPainter, view: QTableView) -> None:
        """Paint over the lines of this view or of its pinned columns."""
        first, last = view.rowAt(0), view.rowAt(view.viewport().height() - 1)
        for line in range(max(first, 0), (self.model().rowCount() if last < 0 else last + 1) if first >= 0 else 0):
            rect = QRect(0, view.rowViewportPosition(line), self.viewport().width(), view.rowHeight(line))
            group = self.model().group_at(line)
            if group is not None:
                self._paint_heading(painter, rect, group.label, line, view)
            elif self.model().is_pinned(line):
                painter.fillRect(rect.adjusted(0, 0, _PIN - rect.width(), 0), QColor(tokens().accent))

    def _paint_heading(self, painter: QPainter, rect: QRect, label: str, line: int, view: QTableView) -> None:
        selected = self.selectionModel().isRowSelected(line, QModelIndex())
        painter.fillRect(rect, QColor(tokens().accent_soft if selected else tokens().raised))
        painter.setPen(QColor(tokens().line))
        painter.drawLine(rect.bottomLeft(), rect.bottomRight())
        painter.setFont(font(bold=True, tabular=True))
        painter.setPen(QColor(tokens().text))
        means = self._paint_means(painter, rect, line, view)  # first: the label is elided before them
        room = rect.adjusted(GRID, 0, -GRID, 0)
        room.setRight(min(room.right(), means))
        text = painter.fontMetrics().elidedText(label, Qt.TextElideMode.ElideRight, room.width())
        painter.drawText(room, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, text)
        if line == self.currentIndex().row() and self.hasFocus() and view is self:
            painter.setPen(QColor(tokens().accent))
            painter.drawRect(rect.adjusted(1, 1, -HALF // 2, -HALF // 2))

    def _paint_means(self, painter: QPainter, rect: QRect, line: int, view: QTableView) -> int:
        """Paint a group's mean in each metric's column, and return where the first of them begins."""
        begin = rect.right()
        for section in range(self.model().columnCount()):
            if view.isColumnHidden(section) or not (text := self.model().mean_at(line, section)):
                continue
            left, width = view.columnViewportPosition(section), view.columnWidth(section)
            if left < view.viewport().width() and left + width > 0:
                painter.drawText(
                    QRect(left, rect.top(), width - GRID, rect.height()),
                    Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight,
                    text,
                )
                begin = min(begin, left + width - GRID - painter.fontMetrics().horizontalAdvance(text))
        return begin - GRID


def _digits(table: ResultsTable, column: ResultColumn) -> int:
    """Return the width of a column's content, at most its usual one."""
    if column.numeric or column.key not in table.cells:
        return column.width
    cells = table.cells[column.key]
    if not 0 < len(cells.categories) <= _FEW:
        return column.width
    return min(column.width, int(cells.folded.str.len().max()))


def header_menu(view: "ResultsTableView", section: int) -> QMenu:
    """Return the menu of a column; its actions change the view's table and emit the view's signals."""
    table, key = view.model(), view.model().columns[section].key
    sorted_by = [sort_key.column for sort_key in table.keys]
    menu = QMenu(view)
    menu.addAction("Sort ascending", lambda: table.sort_by((SortKey(key),)))
    menu.addAction("Sort descending", lambda: table.sort_by((SortKey(key, True),)))
    if set(sorted_by) - {key}:
        menu.addSeparator()
        menu.addAction("Then by this, ascending", lambda: table.sort_further(section, False))
        menu.addAction("Then by this, descending", lambda: table.sort_further(section, True))
    if key in sorted_by:
        menu.addAction("Remove from sort", lambda: table.unsort(section))
    if sorted_by:
        menu.addAction("Clear the sort", lambda: table.sort_by(()))
    menu.addSeparator()
    pinned = key in view.pinned
    text = "Unpin the column" if pinned else "Pin the column at the left"
    menu.addAction(text, lambda: view.column_pinned.emit(key, not pinned))
    menu.addAction("Hide the column", lambda: view.column_hidden.emit(key))
    menu.addAction("Fit the width to the content", lambda: view.resizeColumnToContents(section))
    menu.addSeparator()
    menu.addAction("Choose the columns…", view.columns_requested.emit)
    return menu
