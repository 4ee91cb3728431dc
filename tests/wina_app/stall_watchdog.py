"""Notices when the main thread does not get back to its event loop in time, and where it was meanwhile."""

import faulthandler
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

import pytest
from PySide6.QtCore import QObject, Qt, QTimer
from pytestqt.qtbot import QtBot
from pytestqt.wait_signal import MultiSignalBlocker, SignalBlocker

LIMIT_SECONDS = 0.1 * (1.5 if "PYTEST_XDIST_WORKER" in os.environ else 1.0)
"""Beside the tests of another process everything takes up to half as long again: what is 95 ms alone was up to 141."""
_BEAT_MS = 10
_THREADS = "/proc/self/task"
"""Linux: of each thread in "schedstat" nanoseconds on a processor, nanoseconds waiting for one, time slices."""
_GESTURES = ("mouseClick", "mouseDClick", "mousePress", "mouseRelease", "mouseMove", "keyClick", "keyPress")
_WAITS = ("wait",)


class StallWatchdog(QObject):
    """A timer beats on the main thread. The time between two beats counts as blocked, less what the kernel says the
    thread was ready to run but got no processor: a busy machine is no fault of the window. Neither is it while the
    main thread sleeps for another thread, one that holds the interpreter's lock, which got no processor. Nor are the
    dialogs for files, which are the desktop's. A second thread looks over its shoulder, to tell the stack of what
    blocked."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self.stalls: list[str] = []
        self._stack = ""
        self._watching = True
        self._timer = QTimer(self)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._beat)
        self._observer = threading.Thread(target=self._observe, name="stall watchdog", daemon=True)
        self._done = threading.Event()

    def start(self) -> None:
        """Watch from now on."""
        self._last, self._times = time.perf_counter(), _times_of_threads()
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
        if self._done.is_set():  # the timer beats no longer, and all the time of a wait would count
            yield
            return
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
        now, times = time.perf_counter(), _times_of_threads()
        blocked = now - self._last - _excused(self._times, times)
        if self._watching and blocked > LIMIT_SECONDS + _BEAT_MS / 1000 and "file_dialogs.py" not in self._stack:
            self.stalls.append(f"The main thread was blocked for {1000 * blocked:.0f} ms, here:\n{self._stack}")
        self._last, self._times, self._stack = now, times, ""

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


class _Times(NamedTuple):
    """Seconds of a thread since it began."""

    clock: float
    """When they were read."""
    running: float
    waiting: float
    """Ready to run, without a processor."""


def _times_of_threads() -> dict[int, _Times]:
    """By the threads' numbers; nothing where the kernel does not tell."""
    found = {}
    for thread in os.listdir(_THREADS) if os.path.isdir(_THREADS) else ():
        with suppress(OSError, ValueError):  # it has ended meanwhile
            running, waiting, _ = _read(f"{_THREADS}/{thread}/schedstat").split()
            found[int(thread)] = _Times(time.perf_counter(), int(running) / 1e9, int(waiting) / 1e9)
    return found


def _read(path: str) -> bytes:
    """The beginning of a file, in a tenth of the time of `read_text`: every beat reads one of each thread."""
    file = os.open(path, os.O_RDONLY)
    try:
        return os.read(file, 100)
    finally:
        os.close(file)


def _excused(before: dict[int, _Times], after: dict[int, _Times]) -> float:
    """Seconds in which the main thread had no processor, or slept while another thread had none."""
    main = os.getpid()  # also the number of a process's first thread
    if main not in before or main not in after:
        return 0.0
    took = _Times(*(new - old for old, new in zip(before[main], after[main], strict=True)))
    slept = max(0.0, took.clock - took.running - took.waiting)
    others = (after[each].waiting - before[each].waiting for each in after if each != main and each in before)
    return took.waiting + min(slept, max(others, default=0.0))
