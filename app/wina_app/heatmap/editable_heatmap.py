"""The editable heatmap: typed targets, steps, the brush, locks, and the clipboard."""

from collections.abc import Sequence
from dataclasses import replace

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFocusEvent, QGuiApplication, QKeyEvent, QMouseEvent
from PySide6.QtWidgets import QWidget

from wina_app.heatmap.expandable_heatmap import ExpandableHeatmap
from wina_app.heatmap.geometry import cells_between
from wina_app.heatmap.keys import has_alt, is_command
from wina_app.heatmap.painter import LOCK_INSET, LOCK_WIDTH, HeatmapLook
from wina_app.heatmap.selection import Selection
from wina_app.style.theme import HALF
from wina_app.style.translation import tr
from wina_core.specs.plans import Cell

_TYPED = "0123456789.,"
_STEP = 5
"""Percentage points that + and - change; with Ctrl 1."""


class EditableHeatmap(ExpandableHeatmap):
    """A heatmap that emits edits of the selection and never changes its own values.

    Digits then Enter emit `text_entered`, + and - emit `stepped`, Delete `cleared`, L `lock_toggled`. With `brush` on,
    a drag emits `painted` between `stroke_began` and `stroke_ended` instead of selecting; with Shift it selects.
    """

    mark_width = LOCK_WIDTH + LOCK_INSET - HALF

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
        self.brush = False
        self._typed = ""
        self._locked: frozenset[Cell] = frozenset()
        self._stroke: Cell | None = None
        self.add_action(tr("Cut"), "Ctrl+X", self._cut)
        self.add_action(tr("Paste"), "Ctrl+V", lambda: self.pasted.emit(QGuiApplication.clipboard().text()))

    def set_table(self, rows: Sequence[str], columns: Sequence[str]) -> None:
        """Name the rows and columns; new names discard what is being typed."""
        if (tuple(rows), tuple(columns)) != (self._rows, self._columns):
            self._typed = ""
        super().set_table(rows, columns)

    def set_locked(self, locked: frozenset[Cell]) -> None:
        """Mark the cells that no edit changes."""
        changed, self._locked = locked ^ self._locked, locked
        self.update_cells(changed)
        self.describe()

    def description(self) -> str:
        """Return the description with the lock of the cursor's cell."""
        return super().description() + (tr("; locked") if self.selection.cursor in self._locked else "")

    def look(self) -> HeatmapLook | None:
        """Return the look with what is being typed, and the locks."""
        look = super().look()
        return look and replace(look, typed=self._typed, locked=self._locked)

    def set_selection(self, selection: Selection) -> None:
        """Enter what was typed, then select."""
        if selection != self.selection:
            self._commit()
        super().set_selection(selection)

    # ---- pointer -------------------------------------------------------------------------------------------------

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Select, or begin a stroke of the brush."""
        self._commit()
        cell = self.geometry_now().cell_at(event.position())
        shift = event.modifiers() & Qt.KeyboardModifier.ShiftModifier
        if not self.brush or shift or cell is None or event.button() != Qt.MouseButton.LeftButton:
            super().mousePressEvent(event)
            return
        self._stroke = cell
        self.stroke_began.emit()
        self.painted.emit(frozenset({cell}))

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Stretch the selection, or continue painting."""
        if self._stroke is None:
            super().mouseMoveEvent(event)
            return
        cell = self.geometry_now().cell_at(event.position())
        if cell is not None and cell != self._stroke:
            self.painted.emit(frozenset(cells_between(self._stroke, cell)))
            self._stroke = cell

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """End a drag or a stroke."""
        super().mouseReleaseEvent(event)
        if self._stroke is not None:
            self._stroke = None
            self.stroke_ended.emit()

    # ---- keyboard and clipboard ----------------------------------------------------------------------------------

    def claims_key(self, event: QKeyEvent) -> bool:
        """Return True for the editing keys: digits, signs, Delete, L."""
        text = event.text()
        mine = len(text) == 1 and text.lower() in _TYPED + "+-l" and not is_command(event)
        stepped = event.key() in (Qt.Key.Key_Plus, Qt.Key.Key_Minus) and not has_alt(event)
        return mine or stepped or event.key() in (Qt.Key.Key_Delete, Qt.Key.Key_Backspace) or super().claims_key(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Edit on digits, Enter, Esc, Backspace, Delete, +, - and L; select on others."""
        if not (self.selection.cursor and self._edit(event)):
            super().keyPressEvent(event)

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
        """Enter what was typed."""
        self._commit()
        super().focusOutEvent(event)
