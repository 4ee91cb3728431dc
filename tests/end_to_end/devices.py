"""Keyboard and pointer, with and without a display. Nothing here waits: what a key or a click sets off may open a
dialog that has an event loop of its own."""

import subprocess
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from PySide6.QtCore import QPoint, Qt, QTimer
from PySide6.QtGui import QGuiApplication, QKeySequence, QWindow
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

NOTCH = 120
"""One notch of a wheel, in eighths of a degree."""
_BETWEEN_MS = 3
"""From one key or click to the next."""
_X_NAMES = {"Space": "space", "Enter": "KP_Enter", "PgUp": "Prior", "PgDown": "Next", "Esc": "Escape"}


class Devices(Protocol):
    """What a person's hands are on; places are in pixels of the screen."""

    def keys(self, sequence: str) -> None:
        """Press keys together, named as in "Ctrl+K"."""

    def type(self, text: str) -> None:
        """Type ASCII letters and signs."""

    def click(self, place: QPoint) -> None:
        """Go there, press and release."""

    def move(self, place: QPoint) -> None:
        """Go there."""

    def drag(self, places: Sequence[QPoint]) -> None:
        """Press at the first, go through all, release at the last."""

    def wheel(self, place: QPoint, notches: int) -> None:
        """Turn the wheel there; away from the person is positive."""

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

    def click(self, place: QPoint) -> None:
        left, none = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
        self.move(place)
        self._at(place, lambda window, where: QTest.mouseClick(window, left, none, where))

    def move(self, place: QPoint) -> None:
        self._at(place, QTest.mouseMove)

    def drag(self, places: Sequence[QPoint]) -> None:
        left, none = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
        self._at(places[0], lambda window, where: QTest.mousePress(window, left, none, where))
        for place in places[1:]:
            self.move(place)
        self._at(places[-1], lambda window, where: QTest.mouseRelease(window, left, none, where))

    def wheel(self, place: QPoint, notches: int) -> None:
        turn = QPoint(0, NOTCH * notches)
        self._at(place, lambda window, where: QTest.wheelEvent(window, where, turn))

    def busy(self) -> bool:
        return bool(self._queue)

    def _at(self, place: QPoint, do: Callable[[QWindow, QPoint], object]) -> None:
        def act() -> None:
            window = window_at(place)
            assert window is not None, f"no window is at {place.x()}, {place.y()}"
            do(window, window.mapFromGlobal(place))

        self._later(act)

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


def window_at(place: QPoint) -> QWindow | None:
    """The topmost; also beyond the screen, since without a display the screen is smaller than the window."""
    windows = reversed(QGuiApplication.topLevelWindows())
    return next((one for one in windows if one.isVisible() and one.geometry().contains(place)), None)


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

    def click(self, place: QPoint) -> None:
        self._do(*_to(place), "click", "1")

    def move(self, place: QPoint) -> None:
        self._do(*_to(place))

    def drag(self, places: Sequence[QPoint]) -> None:
        first, *others = map(_to, places)
        self._do(*first, "mousedown", "1", *(word for place in others for word in place), "mouseup", "1")

    def wheel(self, place: QPoint, notches: int) -> None:
        self._do(*_to(place), "click", "--repeat", str(abs(notches)), "--delay", "4", "4" if notches > 0 else "5")

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


def _to(place: QPoint) -> list[str]:
    return ["mousemove", str(place.x()), str(place.y())]


def points_between(start: QPoint, end: QPoint, steps: int = 4) -> Iterator[QPoint]:
    """From the one to the other, both among them."""
    return (start + (end - start) * (step / steps) for step in range(steps + 1))
