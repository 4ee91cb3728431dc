"""The list in which series of a plot are switched on and off."""

from collections.abc import Collection, Sequence

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtGui import QColor, QIcon, QPixmap
from PySide6.QtWidgets import QFrame, QListWidget, QListWidgetItem, QWidget

from wina_app.style.theme import GRID, HALF, scaled
from wina_app.style.translation import tr
from wina_app.widgets.boxes import STRETCH, hbox, vbox
from wina_app.widgets.controls import push_button

_MOST = 16
"""Rows shown without scrolling."""


class SeriesList(QFrame):
    """A popup with a check mark for each series, which stays open until a click beside it or Esc."""

    changed = Signal(object)
    """Frozenset of the names that are off."""

    def __init__(self, series: Sequence[tuple[str, QColor]], hidden: Collection[str], parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setProperty("role", "overlay")
        self.list = QListWidget()
        self.list.setAccessibleName(tr("Series of the plot"))
        self.list.setFrameShape(QFrame.Shape.NoFrame)
        for name, colour in series:
            item = QListWidgetItem(_swatch(colour), name)
            item.setFlags(Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsUserCheckable | Qt.ItemFlag.ItemIsSelectable)
            item.setCheckState(Qt.CheckState.Unchecked if name in hidden else Qt.CheckState.Checked)
            self.list.addItem(item)
        self.list.setCurrentRow(0)
        self.list.itemChanged.connect(self._emit)
        self.all = push_button(tr("Show all"), lambda: self._check(everything=True))
        self.only = push_button(tr("Only this"), lambda: self._check(everything=False), tip=tr("Switch all others off"))
        vbox(self, self.list, hbox(None, self.all, self.only, STRETCH), margins=(HALF, HALF, HALF, HALF))
        rows = min(len(series), _MOST)
        height = rows * max(self.list.sizeHintForRow(0), 1) + 2 * HALF
        width = self.list.sizeHintForColumn(0) + self.list.verticalScrollBar().sizeHint().width() + 2 * GRID
        self.list.setFixedHeight(height)
        self.list.setMinimumWidth(min(width, scaled(60 * GRID)))

    def open_below(self, button: QWidget) -> None:
        """Open with the right edge below a button's, within the screen."""
        self.adjustSize()
        corner = button.mapToGlobal(QPoint(button.width() - self.width(), button.height() + HALF))
        room = button.screen().availableGeometry()
        x = min(max(corner.x(), room.left()), max(room.right() - self.width(), room.left()))
        y = min(max(corner.y(), room.top()), max(room.bottom() - self.height(), room.top()))
        self.move(x, y)
        self.show()
        self.list.setFocus(Qt.FocusReason.PopupFocusReason)

    def _check(self, *, everything: bool) -> None:
        blocked = self.list.blockSignals(True)
        for row in range(self.list.count()):
            on = everything or row == self.list.currentRow()
            self.list.item(row).setCheckState(Qt.CheckState.Checked if on else Qt.CheckState.Unchecked)
        self.list.blockSignals(blocked)
        self._emit()

    def _emit(self) -> None:
        items = (self.list.item(row) for row in range(self.list.count()))
        self.changed.emit(frozenset(item.text() for item in items if item.checkState() == Qt.CheckState.Unchecked))


def _swatch(colour: QColor) -> QIcon:
    swatch = QPixmap(GRID + HALF, GRID + HALF)
    swatch.fill(colour)
    icon = QIcon(swatch)
    icon.addPixmap(swatch, QIcon.Mode.Selected)
    return icon
