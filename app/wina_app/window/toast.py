"""Toasts: short messages with a button at the lower edge of the window, which close by themselves."""

import logging
from collections.abc import Callable

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent, QKeyEvent
from PySide6.QtWidgets import QFrame, QWidget

from wina_app.style.theme import GRID, scaled
from wina_app.style.translation import tr
from wina_app.widgets.boxes import hbox
from wina_app.widgets.controls import push_button, text_label
from wina_app.widgets.expiry import Expiry
from wina_app.widgets.plain_text import plain_tip

_log = logging.getLogger("wina_app.window")
_MOST = 3
_WIDTH = GRID * 56
_LONGEST = 300
"""Letters shown; the tooltip and the log have the whole text."""


class Toasts(QObject):
    """The toasts over a window, the latest at the bottom; the oldest closes when there are too many."""

    def __init__(self, window: QWidget, above: Callable[[], int]) -> None:
        """Place toasts at `above()` pixels from the lower edge of the window."""
        super().__init__(window)
        self._window, self._above = window, above
        self.open: list[Toast] = []
        window.installEventFilter(self)

    def say(
        self, word: str, text: str, button: str = "", do: Callable[[], object] | None = None, *, stays: bool = False
    ) -> "Toast":
        """Show `text` after `word` in bold, with a button that calls `do`; one that `stays` waits to be closed."""
        toast = Toast(self._window, word, text, button, do)
        if not stays:
            toast.expiry.start_for(f"{word}{text}{button}")
        toast.gone = lambda: self.remove(toast)
        self.open.append(toast)
        for old in self.open[:-_MOST]:
            self.remove(old)
        self.arrange()
        toast.show()
        _log.info("%s: %s", word, text)
        QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self._window, f"{word}: {text}"))
        return toast

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Follow the window's size."""
        if event.type() == QEvent.Type.Resize:
            self.arrange()
        return super().eventFilter(watched, event)

    def remove(self, toast: "Toast") -> None:
        """Close a toast, unless it is closed already."""
        if toast in self.open:
            self.open.remove(toast)
            toast.hide()
            toast.deleteLater()
            self.arrange()

    def arrange(self) -> None:
        """Place the toasts above each other and over everything else."""
        if not self.open:  # docks report being hidden even while the window is deleted
            return
        bottom = self._window.height() - self._above() - GRID
        for toast in reversed(self.open):
            width = min(scaled(_WIDTH), self._window.width() - 2 * GRID)
            toast.resize(width, toast.heightForWidth(width))
            bottom -= toast.height()
            toast.move(self._window.width() - toast.width() - 2 * GRID, bottom)
            toast.raise_()
            bottom -= GRID


class Toast(QFrame):
    """A message that stays while the pointer or the focus is on it; Esc closes it."""

    def __init__(self, window: QWidget, word: str, text: str, button: str, do: Callable[[], object] | None) -> None:
        super().__init__(window)
        self.gone: Callable[[], object] = self.hide
        self.setProperty("role", "overlay")
        self.setAccessibleName(f"{word}: {text}")
        self.expiry = Expiry(self, lambda: self.gone())
        self._label = text_label("", wrap=True)
        self.set_text(text)
        row = hbox(self, text_label(word, "section"), (self._label, 1), margins=(GRID * 2, GRID, GRID, GRID))
        self.button = push_button(button, do or (lambda: None))
        self.button.clicked.connect(lambda: self.gone())
        if not button:
            self.button.hide()
        cross, name = "\N{MULTIPLICATION SIGN}", tr("Dismiss message")
        dismiss = push_button(cross, lambda: self.gone(), name=name, tip=tr("Dismiss message (Esc)"), role="link")
        row.addWidget(self.button)
        row.addWidget(dismiss, 0, Qt.AlignmentFlag.AlignVCenter)

    def set_text(self, text: str) -> None:
        """Show another text after the word."""
        self._label.setText(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…")
        self._label.setToolTip(plain_tip(text) if len(text) > _LONGEST else "")

    def dismiss(self) -> None:
        """Close the toast."""
        self.gone()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Close the toast by Esc."""
        if event.key() == Qt.Key.Key_Escape:
            self.gone()
        else:
            super().keyPressEvent(event)
