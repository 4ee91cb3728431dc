"""Button that starts long work, which a double-click presses once."""

from collections.abc import Callable

from PySide6.QtCore import QElapsedTimer
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QApplication, QPushButton


class StartButton(QPushButton):
    """Push button whose second press by mouse within the system's double-click interval does nothing.

    Without it, the second click of a double-click would press whatever the button has become: Cancel.
    """

    def __init__(self, text: str = "") -> None:
        super().__init__(text)
        self._pressed = QElapsedTimer()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Take the first press of a double-click or triple click alone."""
        again = self._pressed.isValid() and self._pressed.elapsed() < QApplication.doubleClickInterval()
        self._pressed.start()
        if again:
            event.accept()
        else:
            super().mousePressEvent(event)


def start_button(text: str, do: Callable[[], object], *, name: str = "") -> StartButton:
    """Return a button that calls `do`; its accessible name is its text unless `name` is given."""
    button = StartButton(text)
    button.setAccessibleName(name or text)
    button.clicked.connect(lambda: do())
    return button
