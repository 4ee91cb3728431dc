"""Thread that drives the engines, so that the main thread never waits for them."""

import queue
from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QThread, Signal

from wina_core.jobs import Event, Request

if TYPE_CHECKING:
    from wina_core.engine.client.pool import EnginePool


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
        """Send a request and return at once."""
        self._requests.put(request)

    def finish(self) -> None:
        """Stop the engines, then this thread; return at once, `finished` follows."""
        self._requests.put(None)

    def run(self) -> None:
        """Run the thread's loop."""
        pool = self._pool = self._open_pool(self.received.emit)
        pool.start()
        while (request := self._requests.get()) is not None:
            pool.send(request)
        pool.stop()
