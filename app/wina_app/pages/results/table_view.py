"""View of the results table: several sort keys, groups that open and close, pins, columns in a chosen order."""

from collections.abc import Callable, Sequence
from typing import cast

from PySide6.QtCore import QAbstractTableModel, QItemSelectionModel, QModelIndex, QRect, Qt, Signal
from PySide6.QtGui import QAction, QColor, QGuiApplication, QKeyEvent, QKeySequence, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QAbstractItemView, QTableView

from wina_app.pages.results.grouping import SortKey
from wina_app.pages.results.table import ResultsTable
from wina_app.style.theme import GRID, HALF, font, tokens
from wina_app.style.translation import tr
from wina_app.widgets.table_view import RowTableView

_PIN = 3
"""Width of the bar before pinned rows."""


class ResultsTableView(RowTableView):
    """Table view that emits actions on the selected rows."""

    copy_requested = Signal(str)
    """The suffix of a format; empty for rows as they read."""
    delete_requested = Signal()
    columns_moved = Signal(list)
    """Keys of the shown columns in their new order."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.setEditTriggers(QAbstractItemView.EditTrigger.DoubleClicked | QAbstractItemView.EditTrigger.EditKeyPressed)
        self._placing = False
        self._placed: tuple[object, list[str]] = (None, [])
        self.horizontalHeader().sectionClicked.connect(self._sort)
        self.horizontalHeader().sectionMoved.connect(self._on_moved)
        self.add_action(tr("Copy as Markdown"), lambda: self.copy_requested.emit(".md"))
        self.add_action(tr("Copy as LaTeX"), lambda: self.copy_requested.emit(".tex"))
        self.add_separator()
        self.add_action(tr("Sort ascending by this column"), lambda: self._sort_current(False), "Alt+Up")
        self.add_action(tr("Sort descending by this column"), lambda: self._sort_current(True), "Alt+Down")
        self.add_separator()

    def add_action(self, text: str, do: Callable[[], object], keys: str = "") -> None:
        """Add an action to the context menu; its shortcut works while the table has the focus."""
        action = QAction(text, self)
        action.setShortcut(QKeySequence(keys))
        action.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
        action.triggered.connect(lambda: do())
        self.addAction(action)

    def add_separator(self) -> None:
        """Add a separator to the context menu."""
        line = QAction(self)
        line.setSeparator(True)
        self.addAction(line)

    def model(self) -> ResultsTable:  # type: ignore[override]
        """Return the table that is shown."""
        return cast(ResultsTable, QTableView.model(self))

    def show_table(self, table: QAbstractTableModel) -> None:
        """Show a table; clicks on its headings sort it, with Shift within what is sorted already."""
        super().show_table(table)
        self.setSortingEnabled(False)
        # For headings that look selected Qt asks for each row whether it is, time and again.
        self.horizontalHeader().setSelectionModel(QItemSelectionModel(table, self.horizontalHeader()))
        self.horizontalHeader().setSectionsClickable(True)
        self.horizontalHeader().setSortIndicatorShown(False)

    def show_columns(self, keys: Sequence[str]) -> None:
        """Show these columns in this order, and hide the others."""
        columns = self.model().columns
        if (columns, keys) == self._placed:
            return
        self._placed = columns, list(keys)
        self._placing = True
        header = self.horizontalHeader()
        places = {column.key: place for place, column in enumerate(columns)}
        for place in range(header.count()):
            header.setSectionHidden(place, columns[place].key not in keys)
        for visual, key in enumerate(keys):
            header.moveSection(header.visualIndex(places[key]), visual)
        self._placing = False

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
        self._placed = None, []
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
        """Open or close a group on a click on its heading."""
        super().mousePressEvent(event)
        line = self.rowAt(round(event.position().y()))
        if event.button() == Qt.MouseButton.LeftButton and self.model().group_at(line) is not None:
            self._toggle(line)

    def _toggle(self, line: int) -> None:
        column = self.currentIndex().column()
        self.model().toggle(line)
        self.setCurrentIndex(self.model().index(line, max(column, 0)))

    def _copy(self) -> None:
        if self.selectionModel().hasSelection():
            self.copy_requested.emit("")

    # ---- paint ---------------------------------------------------------------------------------------------------

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint headings of groups across all columns, and a bar before the rows of pinned runs."""
        super().paintEvent(event)
        first, last = self.rowAt(0), self.rowAt(self.viewport().height() - 1)
        lines = range(max(first, 0), (self.model().rowCount() if last < 0 else last + 1) if first >= 0 else 0)
        painter = QPainter(self.viewport())
        for line in lines:
            place = QRect(0, self.rowViewportPosition(line), self.viewport().width(), self.rowHeight(line))
            group = self.model().group_at(line)
            if group is not None:
                self._paint_heading(painter, place, group.label, line)
            elif self.model().is_pinned(line):
                painter.fillRect(place.adjusted(0, 0, _PIN - place.width(), 0), QColor(tokens().accent))
        painter.end()

    def _paint_heading(self, painter: QPainter, place: QRect, label: str, line: int) -> None:
        selected = self.selectionModel().isRowSelected(line, QModelIndex())
        painter.fillRect(place, QColor(tokens().accent_soft if selected else tokens().raised))
        painter.setPen(QColor(tokens().line))
        painter.drawLine(place.bottomLeft(), place.bottomRight())
        painter.setFont(font(bold=True, tabular=True))
        painter.setPen(QColor(tokens().text))
        room = place.adjusted(GRID, 0, -GRID, 0)
        text = painter.fontMetrics().elidedText(label, Qt.TextElideMode.ElideRight, room.width())
        painter.drawText(room, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, text)
        if line == self.currentIndex().row() and self.hasFocus():
            painter.setPen(QColor(tokens().accent))
            painter.drawRect(place.adjusted(1, 1, -HALF // 2, -HALF // 2))
