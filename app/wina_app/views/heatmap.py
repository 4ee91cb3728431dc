"""A table of numbers as colours: rows are decoder layers, columns are projections; optionally edited in place."""

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from PySide6.QtCore import QEvent, QPointF, QRect, QSize, Qt, Signal
from PySide6.QtGui import (
    QAccessible,
    QAccessibleEvent,
    QAction,
    QColor,
    QFocusEvent,
    QFontMetricsF,
    QGuiApplication,
    QHelpEvent,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
)
from PySide6.QtWidgets import QAbstractScrollArea, QFrame, QToolTip, QWidget

from wina_app.models.sparsity_selection import Selection
from wina_app.theme import GRID, HALF, font, notifier, tokens
from wina_app.views.colour_maps import ColourScale
from wina_app.views.heatmap_geometry import MAX_CELL_HEIGHT, MAX_CELL_WIDTH, HeatmapGeometry, cells_between
from wina_app.views.heatmap_painter import CORNER, HeatmapLook, paint_heatmap, paint_remark
from wina_app.views.heatmap_text import cursor_text, table_text
from wina_core.plan import Cell

_TYPED = "0123456789.,"
_STEP = 5
"""Percentage points that + and - change; with Ctrl 1."""
_MOVES = {
    Qt.Key.Key_Up: (-1, 0),
    Qt.Key.Key_Down: (1, 0),
    Qt.Key.Key_Left: (0, -1),
    Qt.Key.Key_Right: (0, 1),
    Qt.Key.Key_PageUp: (-8, 0),
    Qt.Key.Key_PageDown: (8, 0),
    Qt.Key.Key_Home: (0, -1_000),
    Qt.Key.Key_End: (0, 1_000),
}


class Heatmap(QAbstractScrollArea):
    """Shows `values` [rows, columns] through a ColourScale; NaN cells are hatched as "no data".

    Click, drag, headers, arrows, Shift, Ctrl and Ctrl+A select as in a spreadsheet. When `editable`, digits then
    Enter emit `text_entered`, + and - emit `stepped`; with `brush` on, a drag emits `painted` between
    `stroke_began` and `stroke_ended` instead of selecting. The widget never changes its own values.
    """

    selection_changed = Signal()
    text_entered = Signal(str)
    stepped = Signal(int)
    """Percentage points to add to the selection."""
    stroke_began = Signal()
    painted = Signal(object)
    """Frozenset of the cells that the brush touched since the last signal."""
    stroke_ended = Signal()

    def __init__(self, name: str, *, editable: bool = False, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.editable = editable
        self.brush = False
        self.tooltip: Callable[[Cell], str] | None = None
        self._rows: tuple[str, ...] = ()
        self._columns: tuple[str, ...] = ()
        self._values = np.empty((0, 0))
        self._scale: ColourScale | None = None
        self._selection = Selection(0, 0)
        self._typed = ""
        self._remark = ""
        self._stroke: Cell | None = None
        self._dragging = ""
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName(name)
        self.viewport().setMouseTracking(True)
        self.viewport().setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        copy = QAction("Copy values", self)
        copy.setShortcut(QKeySequence.StandardKey.Copy)
        copy.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
        copy.triggered.connect(lambda: QGuiApplication.clipboard().setText(self.selected_text()))
        self.addAction(copy)
        notifier().changed.connect(self._restyle)

    # ---- what is shown -------------------------------------------------------------------------------------------

    def set_table(self, rows: Sequence[str], columns: Sequence[str]) -> None:
        """Name the rows and columns; values and selection are cleared when the names change."""
        if (tuple(rows), tuple(columns)) == (self._rows, self._columns):
            return
        self._rows, self._columns = tuple(rows), tuple(columns)
        self._values = np.full((len(rows), len(columns)), math.nan)
        self._typed = ""
        self._fit()
        self.set_selection(Selection(len(rows), len(columns)))
        self.viewport().update()

    def set_values(self, values: np.ndarray, scale: ColourScale) -> None:
        """Show a [rows, columns] table; only the cells that changed are painted again."""
        if values.shape != self._values.shape:
            raise ValueError(f"values have shape {values.shape}, the table is {self._values.shape}")
        if scale == self._scale:
            changed = ~((values == self._values) | (np.isnan(values) & np.isnan(self._values)))
        else:
            changed = np.ones(values.shape, dtype=bool)
        self._values, self._scale = values.copy(), scale
        self._update_cells((int(row), int(column)) for row, column in np.argwhere(changed))
        self._describe()

    def set_remark(self, text: str) -> None:
        """A sentence across the cells, for tables without data; empty for none."""
        if text != self._remark:
            self._remark = text
            self.viewport().update()

    @property
    def remark(self) -> str:
        """The sentence across the cells."""
        return self._remark

    @property
    def selection(self) -> Selection:
        """What is selected."""
        return self._selection

    def set_selection(self, selection: Selection) -> None:
        """Select cells and scroll to the cursor; emits `selection_changed` when something changed."""
        if selection == self._selection:
            return
        before, self._selection = self._selection, selection
        touched = (before.cells ^ selection.cells) | {c for c in (before.cursor, selection.cursor) if c}
        self._update_cells({(r + dr, c + dc) for r, c in touched for dr in (-1, 0, 1) for dc in (-1, 0, 1)})
        geometry, view = self.geometry_now(), self.viewport().size()
        self.viewport().update(QRect(0, 0, view.width(), math.ceil(geometry.header_height)))
        self.viewport().update(QRect(0, 0, math.ceil(geometry.header_width), view.height()))
        if selection.cursor is not None:
            self._scroll_to(selection.cursor)
        self._describe()
        self.selection_changed.emit()

    def geometry_now(self) -> HeatmapGeometry:
        """Where everything lies at the moment, in viewport coordinates."""
        small, body = QFontMetricsF(font("small", bold=True)), QFontMetricsF(font())
        widest = max(small.horizontalAdvance(text) for text in (CORNER, *self._rows))
        narrowest = max(body.horizontalAdvance(text) for text in ("00.0", *self._columns)) + GRID
        header_width, header_height = math.ceil(widest + 2 * GRID), math.ceil(small.height() + GRID)
        view, rows, columns = self.viewport().size(), max(len(self._rows), 1), max(len(self._columns), 1)
        return HeatmapGeometry(
            rows=len(self._rows),
            columns=len(self._columns),
            header_width=header_width,
            header_height=header_height,
            cell_width=min(max((view.width() - header_width) / columns, narrowest), MAX_CELL_WIDTH),
            cell_height=min(max((view.height() - header_height) / rows, body.height() + HALF), MAX_CELL_HEIGHT),
            dx=self.horizontalScrollBar().value(),
            dy=self.verticalScrollBar().value(),
            ratio=self.devicePixelRatioF(),
        )

    def sizeHint(self) -> QSize:
        """Room for all columns at a comfortable width and about a dozen rows."""
        geometry = self.geometry_now()
        width = geometry.header_width + geometry.columns * 0.5 * MAX_CELL_WIDTH
        return QSize(round(width), round(geometry.header_height + min(geometry.rows, 12) * MAX_CELL_HEIGHT / 2))

    def minimumSizeHint(self) -> QSize:
        """All columns at their narrowest, and a few rows."""
        return QSize(320, 160)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint what the event's area touches."""
        with QPainter(self.viewport()) as painter:
            painter.fillRect(event.rect(), QColor(tokens().surface))
            if self._rows and self._scale is not None:
                look = HeatmapLook(
                    self.geometry_now(),
                    self._rows,
                    self._columns,
                    self._values,
                    self._scale,
                    self._selection,
                    self._typed,
                    self.hasFocus(),
                )
                paint_heatmap(painter, event.rect(), self.viewport().rect(), look)
                if self._remark:
                    paint_remark(painter, look.geometry, self.viewport().rect(), self._remark)

    def _update_cells(self, cells: Iterable[Cell]) -> None:
        geometry = self.geometry_now()
        for row, column in cells:
            self.viewport().update(geometry.cell(row, column).toAlignedRect())

    def _describe(self) -> None:
        """Tell screen readers what the cursor is on."""
        text = cursor_text(self._rows, self._columns, self._values, self._scale, self._selection)
        if text != self.accessibleDescription():
            self.setAccessibleDescription(text)
            QAccessible.updateAccessibility(QAccessibleEvent(self, QAccessible.Event.DescriptionChanged))

    # ---- size and scrolling --------------------------------------------------------------------------------------

    def _fit(self) -> None:
        geometry, view = self.geometry_now(), self.viewport().size()
        for bar, content, page, step in (
            (self.horizontalScrollBar(), geometry.content_width, view.width(), geometry.cell_width),
            (self.verticalScrollBar(), geometry.content_height, view.height(), geometry.cell_height),
        ):
            bar.setRange(0, max(0, math.floor(content + 1e-6) - page))
            bar.setPageStep(page)
            bar.setSingleStep(round(step))

    def _scroll_to(self, cell: Cell) -> None:
        geometry, view = self.geometry_now(), self.viewport().size()
        rect = geometry.cell(*cell)
        for bar, low, high, start, end in (
            (self.horizontalScrollBar(), rect.left(), rect.right(), geometry.header_width, view.width()),
            (self.verticalScrollBar(), rect.top(), rect.bottom(), geometry.header_height, view.height()),
        ):
            if low < start:
                bar.setValue(bar.value() - math.ceil(start - low))
            elif high > end:
                bar.setValue(bar.value() + math.ceil(high - end))

    def _restyle(self) -> None:
        self._fit()
        self.viewport().update()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Fit the cells to the new size."""
        super().resizeEvent(event)
        self._fit()

    def scrollContentsBy(self, dx: int, dy: int) -> None:  # noqa: ARG002 - Qt's signature
        """Headings stay in place, so the whole viewport is painted again."""
        self.viewport().update()

    # ---- pointer -------------------------------------------------------------------------------------------------

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Select, or begin a stroke of the brush."""
        if event.button() != Qt.MouseButton.LeftButton or not self._rows:
            return
        self._commit()
        geometry, point = self.geometry_now(), event.position()
        extend = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
        toggle = bool(event.modifiers() & Qt.KeyboardModifier.ControlModifier)
        row, column = geometry.nearest(point)
        cell = geometry.cell_at(point)
        self._dragging = ""
        if cell is not None and self.brush and self.editable:
            self._stroke = cell
            self.stroke_began.emit()
            self.painted.emit(frozenset({cell}))
        elif cell is not None:
            self._dragging = "cell"
            self.set_selection(self._selection.click(cell, extend, toggle))
        elif geometry.in_row_header(point) and row < geometry.rows:
            self._dragging = "row"
            self.set_selection(self._selection.click_row(row, extend, toggle))
        elif geometry.in_column_header(point) and column < geometry.columns:
            self._dragging = "column"
            self.set_selection(self._selection.click_column(column, extend, toggle))
        elif point.x() < geometry.header_width and point.y() < geometry.header_height:
            self.set_selection(self._selection.all())
        else:
            self.set_selection(self._selection.none())

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """While the button is down, stretch the selection or go on painting."""
        if not event.buttons() & Qt.MouseButton.LeftButton or not self._rows:
            return
        geometry = self.geometry_now()
        row, column = geometry.nearest(event.position())
        if self._stroke is not None:
            cell = geometry.cell_at(event.position())
            if cell is not None and cell != self._stroke:
                self.painted.emit(frozenset(cells_between(self._stroke, cell)))
                self._stroke = cell
        elif self._dragging == "row":
            self.set_selection(self._selection.click_row(min(max(row, 0), geometry.rows - 1), extend=True))
        elif self._dragging == "column":
            self.set_selection(self._selection.click_column(min(max(column, 0), geometry.columns - 1), extend=True))
        elif self._dragging == "cell":
            self.set_selection(self._selection.drag_to((row, column)))

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:  # noqa: ARG002 - Qt's signature
        """End a drag or a stroke."""
        self._dragging = ""
        if self._stroke is not None:
            self._stroke = None
            self.stroke_ended.emit()

    def viewportEvent(self, event: QEvent) -> bool:
        """Show the tooltip of the cell under the pointer."""
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            geometry = self.geometry_now()
            cell = geometry.cell_at(QPointF(event.pos()))
            if cell is None or self.tooltip is None:
                QToolTip.hideText()
            else:
                area = geometry.cell(*cell).toAlignedRect()
                QToolTip.showText(event.globalPos(), self.tooltip(cell), self.viewport(), area)
            return True
        return super().viewportEvent(event)

    def selected_text(self) -> str:
        """The selection, or everything when nothing is selected, as shown: tabs between values."""
        if self._scale is None:
            return ""
        cells = self._selection.cells or self._selection.all().cells
        return table_text(self._rows, self._columns, self._values, self._scale, cells)

    # ---- keyboard ------------------------------------------------------------------------------------------------

    def event(self, event: QEvent) -> bool:
        """Keep digits and signs for the cells even where the window has shortcuts on them."""
        if isinstance(event, QKeyEvent) and event.type() == QEvent.Type.ShortcutOverride:
            text = event.text()
            if self.editable and len(text) == 1 and text in _TYPED + "+-" and not _has_alt(event):
                event.accept()
                return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Arrows move, Shift+arrows extend, Ctrl+A selects all; digits, Enter, Esc, Backspace, + and - edit."""
        if not self._rows:
            super().keyPressEvent(event)
        elif event.matches(QKeySequence.StandardKey.SelectAll):
            self.set_selection(self._selection.all())
        elif event.key() in _MOVES:
            self._commit()
            extend = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
            self.set_selection(self._selection.move(*_MOVES[Qt.Key(event.key())], extend=extend))
        elif not (self.editable and self._selection.cursor and self._edit(event)):
            super().keyPressEvent(event)

    def _edit(self, event: QKeyEvent) -> bool:
        """Handle an editing key; False when it is none."""
        key, text = event.key(), event.text()
        step = 1 if event.modifiers() & Qt.KeyboardModifier.ControlModifier else _STEP
        if key in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self._typed:
            self._commit()
        elif key == Qt.Key.Key_Escape and self._typed:
            self._type("")
        elif key == Qt.Key.Key_Backspace and self._typed:
            self._type(self._typed[:-1])
        elif key in (Qt.Key.Key_Plus, Qt.Key.Key_Minus):
            self._commit()
            self.stepped.emit(step if key == Qt.Key.Key_Plus else -step)
        elif len(text) == 1 and text in _TYPED and not _has_alt(event):
            self._type(self._typed + text)
        else:
            return False
        return True

    def _type(self, text: str) -> None:
        self._typed = text
        if self._selection.cursor is not None:
            self._update_cells([self._selection.cursor])

    def _commit(self) -> None:
        if self._typed:
            text = self._typed
            self._type("")
            self.text_entered.emit(text)

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Show the cursor; the first one when the keyboard arrives and nothing is selected."""
        super().focusInEvent(event)
        keyboard = (Qt.FocusReason.TabFocusReason, Qt.FocusReason.BacktabFocusReason)
        if self._selection.cursor is None and self._rows and event.reason() in keyboard:
            self.set_selection(self._selection.click((0, 0)))
        self._update_cells([self._selection.cursor] if self._selection.cursor else [])

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """What was typed counts when the focus goes elsewhere."""
        self._commit()
        self._update_cells([self._selection.cursor] if self._selection.cursor else [])
        super().focusOutEvent(event)


def _has_alt(event: QKeyEvent) -> bool:
    return bool(event.modifiers() & (Qt.KeyboardModifier.AltModifier | Qt.KeyboardModifier.MetaModifier))
