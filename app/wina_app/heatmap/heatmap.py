"""A table of numbers as colours: rows are decoder layers, columns are projections.

A QTableView with a delegate was tried in its place, with 80 x 7 cells on 620 x 460 pixels. Painting takes as long (all
cells 9.2 ms against 9.0 here, one cell 0.2 against 0.3), and screen readers get a child for each cell in place of the
cursor's description. But scrolling takes 14 ms against 6, next to nothing of a frame's 16.7 is left for the page, and
the code gets no shorter: brush, typed targets, locks, selections of any shape as values, and cells on whole
device pixels stay, and a model, a delegate and headers are added to them.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar

import numpy as np
from PySide6.QtCore import QEvent, QPoint, QPointF, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QAccessible,
    QAccessibleEvent,
    QAction,
    QColor,
    QFocusEvent,
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

from wina_app.heatmap.clipboard import copied_text
from wina_app.heatmap.geometry import (
    MAX_CELL_HEIGHT,
    MAX_CELL_WIDTH,
    HeatmapGeometry,
    HeatmapSizes,
    rows_alone,
    text_sizes,
)
from wina_app.heatmap.painter import HeatmapLook, Notes, paint_heatmap, paint_remark
from wina_app.heatmap.selection import Selection
from wina_app.plots.colour_maps import ColourScale
from wina_app.plots.figure import map_figure
from wina_app.style.theme import notifier, tokens
from wina_core.report.drawing import Figure
from wina_core.specs.plans import Cell

_MANY = 64
"""Changed cells from which the area around them is painted: a region of so many pieces costs more."""

_FAR = 1_000_000
"""Step to the edge, where the selection stops."""
MOVES = {
    Qt.Key.Key_Up: (-1, 0),
    Qt.Key.Key_Down: (1, 0),
    Qt.Key.Key_Left: (0, -1),
    Qt.Key.Key_Right: (0, 1),
    Qt.Key.Key_PageUp: (-8, 0),
    Qt.Key.Key_PageDown: (8, 0),
    Qt.Key.Key_Home: (0, -_FAR),
    Qt.Key.Key_End: (0, _FAR),
}
JUMPS = {
    Qt.Key.Key_Up: (-_FAR, 0),
    Qt.Key.Key_Down: (_FAR, 0),
    Qt.Key.Key_Left: (0, -_FAR),
    Qt.Key.Key_Right: (0, _FAR),
    Qt.Key.Key_Home: (-_FAR, -_FAR),
    Qt.Key.Key_End: (_FAR, _FAR),
}
STEPS = (Qt.Key.Key_Up, Qt.Key.Key_Down, Qt.Key.Key_Left, Qt.Key.Key_Right)
"""Keys that move by one cell."""


class Heatmap(QAbstractScrollArea):
    """A heatmap of `values` [rows, columns] on a ColourScale; NaN cells are hatched as "no data".

    Click, drag, headings, arrows, Shift, Ctrl, Ctrl+A and Esc select as in a spreadsheet.
    """

    selection_changed = Signal()

    mark_width: ClassVar[int] = 0
    """Pixels beside a value for a mark."""

    def __init__(self, name: str, *, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.tooltip: Callable[[Cell], str] | None = None
        self._rows: tuple[str, ...] = ()
        self._columns: tuple[str, ...] = ()
        self._values = np.empty((0, 0))
        self._notes: Notes = ()
        self._scale: ColourScale | None = None
        self._selection = Selection(0, 0)
        self._remark = ""
        self._dragging = ""
        self._lines = rows_alone(0)
        self._sizes = text_sizes((), (), self.mark_width)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName(name)
        self.viewport().setMouseTracking(True)
        self.viewport().setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)  # `paintEvent` fills the whole area itself
        self.add_action("Copy values", "Ctrl+C", lambda: self.copy(headings=False))
        self.add_action("Copy with headings", "Ctrl+Shift+C", lambda: self.copy(headings=True))
        notifier().changed.connect(self._restyle)

    def add_action(self, text: str, keys: str, do: Callable[[], object]) -> QAction:
        """Add an action to the context menu, with a shortcut while the heatmap has the focus."""
        action = QAction(text, self)
        action.setShortcut(QKeySequence(keys))
        action.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
        action.triggered.connect(lambda: do())  # `triggered` would pass whether the action is checked
        self.addAction(action)
        return action

    # ---- contents ------------------------------------------------------------------------------------------------

    def set_table(self, rows: Sequence[str], columns: Sequence[str]) -> None:
        """Name the rows and columns; new names clear values and selection."""
        if (tuple(rows), tuple(columns)) == (self._rows, self._columns):
            return
        self._rows, self._columns = tuple(rows), tuple(columns)
        self._values, self._notes = np.full((len(rows), len(columns)), math.nan), ()
        self._lines = rows_alone(len(rows))
        self._sizes = self._text_sizes()
        self._fit()
        self.set_selection(Selection(len(rows), len(columns)))
        self.viewport().update()

    def set_values(self, values: np.ndarray, scale: ColourScale, notes: Notes = ()) -> None:
        """Show a [rows, columns] table, with a small second text in each cell if there are notes; only the cells that
        changed are painted again."""
        if values.shape != self._values.shape:
            raise ValueError(f"values have shape {values.shape}, the table is {self._values.shape}")
        if scale == self._scale:
            changed = ~((values == self._values) | (np.isnan(values) & np.isnan(self._values)))
        else:
            changed = np.ones(values.shape, dtype=bool)
        if notes != self._notes:
            self._notes = notes
            changed[:] = True
        # A copy: the next table is compared with it, whatever the caller writes into its array meanwhile.
        self._values, self._scale = values.copy(), scale
        self.update_cells(zip(*(indices.tolist() for indices in np.nonzero(changed)), strict=True))
        self.describe()

    def set_remark(self, text: str) -> None:
        """Show a sentence across the cells, for tables without data; empty for none."""
        if text != self._remark:
            self._remark = text
            self.viewport().update()

    @property
    def remark(self) -> str:
        return self._remark

    @property
    def selection(self) -> Selection:
        return self._selection

    def set_selection(self, selection: Selection) -> None:
        """Select cells, scroll to the cursor and emit `selection_changed`, unless nothing changed."""
        if selection == self._selection:
            return
        before, self._selection = self._selection, selection
        touched = (before.cells ^ selection.cells) | {c for c in (before.cursor, selection.cursor) if c}
        # A cell's outline depends on whether its neighbours are selected: these are painted again, too.
        self.update_cells({(r + dr, c + dc) for r, c in touched for dr in (-1, 0, 1) for dc in (-1, 0, 1)})
        # The headings of selected rows and columns are bold.
        geometry, view = self.geometry_now(), self.viewport().size()
        self.viewport().update(QRect(0, 0, view.width(), math.ceil(geometry.header_height)))
        self.viewport().update(QRect(0, 0, math.ceil(geometry.header_width), view.height()))
        if selection.cursor is not None:
            self._scroll_to(geometry.cell(*selection.cursor))
        self.describe()
        self.selection_changed.emit()

    def geometry_now(self) -> HeatmapGeometry:
        """Return the present geometry in viewport coordinates."""
        scrolled = QPoint(self.horizontalScrollBar().value(), self.verticalScrollBar().value())
        view, ratio = self.viewport().size(), self.devicePixelRatioF()
        return HeatmapGeometry.fitted(self._lines, len(self._columns), self._sizes, view, scrolled, ratio)

    def sizeHint(self) -> QSize:
        """Return room for all columns at a comfortable width and about a dozen rows."""
        geometry = self.geometry_now()
        width = geometry.header_width + geometry.columns * 0.5 * MAX_CELL_WIDTH
        return QSize(round(width), round(geometry.header_height + min(geometry.rows, 12) * MAX_CELL_HEIGHT / 2))

    def minimumSizeHint(self) -> QSize:
        return QSize(320, 160)

    def paintEvent(self, event: QPaintEvent) -> None:
        with QPainter(self.viewport()) as painter:
            painter.fillRect(event.rect(), QColor(tokens().surface))
            look = self.look()
            if look is not None:
                paint_heatmap(painter, event.region(), self.viewport().rect(), look)
                if self._remark:
                    paint_remark(painter, look.geometry, self.viewport().rect(), self._remark)

    def look(self) -> HeatmapLook | None:
        """Return the input of painting; None while there is nothing to show."""
        if not self._rows or self._scale is None:
            return None
        return HeatmapLook(
            self.geometry_now(),
            self._rows,
            self._columns,
            self._values,
            self._scale,
            self._selection,
            self.hasFocus(),
            notes=self._notes,
        )

    def update_cells(self, cells: Iterable[Cell]) -> None:
        geometry, changed = self.geometry_now(), list(cells)
        if len(changed) >= _MANY:
            rows, columns = zip(*changed, strict=True)
            ends = geometry.cell(min(rows), min(columns)), geometry.cell(max(rows), max(columns))
            self.viewport().update(self.viewport().rect() & ends[0].united(ends[1]).toAlignedRect())
            return
        for row, column in changed:
            self.viewport().update(geometry.cell(row, column).toAlignedRect())

    def description(self) -> str:
        """Describe the cursor's cell with its note, and the size of the selection."""
        scale = self._scale
        if self._selection.cursor is None or scale is None:
            return f"{len(self._rows)} layers by {len(self._columns)} projections, nothing selected"
        row, column = self._selection.cursor
        value = float(self._values[row, column])
        number = "no data" if math.isnan(value) else f"{scale.text(value)} {scale.unit}".strip()
        text = f"layer {self._rows[row]}, {self._columns[column]}: {scale.title} {number}"
        if self._notes:
            text = f"{text}, {self._notes[row][column]}"
        count = len(self._selection.cells)
        return f"{text}; {count} cells selected" if count > 1 else text

    def describe(self) -> None:
        """Describe the cursor's cell to screen readers."""
        text = self.description()
        if text != self.accessibleDescription():
            self.setAccessibleDescription(text)
            QAccessible.updateAccessibility(QAccessibleEvent(self, QAccessible.Event.DescriptionChanged))

    def figure(self) -> Figure:
        """Return the map as plain data; an empty figure before there is a table."""
        return map_figure(self.accessibleName(), self._rows, self._columns, self._values, self._scale)

    # ---- size and scrolling --------------------------------------------------------------------------------------

    def _fit(self) -> None:
        geometry, view = self.geometry_now(), self.viewport().size()
        for bar, content, page, step in (
            (self.horizontalScrollBar(), geometry.content_width, view.width(), geometry.cell_width),
            (self.verticalScrollBar(), geometry.content_height, view.height(), geometry.cell_height),
        ):
            # Cells that fill the viewport add up to its size but for rounding, which must not show a scroll bar.
            bar.setRange(0, max(0, math.floor(content + 1e-6) - page))
            bar.setPageStep(page)
            bar.setSingleStep(round(step))

    def _scroll_to(self, rect: QRectF) -> None:
        geometry, view = self.geometry_now(), self.viewport().size()
        for bar, low, high, start, end in (
            (self.horizontalScrollBar(), rect.left(), rect.right(), geometry.header_width, view.width()),
            (self.verticalScrollBar(), rect.top(), rect.bottom(), geometry.header_height, view.height()),
        ):
            if low < start:
                bar.setValue(bar.value() - math.ceil(start - low))
            elif high > end:
                bar.setValue(bar.value() + math.ceil(high - end))

    def _restyle(self) -> None:
        self._sizes = self._text_sizes()
        self._fit()
        self.viewport().update()

    def _text_sizes(self) -> HeatmapSizes:
        return text_sizes(self._rows, self._columns, self.mark_width)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def scrollContentsBy(self, dx: int, dy: int) -> None:  # noqa: ARG002 - Qt's signature
        """Paint the whole viewport again, since headings stay in place."""
        self.viewport().update()

    # ---- pointer -------------------------------------------------------------------------------------------------

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Select what is under the pointer."""
        if event.button() != Qt.MouseButton.LeftButton or not self._rows:
            return
        geometry, point = self.geometry_now(), event.position()
        extend = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
        toggle = bool(event.modifiers() & Qt.KeyboardModifier.ControlModifier)
        row, column = geometry.nearest(point)
        cell = geometry.cell_at(point)
        self._dragging = ""
        if cell is not None:
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
        """Stretch the selection while the button is down."""
        if not event.buttons() & Qt.MouseButton.LeftButton or not self._dragging:
            return
        geometry = self.geometry_now()
        row, column = geometry.nearest(event.position())
        if self._dragging == "row":
            self.set_selection(self._selection.click_row(min(max(row, 0), geometry.rows - 1), extend=True))
        elif self._dragging == "column":
            self.set_selection(self._selection.click_column(min(max(column, 0), geometry.columns - 1), extend=True))
        else:
            self.set_selection(self._selection.drag_to((row, column)))

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:  # noqa: ARG002 - Qt's signature
        self._dragging = ""

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

    # ---- keyboard and clipboard ----------------------------------------------------------------------------------

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Move with arrows, extend with Shift, go to the edge with Ctrl; select rows and columns with Space."""
        extend = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
        control = bool(event.modifiers() & Qt.KeyboardModifier.ControlModifier)
        moves, key = JUMPS if control else MOVES, Qt.Key(event.key())
        cursor = self._selection.cursor
        if not self._rows:
            super().keyPressEvent(event)
        elif event.matches(QKeySequence.StandardKey.SelectAll):
            self.set_selection(self._selection.all())
        elif key in moves:
            self.set_selection(self._selection.move(*moves[key], extend=extend))
        elif key == Qt.Key.Key_Space and cursor and control != extend:
            select = self._selection.click_column if control else self._selection.click_row
            self.set_selection(select(cursor[1] if control else cursor[0]))
        elif key == Qt.Key.Key_Escape and cursor:
            self.set_selection(self._selection.none())
        else:
            super().keyPressEvent(event)

    def event(self, event: QEvent) -> bool:
        """Take the heatmap's keys before the window's shortcuts."""
        # Qt asks the focused widget before it triggers a shortcut; a key accepted here arrives as a key press.
        override = event.type() == QEvent.Type.ShortcutOverride
        if override and isinstance(event, QKeyEvent) and self.claims_key(event):
            event.accept()
            return True
        return super().event(event)

    def claims_key(self, event: QKeyEvent) -> bool:
        """Return True for a key that the heatmap takes before any shortcut."""
        return event.key() == Qt.Key.Key_Escape and self._selection.cursor is not None

    def copy(self, headings: bool) -> None:
        """Copy the selected values, or all without a selection, exactly, with tabs between them."""
        cells, text = self._selection.cells or self._selection.all().cells, ""
        if self._scale is not None:
            text = copied_text(self._rows, self._columns, self._values, self._scale, cells, headings)
        QGuiApplication.clipboard().setText(text)

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Show the cursor; select the first cell when the keyboard arrives and nothing is selected."""
        super().focusInEvent(event)
        keyboard = (Qt.FocusReason.TabFocusReason, Qt.FocusReason.BacktabFocusReason)
        if self._selection.cursor is None and self._rows and event.reason() in keyboard:
            self.set_selection(self._selection.click((0, 0)))
        self.update_cells([self._selection.cursor] if self._selection.cursor else [])

    def focusOutEvent(self, event: QFocusEvent) -> None:
        self.update_cells([self._selection.cursor] if self._selection.cursor else [])
        super().focusOutEvent(event)


def is_command(event: QKeyEvent) -> bool:
    """Return True with Ctrl held, which makes a digit or a letter a shortcut of the window, or with Alt."""
    return has_alt(event) or bool(event.modifiers() & Qt.KeyboardModifier.ControlModifier)


def has_alt(event: QKeyEvent) -> bool:
    return bool(event.modifiers() & (Qt.KeyboardModifier.AltModifier | Qt.KeyboardModifier.MetaModifier))
