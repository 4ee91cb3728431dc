"""The one thread on which the window writes its database and does other blocking work: files, hashes, queries."""

import logging
import queue
from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QObject, QThread, Signal, Slot

from wina_core.errors import WinaError, unforeseen

_log = logging.getLogger(__name__)


class StoreThread(QThread):
    """Owns the Store. Tasks are done in the order in which they were given; answers arrive on the main thread."""

    opened = Signal(object)
    """The Store, ready for reading from any thread; writing stays here."""
    failed = Signal(str)
    """The database could not be opened."""
    changed = Signal()
    """Something was stored and no further write waits."""
    _answered = Signal(object, object)

    def __init__(self, url: str | None = None, parent: QObject | None = None) -> None:
        """`url` is an SQLAlchemy URL or a file; None stands for the default database."""
        super().__init__(parent)
        self._url = url
        self._tasks: queue.SimpleQueue[tuple[Callable[[Any], bool], Callable[[str], None]] | None] = queue.SimpleQueue()
        self._answered.connect(self._deliver)

    def ask(
        self,
        question: Callable[[Any], object],
        answer: Callable[[Any], None] = lambda _: None,
        refused: Callable[[str], None] = lambda text: _log.error("%s", text),
    ) -> None:
        """Call `question(store)` here, then `answer` with what it returned, or `refused` with a WinaError's text."""

        def task(store: Any) -> bool:
            try:
                value = question(store)
            except WinaError as error:
                self._answered.emit(refused, str(error))
            except Exception as error:
                _log.exception("A task on the store's thread failed")
                self._answered.emit(refused, f"Unexpected {type(error).__name__}: {error}; the log has the details.")
            else:
                self._answered.emit(answer, value)
            return False

        self._tasks.put((task, refused))

    def write(self, change: Callable[[Any], object], refused: Callable[[str], None]) -> None:
        """Call `change(store)` here; `changed` follows. `refused` gets the text of what went wrong."""

        def task(store: Any) -> bool:
            try:
                change(store)
            except WinaError as error:
                self._answered.emit(refused, str(error))
                return False
            except Exception as error:
                _log.exception("A write to the database failed")
                self._answered.emit(refused, f"A result could not be stored ({type(error).__name__}: {error}).")
                return False
            return True

        self._tasks.put((task, refused))

    def finish(self) -> None:
        """Do what waits, close the database and end the thread; returns when all is on disk."""
        self._tasks.put(None)
        self.wait()

    def run(self) -> None:
        """The thread's loop; SQLAlchemy is imported here, away from the main thread."""
        try:
            from wina_core.store import Store

            store = Store(self._url)
        except WinaError as error:
            self._refuse_everything(str(error))
            return
        except Exception as error:
            _log.exception("The database could not be opened")
            self._refuse_everything(unforeseen(error))
            return
        self.opened.emit(store)
        dirty = False
        while (waiting := self._tasks.get()) is not None:
            dirty |= waiting[0](store)
            if dirty and self._tasks.empty():
                dirty = False
                self.changed.emit()
        store.close()

    def _refuse_everything(self, reason: str) -> None:
        self.failed.emit(reason)
        while (waiting := self._tasks.get()) is not None:
            self._answered.emit(waiting[1], reason)

    @Slot(object, object)
    def _deliver(self, receiver: Callable[[Any], None], value: Any) -> None:
        receiver(value)
