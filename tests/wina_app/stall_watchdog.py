"""Notices when the main thread does not get back to its event loop in time, and where it was meanwhile."""

import faulthandler
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from PySide6.QtCore import QObject, Qt, QTimer
from pytestqt.qtbot import QtBot
from pytestqt.wait_signal import MultiSignalBlocker, SignalBlocker

LIMIT_SECONDS = 0.1
_BEAT_MS = 5
_SCHEDULER = Path("/proc/thread-self/schedstat")
"""Linux: nanoseconds on a processor, nanoseconds waiting for one, time slices."""
_GESTURES = ("mouseClick", "mouseDClick", "mousePress", "mouseRelease", "mouseMove", "keyClick", "keyPress")
_WAITS = ("wait",)


class StallWatchdog(QObject):
    """A timer beats on the main thread. The time between two beats counts as blocked, less what the kernel says the
    thread was ready to run but got no processor: a busy machine is no fault of the window. A second thread looks
    over its shoulder, to tell the stack of what blocked."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self.stalls: list[str] = []
        self._stack = ""
        self._watching = True
        self._restyled = False
        self._timer = QTimer(self)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._beat)
        self._observer = threading.Thread(target=self._observe, name="stall watchdog", daemon=True)
        self._done = threading.Event()

    def start(self) -> None:
        """Watch from now on."""
        self._last, self._waited = time.perf_counter(), _waiting_for_a_processor()
        self._timer.start(_BEAT_MS)
        self._observer.start()

    def start_within(self, patch: pytest.MonkeyPatch) -> None:
        """Watch from now on, while the test waits in the event loop and in each of its clicks and keys; not what the
        test itself computes in between."""
        self._watching = False
        waiting = ((owner, _WAITS) for owner in (QtBot, SignalBlocker, MultiSignalBlocker))
        for owner, names in ((QtBot, _GESTURES), *waiting):
            for name in names:
                watched = self._watched(getattr(owner, name))
                patch.setattr(owner, name, staticmethod(watched) if names is _GESTURES else watched)
        self.start()

    def stop(self) -> None:
        """Watch no longer."""
        self._beat()
        self._timer.stop()
        self._done.set()
        self._observer.join()
        self.setParent(None)

    def _watched(self, do):
        def done(*arguments, **named):
            with self._open_eyes():
                return do(*arguments, **named)

        return done

    @contextmanager
    def _open_eyes(self) -> Iterator[None]:
        before = self._watching
        if not before:
            self._beat()
        self._watching = True
        try:
            yield
        finally:
            if not before:
                self._beat()
            self._watching = before

    def _beat(self) -> None:
        now, waited = time.perf_counter(), _waiting_for_a_processor()
        blocked = (now - self._last) - (waited - self._waited)
        if self._watching and blocked > LIMIT_SECONDS + _BEAT_MS / 1000 and not self._is_excused():
            self.stalls.append(f"The main thread was blocked for {1000 * blocked:.0f} ms, here:\n{self._stack}")
        self._last, self._waited, self._stack = time.perf_counter(), _waiting_for_a_processor(), ""

    def _is_excused(self) -> bool:
        """Restyling every widget, and the first painting after it, is done at the user's wish and not in passing."""
        restyled, self._restyled = self._restyled, "in apply_theme" in self._stack
        return restyled or self._restyled

    def _observe(self) -> None:
        while not self._done.wait(_BEAT_MS / 1000):
            if time.perf_counter() - self._last > LIMIT_SECONDS / 2:
                self._stack = _stacks()


def _stacks() -> str:
    """The stacks of all threads. Not by way of frame objects: a reference to a frame keeps its locals, and a painter
    that outlives its paint event, to be destroyed on another thread, takes the process down."""
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback(file, all_threads=True)
        file.seek(0)
        return file.read()


def _waiting_for_a_processor() -> float:
    """Seconds that this thread was ready to run and could not, since it began; 0 where the kernel does not tell."""
    try:
        return int(_SCHEDULER.read_text().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0
