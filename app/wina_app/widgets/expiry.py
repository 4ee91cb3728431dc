"""Expiry of overlays, which stay while someone reads or uses them."""

from collections.abc import Callable

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QWidget

_LEAST_MS = 6_000
_LETTER_MS = 50
"""Time to read a letter, slowly."""


class Expiry(QTimer):
    """A timer that calls `end` once a text can have been read, but not while the pointer or the focus is on it."""

    def __init__(self, overlay: QWidget, end: Callable[[], object]) -> None:
        super().__init__(overlay, singleShot=True)
        self._overlay, self._end = overlay, end
        self.timeout.connect(self._on_timeout)

    def start_for(self, text: str) -> None:
        """Start the time to read a text."""
        self.start(_LEAST_MS + _LETTER_MS * len(text))

    def _on_timeout(self) -> None:
        focused = self._overlay.window().focusWidget()
        if self._overlay.underMouse() or (focused is not None and self._overlay.isAncestorOf(focused)):
            self.start()
        else:
            self._end()
