"""Drives the engines without ever making the main thread wait for them."""

import queue
from collections.abc import Callable

from PySide6.QtCore import QObject, QThread, Signal

from wina_core.engine.client.pool import Client, open_engines
from wina_core.engine.protocol import Cancel, Event, Request


class EngineThread(QThread):
    """Starting a process and stopping it take time, so both happen here; events arrive as a signal."""

    event = Signal(object)

    def __init__(
        self, client: Callable[[Callable[[Event], None]], Client] = open_engines, parent: QObject | None = None
    ) -> None:
        """`client` makes the client, given the function that takes its events; on this thread, since it may have to
        ask which GPUs there are."""
        super().__init__(parent)
        self._make = client
        self._client: Client | None = None
        self._requests: queue.SimpleQueue[Request | None] = queue.SimpleQueue()

    @property
    def pid(self) -> int | None:
        """The engine's process id, of several engines the first one's; None while there is none."""
        return None if self._client is None else self._client.pid

    def send(self, request: Request) -> None:
        """Submit, cancel, pause or resume; returns at once."""
        self._requests.put(request)

    def cancel(self, job_id: str) -> None:
        """Ask a job to stop; the client sees to it that it does."""
        self.send(Cancel(job_id=job_id))

    def finish(self) -> None:
        """Stop the engine, then this thread; returns at once, `finished` tells when it is done."""
        self._requests.put(None)

    def run(self) -> None:
        """The thread's loop."""
        client = self._client = self._make(self.event.emit)
        client.start()
        while (request := self._requests.get()) is not None:
            client.send(request)
        client.stop()
