"""Keyboard, with and without a display. Nothing here waits: what a key or a click sets off may open a
dialog that has an event loop of its own."""

import subprocess
from collections.abc import Callable
from typing import Protocol

from PySide6.QtCore import QTimer
from PySide6.QtGui import QGuiApplication, QKeySequence
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

_BETWEEN_MS = 3
"""From one key or click to the next."""
_X_NAMES = {"Space": "space", "Enter": "KP_Enter", "PgUp": "Prior", "PgDown": "Next", "Esc": "Escape"}


class Devices(Protocol):
    """What a person's hands are on."""

    def keys(self, sequence: str) -> None:
        """Press keys together, named as in "Ctrl+K"."""

    def type(self, text: str) -> None:
        """Type ASCII letters and signs."""

    def busy(self) -> bool:
        """Whether something is still on its way."""


class SimulatedDevices:
    """Hands events to Qt where its platform would: windows, focus and popups find their receivers themselves."""

    def __init__(self) -> None:
        self._queue: list[Callable[[], object]] = []

    def keys(self, sequence: str) -> None:
        (key,) = (combination for combination in QKeySequence(sequence))
        self._later(lambda: QTest.keyClick(QGuiApplication.focusWindow(), key.key(), key.keyboardModifiers()))

    def type(self, text: str) -> None:
        for letter in text:
            self._later(lambda letter=letter: QTest.keyClick(QGuiApplication.focusWindow(), ord(letter)))

    def busy(self) -> bool:
        return bool(self._queue)

    def _later(self, do: Callable[[], object]) -> None:
        self._queue.append(do)
        if len(self._queue) == 1:
            QTimer.singleShot(_BETWEEN_MS, self._act)

    def _act(self) -> None:
        window = QGuiApplication.focusWindow()
        if window is None or not window.isVisible():  # without a display nobody gives it on when a popup closes
            next(one for one in reversed(QGuiApplication.topLevelWindows()) if one.isVisible()).requestActivate()
            QTimer.singleShot(_BETWEEN_MS, self._act)
            return
        more = len(self._queue) > 1
        do = self._queue.pop(0)
        do()  # the last may open a dialog, and return once that is closed
        if more:
            QTimer.singleShot(_BETWEEN_MS, self._act)


class XDevices:
    """Has the X server make the events, which take their way by the window manager; one xdotool after the other."""

    def __init__(self) -> None:
        self._queue: list[list[str]] = []
        self._running: subprocess.Popen[bytes] | None = None

    def keys(self, sequence: str) -> None:
        *held, key = sequence.split("+")
        self._do(
            "key", "+".join([*(name.lower() for name in held), _X_NAMES.get(key, key if len(key) > 1 else key.lower())])
        )

    def type(self, text: str) -> None:
        self._do("type", "--delay", "4", "--", text)

    def busy(self) -> bool:
        if self._running is not None and self._running.poll() is None:
            return True
        if self._running is not None:
            assert self._running.returncode == 0, f"xdotool failed: {self._running.args}"
            self._running = None
        if self._queue:
            self._running = subprocess.Popen(["xdotool", *self._queue.pop(0)])
        return self._running is not None or _is_handed_on()

    def _do(self, *words: str) -> None:
        self._queue.append(list(words))
        self.busy()


def _is_handed_on() -> bool:
    """Whether the window manager is giving the keyboard from a window that was closed to another one."""
    shown = any(window.isVisible() for window in QGuiApplication.topLevelWindows())
    return shown and QApplication.activeWindow() is None
