"""Notices when the main thread does not get back to its event loop in time, and where it was meanwhile."""

import faulthandler
import tempfile
import threading
import time
from pathlib import Path

from PySide6.QtCore import QObject, Qt, QTimer

LIMIT_SECONDS = 0.1
_BEAT_MS = 5
_SCHEDULER = Path("/proc/thread-self/schedstat")
"""Linux: nanoseconds on a processor, nanoseconds waiting for one, time slices."""


class StallWatchdog(QObject):
    """A timer beats on the main thread. The time between two beats counts as blocked, less what the kernel says the
    thread was ready to run but got no processor: a busy machine is no fault of the window, and neither is what the test
    itself computes between two calls. A second thread looks over its shoulder, to tell the stack of what blocked."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self.stalls: list[str] = []
        self._stack = ""
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

    def stop(self) -> None:
        """Watch no longer."""
        self._beat()
        self._timer.stop()
        self._done.set()
        self._observer.join()
        self.setParent(None)

    def _beat(self) -> None:
        now, waited = time.perf_counter(), _waiting_for_a_processor()
        blocked = (now - self._last) - (waited - self._waited)
        if blocked > LIMIT_SECONDS + _BEAT_MS / 1000 and not _is_the_tests_own(self._stack):
            self.stalls.append(f"The main thread was blocked for {1000 * blocked:.0f} ms, here:\n{self._stack}")
        self._last, self._waited, self._stack = time.perf_counter(), _waiting_for_a_processor(), ""

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


def _is_the_tests_own(stacks: str) -> bool:
    """Whether the main thread was neither in the window's code nor in Qt's event loop."""
    main = f"0x{threading.main_thread().ident:016x}"
    here = next((part for part in stacks.split("\n\n") if main in part.partition("\n")[0]), "")
    return bool(here) and "/app/wina_app/" not in here and "pytestqt" not in here


def _waiting_for_a_processor() -> float:
    """Seconds that this thread was ready to run and could not, since it began; 0 where the kernel does not tell."""
    try:
        return int(_SCHEDULER.read_text().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0
