"""Thread that drives the engines, so that the main thread never waits for them."""

import queue
from collections.abc import Callable

from PySide6.QtCore import QObject, QThread, Signal

from wina_core.engine.client.pool import EnginePool, open_engines
from wina_core.engine.protocol import Event, Request


class EngineThread(QThread):
    """Thread that starts and stops the engines' processes; their events arrive as a signal."""

    received = Signal(object)
    """An event of the engines."""

    def __init__(
        self, client: Callable[[Callable[[Event], None]], EnginePool] = open_engines, parent: QObject | None = None
    ) -> None:
        """`client` makes the pool from the receiver of its events; here, since listing the GPUs takes time."""
        super().__init__(parent)
        self._make = client
        self._client: EnginePool | None = None
        self._requests: queue.SimpleQueue[Request | None] = queue.SimpleQueue()

    @property
    def pid(self) -> int | None:
        """Process id of the first engine; None while there is none."""
        return None if self._client is None else self._client.pid

    def send(self, request: Request) -> None:
        """Send a request and return at once."""
        self._requests.put(request)

    def finish(self) -> None:
        """Stop the engines, then this thread; return at once, `finished` follows."""
        self._requests.put(None)

    def run(self) -> None:
        """Run the thread's loop."""
        client = self._client = self._make(self.received.emit)
        client.start()
        while (request := self._requests.get()) is not None:
            client.send(request)
        client.stop()
