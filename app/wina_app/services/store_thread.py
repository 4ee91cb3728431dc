"""The one thread on which the window writes its database and does other blocking work: files, hashes, queries."""

import logging
import math
import queue
import time
from collections.abc import Callable, Sequence
from typing import Any

from PySide6.QtCore import QObject, QThread, Signal, Slot

from wina_core.errors import WinaError, unforeseen
from wina_core.jobs import Event, Submit

CHANGED_SECONDS = 1.0
"""Shortest time between two `changed` signals."""

_RETRY_SECONDS = 5.0
"""Interval of trying again to write to a database that could not be written."""

_NEWS_SECONDS = 1.0
"""Interval of asking the database whether another program wrote to it."""

_log = logging.getLogger(__name__)


class Pace:
    """Throttle of `changed`: once the work is done, at most once per CHANGED_SECONDS, and at latest that long after a
    change. The clock is an argument."""

    def __init__(self) -> None:
        self._since: float | None = None
        """Time of the first unreported change."""
        self._reported = -math.inf

    def change(self, now: float) -> None:
        self._since = now if self._since is None else self._since

    def patience(self, now: float) -> float | None:
        """Return the seconds after which to report a change even if nothing else happens; None without a change."""
        return None if self._since is None else max(0.0, self._reported + CHANGED_SECONDS - now)

    def is_due(self, now: float, *, at_rest: bool) -> bool:
        """Return whether to report now, and forget the reported changes."""
        if self._since is None or now < self._reported + CHANGED_SECONDS:
            return False
        if not at_rest and now < self._since + CHANGED_SECONDS:
            return False
        self._since, self._reported = None, now
        return True


class StoreThread(QThread):
    """Owner of the Store. Tasks run in the order in which they come; answers arrive on the main thread."""

    opened = Signal(object)
    """The Store, readable from any thread but written here alone; sent again after `switch`."""
    failed = Signal(str)
    """The database could not be opened."""
    unwritable = Signal(str)
    """Reason why nothing can be stored; empty once it can."""
    changed = Signal()
    """Something was stored; throttled (`Pace`), so that views show results as they land and keep up with them."""
    _answered = Signal(object, object)

    def __init__(self, url: str | None = None, parent: QObject | None = None) -> None:
        """`url` is an SQLAlchemy URL or a file; None is the default database."""
        super().__init__(parent)
        self._url = url
        self._store: Any = None
        self._recorders: Any = None
        self._problem = ""
        self._missing = ""
        """Reason why there is no store."""
        self.unanswered = 0
        """Number of questions whose answers have not arrived on the main thread, from which they are asked."""
        self._tasks: queue.SimpleQueue[Callable[[], bool] | None] = queue.SimpleQueue()
        # A slot of this object, which lives on the main thread: Qt calls it there.
        self._answered.connect(self._deliver)

    def ask(
        self,
        question: Callable[[Any], object],
        answer: Callable[[Any], None] = lambda _: None,
        refused: Callable[[str], None] = lambda text: _log.error("%s", text),
    ) -> None:
        """Call `question(store)` here, then `answer` with its result, or `refused` with the text of its error."""
        self.unanswered += 1
        answer, refused = self._counted(answer), self._counted(refused)

        def task() -> bool:
            try:
                value = question(self._opened_store())
            except WinaError as error:
                self._answered.emit(refused, str(error))
            except Exception as error:
                _log.exception("A task on the store's thread failed")
                text = f"Unexpected {type(error).__name__}: {error}; the log has the details."
                self._answered.emit(refused, text)
            else:
                self._answered.emit(answer, value)
            return False

        self._tasks.put(task)

    def write(self, change: Callable[[Any], object], refused: Callable[[str], None]) -> None:
        """Call `change(store)` here; `changed` follows. `refused` gets the text of an error."""

        def task() -> bool:
            try:
                change(self._opened_store())
            except WinaError as error:
                self._answered.emit(refused, str(error))
                return False
            except Exception as error:
                _log.exception("A write to the database failed")
                text = f"A result could not be stored ({type(error).__name__}: {error})."
                self._answered.emit(refused, text)
                return False
            return True

        self._tasks.put(task)

    def record(self, messages: Sequence[Submit | Event], refused: Callable[[str], None]) -> None:
        """Store what messages of jobs bring; `changed` follows. `refused` gets the text of an error."""

        def record_all(_store: object) -> None:
            for message in messages:
                self._recorders.record(message)

        self.write(record_all, refused)

    def switch(self, url: str, refused: Callable[[str], None]) -> None:
        """Open another database after the waiting tasks; `opened` and `changed` follow.

        If it cannot be opened, the current one stays open.
        """

        def task() -> bool:
            try:
                self._open(url)
            except WinaError as error:
                self._answered.emit(refused, str(error))
                return False
            return True

        self._tasks.put(task)

    def finish(self) -> None:
        """Finish the waiting tasks, close the database and end the thread; return when all is on disk."""
        self._tasks.put(None)
        self.wait()

    def run(self) -> None:
        try:
            self._open(self._url)
        except WinaError as error:
            self._missing = str(error)
            self.failed.emit(self._missing)
        pace = Pace()
        while True:
            patience = [pace.patience(time.monotonic()), _RETRY_SECONDS if self._problem else None]
            patience.append(_NEWS_SECONDS if self._store is not None else None)
            try:
                task = self._tasks.get(
                    timeout=min((seconds for seconds in patience if seconds is not None), default=None)
                )
            except queue.Empty:
                self._retry()
            else:
                if task is None:
                    break
                if task():
                    pace.change(time.monotonic())
            if self._store is not None and self._store.has_news():
                pace.change(time.monotonic())
            self._report_problem()
            if pace.is_due(time.monotonic(), at_rest=self._tasks.empty()):
                self.changed.emit()
        if self._store is not None:
            self._store.close()

    def _retry(self) -> None:
        """Try again to open a database for writing that could only be read."""
        try:
            self._store.retry()
        except WinaError as error:
            _log.error("%s", error)

    def _report_problem(self) -> None:
        if self._store is not None and self._store.problem != self._problem:
            self._problem = self._store.problem
            self.unwritable.emit(self._problem)

    def _open(self, url: str | None) -> None:
        """Open a database; raises WinaError and keeps the open one. Imports SQLAlchemy off the main thread."""
        try:
            from wina_core.store import Recorders, Store

            store = Store(url)
        except WinaError:
            raise
        except Exception as error:
            _log.exception("The database could not be opened")
            raise WinaError(unforeseen(error)) from error
        if self._store is not None:  # only now: had the new one failed to open, this one would stay
            self._store.close()
        self._store, self._recorders = store, Recorders(store)
        self.opened.emit(store)

    def _counted(self, receiver: Callable[[Any], None]) -> Callable[[Any], None]:
        def receive(value: Any) -> None:
            # Before the receiver, which may ask whether anything is unanswered.
            self.unanswered -= 1
            receiver(value)

        return receive

    def _opened_store(self) -> Any:
        if self._store is None:
            raise WinaError(self._missing)
        return self._store

    @Slot(object, object)
    def _deliver(self, receiver: Callable[[Any], None], value: Any) -> None:
        receiver(value)
