"""Actions that run one after the other on one thread."""

import logging
import queue
import threading
from collections.abc import Callable


class Inbox:
    """Queue of actions with a thread of its own, which starts with the first action and ends after `close`.

    It calls `idle` after every action, and after `seconds` without one.
    """

    def __init__(self, idle: Callable[[], None], seconds: float) -> None:
        self._idle = idle
        self._seconds = seconds
        self._actions: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._posting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closing = False

    def post(self, action: Callable[[], None]) -> None:
        """Put an action into the queue."""
        with self._posting:
            self._actions.put(action)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="engine pool", daemon=True)
                self._thread.start()

    def close(self, last: Callable[[], None]) -> None:
        """Run a `last` action, and what is posted until it returns; wait for the end of the thread, if there is one."""
        thread = self._thread
        if thread is None:
            return

        def end() -> None:
            last()
            self._closing = True

        self.post(end)
        if thread is not threading.current_thread():
            thread.join()

    def _work(self) -> None:
        while True:
            try:
                action = self._actions.get(timeout=self._seconds)
            except queue.Empty:
                action = self._idle
            for each in (action, self._idle):
                try:
                    each()
                except Exception:  # one defect must not cost the jobs that follow
                    logging.getLogger(__name__).exception("The engine pool failed to handle a request or an event")
            with self._posting:
                if self._closing and self._actions.empty():
                    self._thread, self._closing = None, False
                    return
