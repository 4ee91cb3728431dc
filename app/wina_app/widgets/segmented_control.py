"""A row of buttons of which exactly one is checked."""

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QButtonGroup, QToolButton, QWidget

from wina_app.style.theme import HALF
from wina_app.widgets.boxes import hbox
from wina_app.widgets.plain_text import plain_tip


class SegmentedControl(QWidget):
    """A choice between a few values, given as (key, text, tooltip); the first is checked at the start."""

    chosen = Signal(str)
    """Key of the button that the user pressed."""

    def __init__(self, name: str, choices: Sequence[tuple[str, str, str]]) -> None:
        super().__init__()
        self._group = QButtonGroup(self)
        self.buttons: dict[str, QToolButton] = {}
        row = hbox(self, spacing=HALF)
        for key, text, tip in choices:
            button = QToolButton()
            button.setText(text)
            button.setToolTip(plain_tip(tip))
            button.setAccessibleName(f"{name}: {text}")
            button.setCheckable(True)
            button.clicked.connect(lambda _=False, key=key: self.chosen.emit(key))
            self._group.addButton(button)
            self.buttons[key] = button
            row.addWidget(button)
        self.choose(choices[0][0])

    @property
    def value(self) -> str:
        return next(key for key, button in self.buttons.items() if button.isChecked())

    def choose(self, key: str) -> None:
        """Check a button without a signal."""
        self.buttons[key].setChecked(True)
