"""Threads beside the main one: for the engines, for checks that answer at once, and for fetched models."""

import logging
import queue
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, QThread, Signal, Slot

from wina_core.errors import WinaError, unforeseen
from wina_core.jobs import Done, Event, Failed, Progress, Request, Started
from wina_core.jobs.hosted import FetchJob
from wina_core.model_info.small_models import SMALL_MODELS

if TYPE_CHECKING:
    from wina_core.engine.client.pool import EnginePool

_log = logging.getLogger(__name__)


class EngineThread(QThread):
    """Thread that starts and stops the engines' processes; their events arrive as a signal."""

    received = Signal(object)
    """An event of the engines."""

    def __init__(
        self, open_pool: "Callable[[Callable[[Event], None]], EnginePool]", parent: QObject | None = None
    ) -> None:
        """Create the thread; `open_pool` makes the pool of engines from the receiver of its events."""
        super().__init__(parent)
        self._open_pool = open_pool
        self._pool: EnginePool | None = None
        self._requests: queue.SimpleQueue[Request | None] = queue.SimpleQueue()

    @property
    def pid(self) -> int | None:
        """Process id of the first engine; None while there is none."""
        return None if self._pool is None else self._pool.pid

    def send(self, request: Request) -> None:
        self._requests.put(request)

    def finish(self) -> None:
        """Stop the engines, then this thread; return at once, `finished` follows."""
        self._requests.put(None)

    def run(self) -> None:
        pool = self._pool = self._open_pool(self.received.emit)
        pool.start()
        while (request := self._requests.get()) is not None:
            pool.send(request)
        pool.stop()


class Checks(QObject):
    """Short questions about files, each on a thread of its own; answers arrive on the main thread.

    A folder on a network that does not answer keeps no other check waiting, nor the end of the program.
    """

    _answered = Signal(object, object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._answered.connect(self._deliver)

    def ask(
        self, question: Callable[[], object], answer: Callable[[Any], None], refused: Callable[[str], None]
    ) -> None:
        """Call `question()` off the main thread, then `answer` with its result, or `refused` with its error's text."""

        def work() -> None:
            try:
                value, receiver = question(), answer
            except WinaError as error:
                value, receiver = str(error), refused
            except Exception as error:
                _log.exception("A check failed")
                value, receiver = unforeseen(error), refused
            try:
                self._answered.emit(receiver, value)
            except RuntimeError:  # the window has closed meanwhile
                _log.debug("A check ended after the window")

        threading.Thread(target=work, name="check", daemon=True).start()

    @Slot(object, object)
    def _deliver(self, receiver: Callable[[Any], None], value: Any) -> None:
        receiver(value)


class _FetchStopped(Exception):  # noqa: N818 - no error
    """End of a copy that the user cancelled."""


class Fetcher(QObject):
    """Threads that copy; what they report arrives on the main thread."""

    reported = Signal(object)
    """Events as of an engine's job."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._ends: dict[str, threading.Event] = {}

    def begin(self, job_id: str, job: FetchJob) -> None:
        end = self._ends[job_id] = threading.Event()
        threading.Thread(target=self._work, args=(job_id, job, end), name="fetch", daemon=True).start()

    def stop(self, job_id: str) -> None:
        """End a copy; what has come is kept for the next attempt."""
        self._ends[job_id].set()

    def stop_all(self) -> None:
        for end in self._ends.values():
            end.set()

    def _work(self, job_id: str, job: FetchJob, end: threading.Event) -> None:
        def report(done: float, total: float | None) -> None:
            if end.is_set():
                raise _FetchStopped
            self.reported.emit(Progress(job_id=job_id, done=done, total=total, unit="bytes"))

        try:
            self.reported.emit(Started(job_id=job_id))
            from wina_core.model_info.fetching import fetch_model

            fetch_model(SMALL_MODELS[job.model], report)
            self.reported.emit(Done(job_id=job_id))
        except _FetchStopped:
            self.reported.emit(Done(job_id=job_id, cancelled=True))
        except WinaError as error:
            self.reported.emit(Failed(job_id=job_id, error=str(error)))
        except RuntimeError:  # the window has closed meanwhile
            return
        except Exception as error:
            self.reported.emit(Failed(job_id=job_id, error=unforeseen(error)))
