"""A combo box over what is stored, which changes as results land."""

from collections.abc import Sequence

from PySide6.QtCore import QSignalBlocker, QSize
from PySide6.QtWidgets import QComboBox

from wina_app.style.theme import GRID
from wina_app.widgets.plain_text import plain_tip


class ComboBox(QComboBox):
    """As wide as its longest text, with room to spare, where there is room."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.setAccessibleName(name)
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)

    def sizeHint(self) -> QSize:
        """Qt's own leaves out what the style sheet keeps free beside the text."""
        return super().sizeHint() + QSize(GRID, 0)

    def minimumSizeHint(self) -> QSize:
        """A long name gives way, rather than to push the plot out of sight."""
        return super().minimumSizeHint().boundedTo(QSize(GRID * 12, GRID * 12))

    def fill(self, items: Sequence[tuple[str, object]], current: object) -> None:
        """Offer (text, value) of each and mark the current value, without a signal where nothing is new."""
        if [(self.itemText(row), self.itemData(row)) for row in range(self.count())] != list(items):
            with QSignalBlocker(self):
                self.clear()
                for text, data in items:
                    self.addItem(text, data)
        self.setCurrentIndex(next((row for row, (_, data) in enumerate(items) if data == current), -1))
        self.setToolTip(plain_tip(self.currentText()))
