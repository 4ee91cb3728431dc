"""Notices when the main thread computes too long before it gets back to its event loop, and where it was meanwhile."""

import faulthandler
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

import pytest
from PySide6.QtCore import QObject, Qt, QTimer
from pytestqt.qtbot import QtBot
from pytestqt.wait_signal import MultiSignalBlocker, SignalBlocker

LIMIT_LOOPS = 50
"""The main thread may compute as long as this many reference loops take: half a second on an idle machine of today.
What the tests do takes up to 9; beside 25 other programs 29, since they displace the window's code from the caches, the
loop's not. Shorter stalls are for `tests/benchmarks`."""
_BEAT_MS = 10
_GESTURES = ("mouseClick", "mouseDClick", "mousePress", "mouseRelease", "mouseMove", "keyClick", "keyPress")
_WAITS = ("wait",)


class StallWatchdog(QObject):
    """A timer beats on the main thread. What counts is the processor time that the thread took between two beats, in
    reference loops, which the same thread is timed with in the same run: a busy machine lengthens neither, and a slow
    processor both. A wait for a disk or a lock takes no processor time; `tests/benchmarks` measure that. The desktop's
    dialogs for files are left out. A second thread notes the stack of what takes long."""

    def __init__(self, parent: QObject, limit_loops: int = LIMIT_LOOPS) -> None:
        super().__init__(parent)
        self.stalls: list[str] = []
        self._limit_loops = limit_loops
        self._stack = ""
        self._watching = True
        self._timer = QTimer(self)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._beat)
        self._observer = threading.Thread(target=self._observe, name="stall watchdog", daemon=True)
        self._done = threading.Event()

    def start(self) -> None:
        """Watch from now on."""
        self._clock = _clock_of_this_thread()
        self._limit = self._limit_loops * _quick_reference()
        self._last = time.thread_time(), self._clock()
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
        busy = time.thread_time() - self._last[0]
        if self._watching and busy > self._limit and "file_dialogs.py" not in self._stack:
            # Whatever slowed the processor just now, such as a program on the other half of the core, slows the loop.
            loops = busy / max(reference_seconds() for _ in range(5))
            if loops > self._limit_loops:
                said = f"The main thread computed for {1000 * busy:.0f} ms or {loops:.0f} reference loops, here:"
                self.stalls.append(f"{said}\n{self._stack}")
        self._stack = ""
        self._last = time.thread_time(), self._clock()

    def _observe(self) -> None:
        while not self._done.wait(_BEAT_MS / 1000):
            if self._clock() - self._last[1] > self._limit / 2:
                self._stack = _stacks()


def reference_seconds() -> float:
    """Return the processor time of a fixed amount of Python's usual work."""
    begun = time.thread_time()
    for _ in range(10):
        rows = {f"{number % 97} {number}": [number, str(number), number / 7] for number in range(2_000)}
        "".join(sorted(rows, key=lambda key: (rows[key][1], -rows[key][0])))
    return time.thread_time() - begun


@cache
def _quick_reference() -> float:
    """Return the shortest of some timings, once a process."""
    return min(reference_seconds() for _ in range(5))


def _clock_of_this_thread() -> Callable[[], float]:
    """Return a clock of this thread's processor time that other threads can read; of wall time where none can."""
    try:
        clock = time.pthread_getcpuclockid(threading.get_ident())
    except AttributeError:  # macOS and Windows
        return time.perf_counter
    return lambda: time.clock_gettime(clock)


def _stacks() -> str:
    """The stacks of all threads. Not by way of frame objects: a reference to a frame keeps its locals, and a painter
    that outlives its paint event, to be destroyed on another thread, takes the process down."""
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback(file, all_threads=True)
        file.seek(0)
        return file.read()
