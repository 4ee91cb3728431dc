"""Chooser of a table's columns and their order."""

from PySide6.QtCore import QSignalBlocker, Qt
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import QAbstractItemView, QFrame, QListWidget, QListWidgetItem, QWidget

from wina_app.pages.results.columns import ColumnChoice
from wina_app.style.theme import GRID
from wina_app.style.translation import tr
from wina_app.widgets.boxes import vbox
from wina_app.widgets.controls import push_button, text_label
from wina_app.widgets.plain_text import plain_tip


class ColumnChooser(QFrame):
    """Popup below a button; every change is made at once."""

    def __init__(self, columns: ColumnChoice, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        self._columns = columns
        self.setFrameShape(QFrame.Shape.StyledPanel)
        self.setAccessibleName(tr("Columns"))
        self.list = QListWidget()
        self.list.setAccessibleName(tr("Columns of the table"))
        self.list.setDragDropMode(QAbstractItemView.DragDropMode.InternalMove)
        self.list.model().rowsMoved.connect(self._on_moved)
        self.list.itemChanged.connect(self._on_ticked)
        self.usual = push_button(tr("Usual columns"), columns.reset, name=tr("Back to the usual columns"))
        for keys, step in (("Alt+Up", -1), ("Alt+Down", 1)):
            shortcut = QShortcut(QKeySequence(keys), self.list)
            shortcut.setContext(Qt.ShortcutContext.WidgetShortcut)
            shortcut.activated.connect(lambda step=step: self._move(step))
        hint = text_label(tr("Drag, or Alt with Up and Down, to reorder"), "muted")
        vbox(self, hint, (self.list, 1), self.usual, margins=(GRID, GRID, GRID, GRID))
        columns.changed.connect(self._fill)
        self._fill()

    def pop_up(self, button: QWidget) -> None:
        """Show below the button, with the keyboard on the list."""
        self._fill()
        rows = sum(self.list.sizeHintForRow(row) for row in range(self.list.count()))
        below = button.mapToGlobal(button.rect().bottomLeft())
        room = button.screen().availableGeometry().bottom() - below.y() - 2 * GRID
        self.resize(32 * GRID, min(rows + 14 * GRID, max(room, 30 * GRID)))
        self.move(below)
        self.show()
        self.list.setFocus(Qt.FocusReason.PopupFocusReason)

    def _fill(self) -> None:
        offered = self._columns.offered
        row = max(self.list.currentRow(), 0)
        with QSignalBlocker(self.list):
            if [self.list.item(at).data(Qt.ItemDataRole.UserRole) for at in range(self.list.count())] != [
                column.key for column, _ in offered
            ]:
                self.list.clear()
                for column, _ in offered:
                    item = QListWidgetItem(column.title)
                    item.setData(Qt.ItemDataRole.UserRole, column.key)
                    item.setToolTip(plain_tip(column.explanation))
                    self.list.addItem(item)
                self.list.setCurrentRow(min(row, self.list.count() - 1))
            for at, (_, shown) in enumerate(offered):
                self.list.item(at).setCheckState(Qt.CheckState.Checked if shown else Qt.CheckState.Unchecked)

    def _on_ticked(self, item: QListWidgetItem) -> None:
        self._columns.show(item.data(Qt.ItemDataRole.UserRole), item.checkState() == Qt.CheckState.Checked)
        self._fill()  # the last column cannot be hidden

    def _on_moved(self) -> None:
        items = (self.list.item(row) for row in range(self.list.count()))
        self._columns.move([item.data(Qt.ItemDataRole.UserRole) for item in items])

    def _move(self, step: int) -> None:
        row = self.list.currentRow()
        keys = [column.key for column, _ in self._columns.offered]
        if 0 <= row + step < len(keys):
            keys.insert(row + step, keys.pop(row))
            self._columns.move(keys)
            self.list.setCurrentRow(row + step)
