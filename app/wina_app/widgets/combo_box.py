"""A combo box over stored values, which change as results arrive."""

from collections.abc import Sequence

from PySide6.QtCore import QSignalBlocker, QSize
from PySide6.QtWidgets import QComboBox

from wina_app.style.theme import GRID
from wina_app.widgets.controls import ignore_unfocused_wheel
from wina_app.widgets.plain_text import plain_tip


class ComboBox(QComboBox):
    """A combo box as wide as its longest text if there is room."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.setAccessibleName(name)
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        ignore_unfocused_wheel(self)

    def sizeHint(self) -> QSize:
        return super().sizeHint() + QSize(GRID, 0)  # padding of the style sheet, which Qt leaves out

    def minimumSizeHint(self) -> QSize:
        # A long name must not push a plot out of sight.
        return super().minimumSizeHint().boundedTo(QSize(GRID * 12, GRID * 12))

    def showPopup(self) -> None:
        """Open a list as wide as its longest text, however narrow the box is."""
        view = self.view()
        width = view.sizeHintForColumn(0) + 3 * GRID
        view.setMinimumWidth(min(width, self.screen().availableGeometry().width() // 2))
        super().showPopup()

    def fill(self, items: Sequence[tuple[str, object]], current: object) -> None:
        """Show items given as (text, value) and select the current value; emit nothing if nothing changes."""
        if [(self.itemText(row), self.itemData(row)) for row in range(self.count())] != list(items):
            with QSignalBlocker(self):
                self.clear()
                for item in items:
                    self.addItem(*item)
        self.setCurrentIndex(next((row for row, (_, data) in enumerate(items) if data == current), -1))
        self.setToolTip(plain_tip(self.currentText()))
