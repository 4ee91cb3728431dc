"""What is said in passing at the lower edge of the window, with one thing to do about it; it goes by itself."""

from collections.abc import Callable

from PySide6.QtCore import QEvent, QObject, Qt, QTimer
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent, QEnterEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QWidget

from wina_app.style.theme import GRID
from wina_app.style.translation import tr
from wina_app.widgets.controls import ElidedLabel, text_label

_STAY_MS = 8_000
_MOST = 3
_WIDTH = GRID * 56


class Toasts(QObject):
    """The toasts over a window, the latest at the bottom; as many as can be read, the oldest give way."""

    def __init__(self, window: QWidget, above: Callable[[], int]) -> None:
        """`above` tells at how many pixels from the window's lower edge they may begin."""
        super().__init__(window)
        self._window, self._above = window, above
        self.shown: list[Toast] = []
        window.installEventFilter(self)

    def say(self, word: str, text: str, button: str = "", do: Callable[[], object] | None = None) -> None:
        """Show `text` under `word`, which is in bold, and offer to do something about it."""
        toast = Toast(self._window, word, text, button, do)
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
        """Lie over everything, above each other."""
        if not self.shown:  # docks tell of being hidden even while the window goes
            return
        bottom = self._window.height() - self._above() - GRID
        for toast in reversed(self.shown):
            toast.resize(min(_WIDTH, self._window.width() - 2 * GRID), toast.sizeHint().height())
            bottom -= toast.height()
            toast.move(self._window.width() - toast.width() - 2 * GRID, bottom)
            toast.raise_()
            bottom -= GRID


class Toast(QFrame):
    """One of them; the pointer over it makes it stay."""

    def __init__(self, window: QWidget, word: str, text: str, button: str, do: Callable[[], object] | None) -> None:
        super().__init__(window)
        self.gone: Callable[[], object] = self.hide
        self.setProperty("role", "overlay")
        self.setAccessibleName(f"{word}: {text}")
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(lambda: self.gone())
        self._timer.start(_STAY_MS)
        title = text_label(word, "section")
        label = ElidedLabel()
        label.setText(text)
        row = QHBoxLayout(self)
        row.setContentsMargins(GRID * 2, GRID, GRID, GRID)
        row.setSpacing(GRID)
        row.addWidget(title)
        row.addWidget(label, 1)
        self.button = QPushButton(button)
        self.button.setAccessibleName(button)
        if not button:
            self.button.hide()
        self.button.clicked.connect(lambda: (do and do(), self.gone()))
        dismiss = QPushButton("\N{MULTIPLICATION SIGN}")
        dismiss.setProperty("role", "link")
        dismiss.setAccessibleName(tr("Dismiss this message"))
        dismiss.clicked.connect(lambda: self.gone())
        row.addWidget(self.button)
        row.addWidget(dismiss, 0, Qt.AlignmentFlag.AlignVCenter)

    def enterEvent(self, event: QEnterEvent) -> None:
        """Stay while it is being read."""
        self._timer.stop()
        super().enterEvent(event)

    def leaveEvent(self, event: QEvent) -> None:
        """Go after a while."""
        self._timer.start(_STAY_MS)
        super().leaveEvent(event)
