"""Toasts: short messages with a button at the lower edge of the window, which close by themselves."""

from collections.abc import Callable

from PySide6.QtCore import QEvent, QObject, Qt, QTimer
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent, QEnterEvent
from PySide6.QtWidgets import QFrame, QWidget

from wina_app.style.theme import GRID
from wina_app.style.translation import tr
from wina_app.widgets.boxes import hbox
from wina_app.widgets.controls import ElidedLabel, push_button, text_label

_STAY_MS = 8_000
_MOST = 3
_WIDTH = GRID * 56


class Toasts(QObject):
    """The toasts over a window, the latest at the bottom; the oldest closes when there are too many."""

    def __init__(self, window: QWidget, above: Callable[[], int]) -> None:
        """Place toasts at `above()` pixels from the lower edge of the window."""
        super().__init__(window)
        self._window, self._above = window, above
        self.shown: list[Toast] = []
        window.installEventFilter(self)

    def say(
        self, word: str, text: str, button: str = "", do: Callable[[], object] | None = None, *, stays: bool = False
    ) -> None:
        """Show `text` after `word` in bold, with a button that calls `do`; one that `stays` waits to be closed."""
        toast = Toast(self._window, word, text, button, do)
        if stays:
            toast.stay()
        toast.gone = lambda: self._remove(toast)
        self.shown.append(toast)
        for old in self.shown[:-_MOST]:
            self._remove(old)
        self.arrange()
        toast.show()
        QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self._window, f"{word}: {text}"))

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Follow the window's size."""
        if event.type() == QEvent.Type.Resize:
            self.arrange()
        return super().eventFilter(watched, event)

    def _remove(self, toast: "Toast") -> None:
        if toast in self.shown:
            self.shown.remove(toast)
            toast.hide()
            toast.deleteLater()
            self.arrange()

    def arrange(self) -> None:
        """Place the toasts above each other and over everything else."""
        if not self.shown:  # docks report being hidden even while the window is deleted
            return
        bottom = self._window.height() - self._above() - GRID
        for toast in reversed(self.shown):
            toast.resize(min(_WIDTH, self._window.width() - 2 * GRID), toast.sizeHint().height())
            bottom -= toast.height()
            toast.move(self._window.width() - toast.width() - 2 * GRID, bottom)
            toast.raise_()
            bottom -= GRID


class Toast(QFrame):
    """A message that stays while the pointer is over it."""

    def __init__(self, window: QWidget, word: str, text: str, button: str, do: Callable[[], object] | None) -> None:
        super().__init__(window)
        self.gone: Callable[[], object] = self.hide
        self.setProperty("role", "overlay")
        self.setAccessibleName(f"{word}: {text}")
        self._timer = QTimer(self, singleShot=True, interval=_STAY_MS)
        self._timer.timeout.connect(lambda: self.gone())
        self._timer.start()
        label = ElidedLabel()
        label.setText(text)
        row = hbox(self, text_label(word, "section"), (label, 1), margins=(GRID * 2, GRID, GRID, GRID))
        self.button = push_button(button, do or (lambda: None))
        self.button.clicked.connect(lambda: self.gone())
        if not button:
            self.button.hide()
        cross, name = "\N{MULTIPLICATION SIGN}", tr("Dismiss message")
        dismiss = push_button(cross, lambda: self.gone(), name=name, role="link")
        row.addWidget(self.button)
        row.addWidget(dismiss, 0, Qt.AlignmentFlag.AlignVCenter)

    def stay(self) -> None:
        """Stay until it is dismissed or its button is clicked."""
        self._timer.blockSignals(True)

    def enterEvent(self, event: QEnterEvent) -> None:
        """Stay while the pointer is over the toast."""
        self._timer.stop()
        super().enterEvent(event)

    def leaveEvent(self, event: QEvent) -> None:
        """Close after a while."""
        self._timer.start()
        super().leaveEvent(event)
