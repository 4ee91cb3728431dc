"""Pinned columns of a table, over those that scroll beneath them."""

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QAbstractItemModel, Qt
from PySide6.QtGui import QMouseEvent, QPainter, QPaintEvent, QWheelEvent
from PySide6.QtWidgets import QAbstractItemView, QFrame, QTableView

from wina_app.style.theme import tokens

if TYPE_CHECKING:
    from wina_app.pages.results.table_view import ResultsTableView

_LARGEST_SHARE = 0.6
"""Largest part of the width that pinned columns take; wider ones scroll with the others."""


class FrozenColumns(QTableView):
    """Copy of a view's pinned columns, shown once these have scrolled away; it shares model and selection."""

    def __init__(self, main: "ResultsTableView", paint: Callable[[QPainter, QTableView], None]) -> None:
        super().__init__(main)
        self._main, self._paint_over = main, paint
        self._pinned: tuple[int, ...] = ()
        self.setAccessibleName(main.accessibleName())
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
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.setStyleSheet(f"{main.styleSheet()} QTableView {{ border: none; }}")
        self.verticalHeader().hide()
        header = self.horizontalHeader()
        header.setHighlightSections(False)
        header.setSectionsClickable(True)
        header.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        header.sectionResized.connect(self._on_resized)
        main.horizontalHeader().sectionResized.connect(lambda *_: None if self.isHidden() else self.follow())
        main.horizontalScrollBar().valueChanged.connect(lambda _: self.follow())
        # Each follows the other: the selection may scroll either.
        main.verticalScrollBar().valueChanged.connect(self.verticalScrollBar().setValue)
        self.verticalScrollBar().valueChanged.connect(main.verticalScrollBar().setValue)
        self.hide()

    def show_table(self, model: QAbstractItemModel) -> None:
        self.setModel(model)
        self.setSelectionModel(self._main.selectionModel())
        self._pinned = ()

    def pin(self, sections: Sequence[int], hidden: Collection[int]) -> None:
        """Pin these columns, in this order; `hidden` are all others."""
        self._pinned = tuple(sections)
        header = self.horizontalHeader()
        for section in hidden:
            header.setSectionHidden(section, True)
        for visual, section in enumerate(sections):
            header.setSectionHidden(section, False)
            header.moveSection(header.visualIndex(section), visual)
        self.follow()

    @property
    def covered(self) -> int:
        """Width that the pinned columns take of what scrolls; 0 while they are not shown."""
        return self._width if not self.isHidden() else 0

    @property
    def _width(self) -> int:
        return sum(self._main.columnWidth(section) for section in self._pinned)

    def is_pinned(self, section: int) -> bool:
        """Return whether this view shows the column now."""
        return not self.isHidden() and section in self._pinned

    def _on_resized(self, section: int, _before: int, width: int) -> None:
        if width and self.is_pinned(section):  # width 0: the column was hidden, here alone
            self._main.setColumnWidth(section, width)

    def follow(self) -> None:
        """Take size, widths and scroll position of the view; hide unless its pinned columns have scrolled away."""
        view = self._main.viewport()
        width = self._width
        scrolled = self._main.horizontalScrollBar().value() > 0
        if not (self._pinned and scrolled and 0 < width <= _LARGEST_SHARE * view.width()):
            self.hide()
            return
        header = self.horizontalHeader()
        # Otherwise `_on_resized` would write the widths back to the view.
        blocked = header.blockSignals(True)
        for section in self._pinned:
            self.setColumnWidth(section, self._main.columnWidth(section))
        header.blockSignals(blocked)
        height = self._main.horizontalHeader().height()
        header.setFixedHeight(height)
        self.verticalHeader().setDefaultSectionSize(self._main.verticalHeader().defaultSectionSize())
        self.setFont(self._main.font())
        self.setGeometry(view.x(), view.y() - height, width, view.height() + height)
        self.verticalScrollBar().setValue(self._main.verticalScrollBar().value())
        self.show()
        self.raise_()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Select a row, and open or close a group, with the keyboard in the view."""
        super().mousePressEvent(event)
        self._main.setFocus(Qt.FocusReason.MouseFocusReason)
        self._main.press_line(event)

    def wheelEvent(self, event: QWheelEvent) -> None:
        self._main.wheelEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint headings and pins as the view does, and a line at the right edge."""
        super().paintEvent(event)
        painter = QPainter(self.viewport())
        self._paint_over(painter, self)
        painter.setPen(tokens().line)
        right = self.viewport().width() - 1
        painter.drawLine(right, 0, right, self.viewport().height())
        painter.end()
