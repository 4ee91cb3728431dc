"""Chooser of a table's columns: shown, pinned, in which order."""

from PySide6.QtCore import QSignalBlocker, Qt
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import QAbstractItemView, QFrame, QLineEdit, QListWidget, QListWidgetItem, QWidget

from wina_app.pages.results.columns import ColumnChoice
from wina_app.style.theme import GRID, font, scaled
from wina_app.style.translation import tr
from wina_app.widgets.boxes import hbox, vbox
from wina_app.widgets.controls import push_button, text_label
from wina_app.widgets.plain_text import plain_tip

_KEY = Qt.ItemDataRole.UserRole


class ColumnChooser(QFrame):
    """Popup below a button; every change is made at once."""

    def __init__(self, columns: ColumnChoice, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        self._columns = columns
        self.setFrameShape(QFrame.Shape.StyledPanel)
        self.setAccessibleName(tr("Columns"))
        self.search = QLineEdit()
        self.search.setPlaceholderText(tr("Search columns"))
        self.search.setAccessibleName(tr("Search columns"))
        self.search.setClearButtonEnabled(True)
        self.search.textChanged.connect(self._narrow)
        self.list = QListWidget()
        self.list.setAccessibleName(tr("Columns of the table"))
        self.list.setDragDropMode(QAbstractItemView.DragDropMode.InternalMove)
        self.list.model().rowsMoved.connect(self._on_moved)
        self.list.itemChanged.connect(self._on_ticked)
        self.list.currentRowChanged.connect(self._name_pin)
        self.every = push_button(tr("All"), lambda: self._show_found(True), name=tr("Show all listed columns"))
        self.none = push_button(tr("None"), lambda: self._show_found(False), name=tr("Hide all listed columns"))
        self.pin = push_button(tr("Unpin"), self._pin, name=tr("Pin or unpin the column at the left"))
        self.usual = push_button(tr("Default"), columns.reset, name=tr("Back to the default columns"))
        for keys, step in (("Alt+Up", -1), ("Alt+Down", 1)):
            shortcut = QShortcut(QKeySequence(keys), self.list)
            shortcut.setContext(Qt.ShortcutContext.WidgetShortcut)
            shortcut.activated.connect(lambda step=step: self._move(step))
        hint = text_label(tr("Drag, or Alt with Up and Down, to reorder; pinned columns stay at the left"), "muted")
        hint.setWordWrap(True)
        buttons = hbox(None, self.every, self.none, self.pin, self.usual)
        vbox(self, self.search, hint, (self.list, 1), buttons, margins=(GRID, GRID, GRID, GRID))
        columns.changed.connect(lambda: self._fill() if self.isVisible() else None)
        self._fill()

    def pop_up(self, button: QWidget) -> None:
        """Show below the button, with the keyboard on the list."""
        self.search.clear()
        self._fill()
        rows = sum(self.list.sizeHintForRow(row) for row in range(self.list.count()))
        below = button.mapToGlobal(button.rect().bottomLeft())
        room = button.screen().availableGeometry().bottom() - below.y() - 2 * GRID
        self.resize(max(scaled(40 * GRID), self.sizeHint().width()), min(rows + 22 * GRID, max(room, 30 * GRID)))
        self.move(below)
        self.show()
        self.list.setFocus(Qt.FocusReason.PopupFocusReason)

    def _items(self) -> list[QListWidgetItem]:
        return [self.list.item(at) for at in range(self.list.count())]

    def _fill(self) -> None:
        offered = self._columns.offered
        row = max(self.list.currentRow(), 0)
        keys = [column.key for column, _ in offered]
        with QSignalBlocker(self.list):
            if [item.data(_KEY) for item in self._items()] != keys:
                while self.list.takeItem(0) is not None:  # `clear` leaves the items that Python still knows
                    pass
                for column, _ in offered:
                    item = QListWidgetItem(column.title)
                    item.setData(_KEY, column.key)
                    item.setToolTip(plain_tip(column.explanation))
                    self.list.addItem(item)
                self.list.setCurrentRow(min(row, self.list.count() - 1))
            for item, (column, shown) in zip(self._items(), offered, strict=True):
                pinned = column.key in self._columns.pinned
                item.setCheckState(Qt.CheckState.Checked if shown else Qt.CheckState.Unchecked)
                item.setText(tr("{column} (pinned)", column=column.title) if pinned else column.title)
                item.setFont(font(bold=pinned))
        self._narrow()
        self._name_pin()

    def _narrow(self) -> None:
        """List the columns that have all words of the search."""
        words = self.search.text().casefold().split()
        for item in self._items():
            item.setHidden(not all(word in item.text().casefold() for word in words))

    def _show_found(self, shown: bool) -> None:
        self._columns.show_all([item.data(_KEY) for item in self._items() if not item.isHidden()], shown)

    def _on_ticked(self, item: QListWidgetItem) -> None:
        self._columns.show(item.data(_KEY), item.checkState() == Qt.CheckState.Checked)
        self._fill()  # the last column cannot be hidden

    def _on_moved(self) -> None:
        self._columns.move([item.data(_KEY) for item in self._items()])

    def _move(self, step: int) -> None:
        row = self.list.currentRow()
        keys = [column.key for column, _ in self._columns.offered]
        if 0 <= row + step < len(keys):
            keys.insert(row + step, keys.pop(row))
            self._columns.move(keys)
            self.list.setCurrentRow(row + step)

    def _current(self) -> str:
        item = self.list.currentItem()
        return str(item.data(_KEY)) if item is not None else ""

    def _name_pin(self) -> None:
        self.pin.setText(tr("Unpin") if self._current() in self._columns.pinned else tr("Pin"))

    def _pin(self) -> None:
        if key := self._current():
            self._columns.pin(key, key not in self._columns.pinned)
            keys = [item.data(_KEY) for item in self._items()]
            self.list.setCurrentRow(keys.index(key))
