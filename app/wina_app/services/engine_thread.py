"""Thread that drives the engines, so that the main thread never waits for them."""

import queue
from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QThread, Signal

from wina_core.jobs import Event, HostRequest

if TYPE_CHECKING:  # SQLAlchemy, which the client needs to find its host, takes 0.3 s to import: only this thread does
    from wina_core.engine.host.client import HostClient


class EngineThread(QThread):
    """Thread that starts and stops the engines' processes; their events arrive as a signal."""

    received = Signal(object)
    """An event of the engines."""

    def __init__(
        self, client: "Callable[[Callable[[Event], None]], HostClient]", parent: QObject | None = None
    ) -> None:
        """Create the thread; `client` makes the host's client from the receiver of its events."""
        super().__init__(parent)
        self._make = client
        self._client: HostClient | None = None
        self._requests: queue.SimpleQueue[HostRequest | None] = queue.SimpleQueue()
        self._leaving = False

    @property
    def pid(self) -> int | None:
        """Process id of the first engine; None while there is none."""
        return None if self._client is None else self._client.pid

    def send(self, request: HostRequest) -> None:
        """Send a request and return at once."""
        self._requests.put(request)

    def finish(self) -> None:
        """Stop the engines, then this thread; return at once, `finished` follows."""
        self._requests.put(None)

    def leave(self) -> None:
        """Leave the engines to the background host, then stop this thread; return at once, `finished` follows."""
        self._leaving = True
        self.finish()

    def run(self) -> None:
        """Run the thread's loop."""
        client = self._client = self._make(self.received.emit)
        client.start()
        while (request := self._requests.get()) is not None:
            client.send(request)
        if self._leaving:
            client.leave()
        else:
            client.stop()
