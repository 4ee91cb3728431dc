"""The heatmap whose cells are edited, and whose rows expand to read-only details."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from PySide6.QtCore import QEvent, QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QFocusEvent, QGuiApplication, QHelpEvent, QKeyEvent, QMouseEvent
from PySide6.QtWidgets import QToolTip, QWidget

from wina_app.heatmap.geometry import (
    TRIANGLE_WIDTH,
    Detail,
    HeatmapSizes,
    LazyDetails,
    Lines,
    RowDetails,
    cells_between,
    line_names,
    line_values,
    text_sizes,
)
from wina_app.heatmap.heatmap import MOVES, STEPS, Heatmap, has_alt, is_command
from wina_app.heatmap.painter import LOCK_INSET, LOCK_WIDTH, HeatmapLook
from wina_app.heatmap.selection import Selection
from wina_app.plots.figure import map_figure
from wina_app.style.theme import HALF
from wina_core.report.drawing import Figure
from wina_core.specs.plans import Cell

_TYPED = "0123456789.,"
_STEP = 5
"""Percentage points that + and - change; with Ctrl 1."""


def _no_details(row: int) -> RowDetails:
    raise ValueError(f"row {row} has no details")


class EditableHeatmap(Heatmap):
    """A heatmap that emits edits of the selection and never changes its own values.

    Digits then Enter emit `text_entered`, + and - emit `stepped`, Delete `cleared`, L `lock_toggled`. With `brush` on,
    a drag emits `painted` between `stroke_began` and `stroke_ended` instead of selecting; with Shift it selects. Rows
    that have details have a triangle in their headings; a click on it or E shows and hides the details. The arrows and
    clicks put a reading cursor on their cells, which are never selected.
    """

    mark_width = LOCK_WIDTH + LOCK_INSET - HALF

    expanded_changed = Signal()
    reading_changed = Signal()
    text_entered = Signal(str)
    stepped = Signal(int)
    """Percentage points to add to the selection."""
    cleared = Signal()
    lock_toggled = Signal()
    cut = Signal()
    """The selection is on the clipboard, to be cleared."""
    pasted = Signal(str)
    stroke_began = Signal()
    painted = Signal(object)
    """Frozenset of the cells that the brush touched since the last signal."""
    stroke_ended = Signal()

    def __init__(self, name: str, *, parent: QWidget | None = None) -> None:
        super().__init__(name, parent=parent)
        self.detail_text: Callable[[Detail], str] | None = None
        """Describes a cell of a detail, for its tooltip and for screen readers."""
        self.brush = False
        self._typed = ""
        self._locked: frozenset[Cell] = frozenset()
        self._stroke: Cell | None = None
        self._counts: tuple[int, ...] = ()
        self._details_of: Callable[[int], RowDetails] = _no_details
        self._widest = ""
        self._details = LazyDetails(_no_details)
        self._expanded: frozenset[int] = frozenset()
        self._reading: Detail | None = None
        self.add_action("Cut", "Ctrl+X", self._cut)
        self.add_action("Paste", "Ctrl+V", lambda: self.pasted.emit(QGuiApplication.clipboard().text()))

    def set_table(self, rows: Sequence[str], columns: Sequence[str]) -> None:
        """Name the rows and columns; new names take the details away and discard what is being typed."""
        if (tuple(rows), tuple(columns)) != (self._rows, self._columns):  # else the plan changed while typing
            self._typed, self._counts, self._expanded, self._reading = "", (), frozenset(), None
        super().set_table(rows, columns)

    def set_locked(self, locked: frozenset[Cell]) -> None:
        """Mark the cells that no edit changes."""
        changed, self._locked = locked ^ self._locked, locked
        self.update_cells(changed)
        self.describe()

    def description(self) -> str:
        if self._reading is not None and self.detail_text is not None:
            return self.detail_text(self._reading)
        return super().description() + ("; locked" if self.selection.cursor in self._locked else "")

    def look(self) -> HeatmapLook | None:
        look = super().look()
        return look and replace(
            look,
            typed=self._typed,
            locked=self._locked,
            expandable=self.expandable,
            expanded=self._expanded,
            details=self._details,
            reading=self._reading,
        )

    def set_selection(self, selection: Selection) -> None:
        """Enter what was typed, stop reading, and select."""
        if selection != self.selection:
            self._commit()  # first, for the cell where it was typed
        if selection.cursor is not None:
            self.read(None)
        super().set_selection(selection)

    def read(self, detail: Detail | None) -> None:
        """Enter what was typed, then put the reading cursor on a cell, which takes the selection away; None for
        nowhere."""
        if detail == self._reading:
            return
        self._commit()
        self._reading = detail
        if detail is not None:
            super().set_selection(self.selection.none())
            self._scroll_to(self.geometry_now().detail(detail))
        self.viewport().update()
        self.describe()
        self.reading_changed.emit()

    # ---- details -------------------------------------------------------------------------------------------------

    def set_details(self, counts: Sequence[int], details_of: Callable[[int], RowDetails], widest: str) -> None:
        """Give each row a number of details, 0 for none; `details_of` makes those of a row once they are painted, with
        headings no wider than `widest`."""
        self._counts, self._details_of, self._widest = tuple(counts), details_of, widest
        self._show(self._expanded)

    @property
    def expandable(self) -> frozenset[int]:
        return frozenset(row for row, count in enumerate(self._counts) if count)

    @property
    def expanded(self) -> frozenset[int]:
        return self._expanded

    @property
    def reading(self) -> Detail | None:
        """The cell of a detail that the reading cursor is on."""
        return self._reading

    def expand(self, rows: Iterable[int]) -> None:
        """Show the details of these rows alone."""
        before = self.expanded
        self._show(rows)
        if self.expanded == before:
            return
        new = self.expanded - before
        if new:  # the whole of the first, or as much as there is room for
            geometry = self.geometry_now()
            self._scroll_to(geometry.detail(Detail(min(new), self._counts[min(new)] - 1, 0)))
            self._scroll_to(self.geometry_now().cell(min(new), 0))
        self.expanded_changed.emit()

    def toggle(self, rows: Iterable[int]) -> None:
        """Hide the details of these rows if all are shown, else show them."""
        chosen = self.expandable & frozenset(rows)
        self.expand(self.expanded - chosen if chosen <= self.expanded else self.expanded | chosen)

    def toggle_selected(self) -> None:
        self.toggle(self.target_rows())

    def target_rows(self) -> list[int]:
        """Return the rows of the selection or of the reading cursor, or else all."""
        if self._reading is not None:
            return [self._reading.row]
        return sorted({row for row, _ in self.selection.cells}) or list(range(len(self._rows)))

    def _show(self, rows: Iterable[int]) -> None:
        self._expanded, self._details = self.expandable & frozenset(rows), LazyDetails(self._details_of)
        every = range(len(self._rows))
        lines = Lines(tuple(self._counts[row] if row in self._expanded else 0 for row in every))
        sizes = self._text_sizes()
        if (lines, sizes) != (self._lines, self._sizes):
            self._lines, self._sizes = lines, sizes
            self._fit()
            self.viewport().update()
        elif self._expanded:
            self.viewport().update()  # the same lines may have other numbers
        reading = self._reading
        if reading is not None and reading.line >= lines.details[reading.row]:
            self.set_selection(self.selection.click((reading.row, reading.column)))
        self.describe()

    def _text_sizes(self) -> HeatmapSizes:
        headings = (*self._rows, self._widest) if self._expanded else self._rows
        plain = text_sizes(headings, self._columns, self.mark_width)
        return replace(plain, header_width=plain.header_width + (TRIANGLE_WIDTH if self.expandable else 0.0))

    def figure(self) -> Figure:
        """Return the map with the shown details as plain data."""
        details = {row: self._details[row] for row in self._expanded}
        names, values = line_names(self._rows, details), line_values(self._values, details)
        return map_figure(self.accessibleName(), names, self._columns, values, self._scale)

    def viewportEvent(self, event: QEvent) -> bool:
        """Show the tooltip of a cell of a detail, or of its heading."""
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            text, area = self._tip(QPointF(event.pos()))
            if text:
                QToolTip.showText(event.globalPos(), text, self.viewport(), area.toAlignedRect())
                return True
        return super().viewportEvent(event)

    def _tip(self, point: QPointF) -> tuple[str, QRectF]:
        """Return the tooltip of the detail at a point, empty for none, and the area in which it holds."""
        geometry = self.geometry_now()
        nearest = geometry.nearest_detail(point)
        if nearest.line >= 0 and geometry.in_row_header(point):
            return self._details[nearest.row].tip, geometry.row_header(nearest.row, nearest.line)
        cell = geometry.detail_at(point)
        is_known = cell is not None and cell.line >= 0 and cell.column in self._details[cell.row].columns
        return (self.detail_text(nearest) if is_known and self.detail_text else ""), geometry.detail(nearest)

    # ---- pointer -------------------------------------------------------------------------------------------------

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Show or hide details by their triangle, read a cell of theirs, begin a stroke of the brush, or select."""
        self._commit()
        geometry, point = self.geometry_now(), event.position()
        row, _ = geometry.nearest(point)
        in_heading = geometry.in_row_header(point) and geometry.row_header(row).contains(point)
        if in_heading and row in self.expandable and point.x() < TRIANGLE_WIDTH:
            self.toggle([row])
            return
        cell, shift = geometry.cell_at(point), event.modifiers() & Qt.KeyboardModifier.ShiftModifier
        if self.brush and not shift and cell is not None and event.button() == Qt.MouseButton.LeftButton:
            self._stroke = cell
            self.stroke_began.emit()
            self.painted.emit(frozenset({cell}))
            return
        super().mousePressEvent(event)
        detail = geometry.detail_at(point)
        if detail is not None and detail.line >= 0:
            self.read(detail if detail.column in self._details[detail.row].columns else None)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self._stroke is None:
            super().mouseMoveEvent(event)
            return
        cell = self.geometry_now().cell_at(event.position())
        if cell is not None and cell != self._stroke:
            self.painted.emit(frozenset(cells_between(self._stroke, cell)))
            self._stroke = cell

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        super().mouseReleaseEvent(event)
        if self._stroke is not None:
            self._stroke = None
            self.stroke_ended.emit()

    # ---- keyboard and clipboard ----------------------------------------------------------------------------------

    def claims_key(self, event: QKeyEvent) -> bool:
        """Return True for the keys of edits and details: digits, signs, Delete, L, E, and Esc while reading."""
        key, text = event.key(), event.text()
        mine = len(text) == 1 and text.lower() in _TYPED + "+-l" and not is_command(event)
        # Ctrl with a sign makes a small step; with a digit or a letter it is a shortcut of the window.
        stepped = key in (Qt.Key.Key_Plus, Qt.Key.Key_Minus) and not has_alt(event)
        stops = key == Qt.Key.Key_Escape and self._reading is not None
        erases = key in (Qt.Key.Key_Delete, Qt.Key.Key_Backspace)
        return mine or stepped or stops or erases or self._is_toggle(event) or super().claims_key(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Edit the selection; toggle on E, read on arrows that reach details, stop reading on Esc; select on others."""
        key, plain = Qt.Key(event.key()), not event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
        if self.selection.cursor and self._edit(event):
            return
        if self._is_toggle(event):
            self.toggle_selected()
        elif key == Qt.Key.Key_Escape and self._reading is not None:
            self.read(None)
        elif not (plain and self._expanded and key in STEPS and self._step(*MOVES[key])):
            if self._reading is not None and key in MOVES:
                self.set_selection(self.selection.click((self._reading.row, self._reading.column)))
            super().keyPressEvent(event)

    def _is_toggle(self, event: QKeyEvent) -> bool:
        return event.text().lower() == "e" and not is_command(event) and bool(self.expandable)

    def _step(self, down: int, right: int) -> bool:
        """Move the cursor by one line or column if it is, or comes, on a detail; return False for other moves."""
        cursor = self.selection.cursor
        current = self._reading or (Detail(cursor[0], -1, cursor[1]) if cursor else None)
        if current is None or (right and current.line < 0):
            return False
        row, line = self._lines.row_at(self._lines.line_of(current.row, current.line) + down)
        if not 0 <= row < len(self._rows) or (line < 0 and current.line < 0):
            return current.line >= 0
        if line < 0:
            self.set_selection(self.selection.click((row, current.column)))
            return True
        columns = sorted(self._details[row].columns)
        if current.column not in columns:
            return False
        at = columns.index(current.column) + right
        self.read(Detail(row, line, columns[min(max(at, 0), len(columns) - 1)]))
        return True

    def _edit(self, event: QKeyEvent) -> bool:
        """Handle an editing key; return False for other keys."""
        key, text = event.key(), event.text()
        step = 1 if event.modifiers() & Qt.KeyboardModifier.ControlModifier else _STEP
        if key in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self._typed:
            self._commit()
        elif key == Qt.Key.Key_Escape and self._typed:
            self._type("")
        elif key == Qt.Key.Key_Backspace and self._typed:
            self._type(self._typed[:-1])
        elif key in (Qt.Key.Key_Delete, Qt.Key.Key_Backspace):
            self._type("")
            self.cleared.emit()
        elif key in (Qt.Key.Key_Plus, Qt.Key.Key_Minus):
            self._commit()
            self.stepped.emit(step if key == Qt.Key.Key_Plus else -step)
        elif text.lower() == "l" and not is_command(event):
            self._commit()
            self.lock_toggled.emit()
        elif len(text) == 1 and text in _TYPED and not is_command(event):
            self._type(self._typed + text)
        else:
            return False
        return True

    def _cut(self) -> None:
        if self.selection.cells:
            self.copy(headings=False)
            self.cut.emit()

    def _type(self, text: str) -> None:
        self._typed = text
        if self.selection.cursor is not None:
            self.update_cells([self.selection.cursor])

    def _commit(self) -> None:
        if self._typed:
            text = self._typed
            self._type("")
            self.text_entered.emit(text)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        self._commit()
        super().focusOutEvent(event)
