"""The process of the window: how it imports, ends, logs, and uses memory."""

import ctypes
import gc
import importlib
import os
import signal
import socket
import sys
from contextlib import suppress
from logging import LogRecord
from logging.handlers import RotatingFileHandler
from pathlib import Path
from threading import Thread
from types import FrameType

from PySide6.QtCore import QObject, QSocketNotifier, QTimer, Signal

from wina_core.errors import ending_signals
from wina_core.files.hardware import MEMORY_VARIABLE

_TICK_MS = 100
_MIDDLE_PER_FULL = 1000
"""Collections of the middle generation per full one; Python's default is 10. A full collection of the window's
150,000 objects stops all threads for 0.13 s."""

_MMAP_THRESHOLD, _ARENA_MAX = -3, -8
"""Parameters of mallopt(3)."""
_BLOCK_BYTES = 65_536

_LOG_BYTES = 2 * 2**20


def skip_feature_scan() -> None:
    """Keep PySide from reading the source of every module that is imported from now on.

    It looks for "PySide6" in it, to switch features such as snake_case names by module, which takes 0.4 s of 1.5 s of
    imports. Modules of this package have none of them, others are ignored. A version of PySide without this search is
    left as it is.
    """
    feature = sys.modules.get("shibokensupport.feature")
    if feature is not None and hasattr(feature, "_mod_uses_pyside"):
        vars(feature)["_mod_uses_pyside"] = lambda module: module.__name__.startswith("wina_app.")


class BackgroundImport(QObject):
    """Import of libraries on a thread of its own: neither the window nor the store waits for it."""

    finished = Signal()

    def __init__(self, *names: str) -> None:
        super().__init__()
        self._names = names
        self._thread = Thread(target=self._run, name=f"import of {' and '.join(names)}")
        self._importing = False

    def is_needed(self) -> bool:
        """Return whether libraries are missing; if so, import them and emit `finished`."""
        if not self._importing and not sys.modules.keys() >= set(self._names):
            self._importing = True
            self._thread.start()
        return self._importing

    def join(self) -> None:
        """Wait for the thread, which would destroy this object if it held the last reference to it."""
        self._thread.join()

    def _run(self) -> None:
        for name in self._names:
            importlib.import_module(name)
        self._importing = False
        with suppress(RuntimeError):  # the window was closed meanwhile
            self.finished.emit()


# Python runs its handlers between two of its instructions, and none runs while Qt waits for events. The interpreter
# therefore writes each signal's number into a socket, which wakes Qt and delivers the signal on the main thread.
class EndingSignals(QObject):
    """Ctrl-C, SIGTERM and SIGHUP; under nohup, which ignores SIGHUP, it stays ignored."""

    received = Signal(int)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._reading, self._writing = socket.socketpair()
        for end in (self._reading, self._writing):
            end.setblocking(False)  # set_wakeup_fd requires it
        self._notifier = QSocketNotifier(self._reading.fileno(), QSocketNotifier.Type.Read, self)
        self._notifier.activated.connect(self._on_arrived)
        self._wakeup_before = signal.set_wakeup_fd(self._writing.fileno(), warn_on_full_buffer=False)
        self._before = {number: signal.signal(number, _do_nothing) for number in ending_signals()}

    def stop(self) -> None:
        """Restore the handlers from before."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup_before)
        self._notifier.setEnabled(False)
        for end in (self._reading, self._writing):
            end.close()

    def _on_arrived(self) -> None:
        for number in self._reading.recv(64):
            if number in self._before:
                self.received.emit(number)


def _do_nothing(_number: int, _frame: FrameType | None) -> None:
    """Handle a signal, so that Python reports it and the system does not end the process."""


# Python collects on whichever thread allocates, and cycles hold widgets and items of models: destroyed on the store's
# or an engine client's thread while the main thread uses their model, they crash Qt. The main thread alone collects.
class GarbageCollector(QObject):
    """Collector that takes the place of the automatic one until it is stopped."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        gc.disable()
        self._timer = QTimer(self, interval=_TICK_MS)
        self._timer.timeout.connect(self._collect)
        self._timer.start()

    def stop(self) -> None:
        self._timer.stop()
        gc.enable()

    def _collect(self) -> None:
        """Collect the generations that are due, as Python would."""
        limits = (*gc.get_threshold()[:2], _MIDDLE_PER_FULL)
        due = [generation for generation, count in enumerate(gc.get_count()) if count > limits[generation]]
        if due:
            gc.collect(due[-1])  # with all younger generations


def configure_malloc() -> None:
    """Configure glibc to release freed blocks of 64 KiB and more at once, in one heap for all threads.

    The columns of a million results come and go on several threads; glibc keeps a heap for each and what was freed in
    it: 35 MB of 620. Call this before the first thread is started.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # another C library
            mallopt = ctypes.CDLL("libc.so.6").mallopt
            mallopt(_ARENA_MAX, 1)
            mallopt(_MMAP_THRESHOLD, _BLOCK_BYTES)


def limit_memory(chosen: str) -> str:
    """Limit this program and the engines that it starts to the chosen size, such as 8GB; empty for no limit.

    A limit that the program was started with counts instead, and is returned; empty where there is none.
    """
    preset_limit = os.environ.get(MEMORY_VARIABLE, "")
    if chosen and not preset_limit:
        os.environ[MEMORY_VARIABLE] = chosen
    return preset_limit


class LogFile(RotatingFileHandler):
    """A rotating log file that ignores write errors, since the Log dock has the lines too."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, maxBytes=_LOG_BYTES, backupCount=1, encoding="utf-8", delay=True)

    def handleError(self, record: LogRecord) -> None:
        """Do nothing: a traceback for each line on stderr would not help."""

    def close(self) -> None:
        with suppress(OSError):
            super().close()
