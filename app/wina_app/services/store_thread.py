"""The one thread on which the window writes its database and does other blocking work: files, hashes, queries."""

import logging
import math
import queue
import time
from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QObject, QThread, Signal, Slot

from wina_app.style.translation import tr
from wina_core.errors import WinaError, unforeseen

CHANGED_SECONDS = 1.0
"""Least time between two times that the store's change is told."""

_log = logging.getLogger(__name__)


class Pace:
    """When changes are told: once the work is at rest, but never twice within CHANGED_SECONDS, and no later than that
    after a change. Pure, the clock is an argument."""

    def __init__(self) -> None:
        self._since: float | None = None
        """Of the first change that was not told."""
        self._told = -math.inf

    def change(self, now: float) -> None:
        """Something has changed."""
        self._since = now if self._since is None else self._since

    def patience(self, now: float) -> float | None:
        """Seconds after which a change is to be told even if nothing happens until then; None for no change."""
        return None if self._since is None else max(0.0, self._told + CHANGED_SECONDS - now)

    def tells(self, now: float, *, at_rest: bool) -> bool:
        """Whether to tell now; what is told is told no more."""
        if self._since is None or now < self._told + CHANGED_SECONDS:
            return False
        if not at_rest and now < self._since + CHANGED_SECONDS:
            return False
        self._since, self._told = None, now
        return True


class StoreThread(QThread):
    """Owns the Store. Tasks are done in the order in which they were given; answers arrive on the main thread."""

    opened = Signal(object)
    """The Store, ready for reading from any thread; writing stays here. Again after `switch`."""
    failed = Signal(str)
    """The database could not be opened."""
    changed = Signal()
    """Something was stored: told once what waits is written too, and at most every CHANGED_SECONDS, so that whatever
    follows the store shows results as they land and keeps up with them."""
    _answered = Signal(object, object)

    def __init__(self, url: str | None = None, parent: QObject | None = None) -> None:
        """`url` is an SQLAlchemy URL or a file; None stands for the default database."""
        super().__init__(parent)
        self._url = url
        self._store: Any = None
        self._missing = ""
        """Why there is no store."""
        self.unanswered = 0
        """Questions whose answers have not arrived on the main thread, from which they are asked."""
        self._tasks: queue.SimpleQueue[Callable[[], bool] | None] = queue.SimpleQueue()
        self._answered.connect(self._deliver)

    def ask(
        self,
        question: Callable[[Any], object],
        answer: Callable[[Any], None] = lambda _: None,
        refused: Callable[[str], None] = lambda text: _log.error("%s", text),
    ) -> None:
        """Call `question(store)` here, then `answer` with what it returned, or `refused` with a WinaError's text."""
        self.unanswered += 1
        answer, refused = self._counted(answer), self._counted(refused)

        def task() -> bool:
            try:
                value = question(self._opened_store())
            except WinaError as error:
                self._answered.emit(refused, str(error))
            except Exception as error:
                _log.exception("A task on the store's thread failed")
                text = tr(
                    "Unexpected {kind}: {error}; the log has the details.", kind=type(error).__name__, error=error
                )
                self._answered.emit(refused, text)
            else:
                self._answered.emit(answer, value)
            return False

        self._tasks.put(task)

    def write(self, change: Callable[[Any], object], refused: Callable[[str], None]) -> None:
        """Call `change(store)` here; `changed` follows. `refused` gets the text of what went wrong."""

        def task() -> bool:
            try:
                change(self._opened_store())
            except WinaError as error:
                self._answered.emit(refused, str(error))
                return False
            except Exception as error:
                _log.exception("A write to the database failed")
                text = tr("A result could not be stored ({kind}: {error}).", kind=type(error).__name__, error=error)
                self._answered.emit(refused, text)
                return False
            return True

        self._tasks.put(task)

    def switch(self, url: str, refused: Callable[[str], None]) -> None:
        """Go over to another database once what waits is done; `opened` and `changed` follow. One that cannot be opened
        leaves everything as it is."""

        def task() -> bool:
            try:
                self._open(url)
            except WinaError as error:
                self._answered.emit(refused, str(error))
                return False
            return True

        self._tasks.put(task)

    def finish(self) -> None:
        """Do what waits, close the database and end the thread; returns when all is on disk."""
        self._tasks.put(None)
        self.wait()

    def run(self) -> None:
        """The thread's loop."""
        try:
            self._open(self._url)
        except WinaError as error:
            self._missing = str(error)
            self.failed.emit(self._missing)
        pace = Pace()
        while True:
            try:
                task = self._tasks.get(timeout=pace.patience(time.monotonic()))
            except queue.Empty:
                pass
            else:
                if task is None:
                    break
                if task():
                    pace.change(time.monotonic())
            if pace.tells(time.monotonic(), at_rest=self._tasks.empty()):
                self.changed.emit()
        if self._store is not None:
            self._store.close()

    def _open(self, url: str | None) -> None:
        """SQLAlchemy is imported here, away from the main thread. Raises WinaError, and keeps what was open."""
        try:
            from wina_core.store import Store

            store = Store(url)
        except WinaError:
            raise
        except Exception as error:
            _log.exception("The database could not be opened")
            raise WinaError(unforeseen(error)) from error
        if self._store is not None:
            self._store.close()
        self._store = store
        self.opened.emit(store)

    def _counted(self, receiver: Callable[[Any], None]) -> Callable[[Any], None]:
        def receive(value: Any) -> None:
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
