"""A person who works with the window by the keyboard alone and looks whether it was understood.

What is done is written as generators. They yield what has to be seen before they go on, and `carry_out` goes on with
them from a timer, so that they work on in dialogs that have an event loop of their own. Devices never wait: what a key
sets off may open such a dialog.
"""

import subprocess
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol, TypeAlias

from PySide6.QtCore import QObject, QPoint, QTimer
from PySide6.QtGui import QGuiApplication, QKeySequence
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QApplication,
    QComboBox,
    QSpinBox,
    QWidget,
)
from wina_app.window.command_palette import CommandPalette

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


PATIENCE_S = 300
_LOOK_MS = 10
_MOST_TABS = 120


class Seen(NamedTuple):
    """What has to hold before a script goes on, and how to tell when it does not."""

    what: str
    holds: Callable[[], bool]
    instead: Callable[[], object] = lambda: None
    """What is seen, for whoever reads that it was not."""


Script: TypeAlias = Iterator[Seen]


def carry_out(qtbot, script: Script, devices: Devices) -> None:
    """Do all of it; what a script asserts, and what it does not see in time, fails the test."""
    actor = _Actor(script, devices)
    actor.timer.start(_LOOK_MS)
    try:
        qtbot.waitUntil(lambda: actor.ended, timeout=10 * PATIENCE_S * 1000)
    finally:
        actor.timer.stop()
    if actor.error is not None:
        raise actor.error


class _Actor(QObject):
    def __init__(self, script: Script, devices: Devices) -> None:
        super().__init__()
        self.ended, self.error = False, None
        self._script, self._devices = script, devices
        self._awaited = Seen("", lambda: True)
        self._looks = 0
        self.timer = QTimer(self)
        self.timer.timeout.connect(self._look)

    def _look(self) -> None:
        try:
            if not self._devices.busy() and self._awaited.holds():
                self._awaited, self._looks = next(self._script), 0
            self._looks += 1
            assert self._looks < PATIENCE_S * 1000 / _LOOK_MS, self._told()
        except StopIteration:
            self._end(None)
        except Exception as error:
            self._end(error)

    def _told(self) -> str:
        has_keyboard = name_of(QApplication.focusWidget())
        return f"not seen in time: {self._awaited.what}, but {self._awaited.instead()}; {has_keyboard} has the keyboard"

    def _end(self, error: Exception | None) -> None:
        self.timer.stop()
        self.ended, self.error = True, error
        while error is not None and (open_ := QApplication.activePopupWidget() or QApplication.activeModalWidget()):
            open_.close()


class Keyboard:
    """Verbs of a person who never points at anything."""

    def __init__(self, devices: Devices) -> None:
        self.devices = devices

    def tick(self, box: QAbstractButton, on: bool) -> Script:
        """Until it is so."""
        if box.isChecked() != on:
            yield from self.press(box)
            yield Seen(f"{name_of(box)} is {'on' if on else 'off'}", lambda: box.isChecked() == on)

    def focus(self, widget: QWidget) -> Script:
        """Go there by Tab."""
        yield Seen(f"{name_of(widget)} can be used", lambda: widget.isVisible() and widget.isEnabled())
        for _ in range(_MOST_TABS):
            before = QApplication.focusWidget()
            if before is widget:
                break
            self.devices.keys("Tab")
            yield Seen(
                f"Tab goes on from {name_of(before)}", lambda before=before: QApplication.focusWidget() is not before
            )
        assert QApplication.focusWidget() is widget, f"Tab does not reach {name_of(widget)}"
        yield Seen(f"{name_of(widget)} is in view", lambda: in_view(widget, widget.rect().center()))

    def press(self, button: QAbstractButton) -> Script:
        """By Space."""
        yield from self.focus(button)
        self.devices.keys("Space")

    def command(self, palette: CommandPalette, text: str) -> Script:
        """By the palette, of which it has to be the first."""
        self.devices.keys("Ctrl+K")
        yield Seen("the palette is open", lambda: QApplication.focusWidget() is palette.field)
        self.devices.type(text.rstrip("\N{HORIZONTAL ELLIPSIS}"))
        yield Seen(f"the palette finds {text}", lambda: [entry.text for entry in palette.shown()][:1] == [text])
        self.devices.keys("Return")
        yield Seen("the palette is gone", lambda: not palette.isVisible())

    def choose(self, box: QComboBox, text: str) -> Script:
        """By the arrows in its list."""
        yield from self.focus(box)
        wanted = box.findText(text)
        assert wanted >= 0, f"{text} is not offered by {name_of(box)}"
        self.devices.keys("F4")
        yield Seen(f"{name_of(box)} shows its list", lambda: box.view().isVisible())
        self.devices.keys("Home")
        for _ in range(wanted):
            self.devices.keys("Down")
        yield Seen(f"{text} is marked", lambda: box.view().currentIndex().row() == wanted)
        self.devices.keys("Return")
        yield Seen(f"{name_of(box)} says {text}", lambda: box.currentText() == text)

    def set(self, box: QSpinBox, value: int) -> Script:
        """By typing it."""
        yield from self.focus(box)
        self.devices.keys("Ctrl+A")
        self.devices.type(str(value))
        self.devices.keys("Return")
        yield Seen(f"{name_of(box)} says {value}", lambda: box.value() == value)


def name_of(widget: QWidget | None) -> str:
    """For a person who reads why a test failed."""
    return (
        "nothing" if widget is None else f"{type(widget).__name__} “{widget.accessibleName() or widget.objectName()}”"
    )


def plain(text: str) -> str:
    """A menu's text without the marks of its keys."""
    return text.replace("&", "")


def in_view(widget: QWidget, place: QPoint) -> bool:
    """Whether nothing that it lies in cuts that place of it off."""
    around = widget.parentWidget()
    while around is not None and not widget.isWindow():
        if not around.rect().contains(widget.mapTo(around, place)):
            return False
        around = None if around.isWindow() else around.parentWidget()
    return widget.isVisible()
