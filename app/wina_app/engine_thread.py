"""Drives the engine process without ever making the main thread wait for it."""

import queue
from collections.abc import Callable
from typing import Protocol

from PySide6.QtCore import QObject, QThread, Signal

from wina_core.engine.client import EngineClient
from wina_core.engine.protocol import Cancel, Event, Request


class Client(Protocol):
    """What is needed of an EngineClient."""

    @property
    def pid(self) -> int | None:
        """Of the engine process."""

    def start(self) -> None:
        """Start the engine."""

    def send(self, request: Request) -> None:
        """Submit or cancel a job."""

    def stop(self) -> None:
        """End the engine; returns once it is gone."""


class EngineThread(QThread):
    """Starting a process and stopping it take time, so both happen here; events arrive as a signal."""

    event = Signal(object)

    def __init__(
        self, client: Callable[[Callable[[Event], None]], Client] = EngineClient, parent: QObject | None = None
    ) -> None:
        """`client` makes the client, given the function that takes its events."""
        super().__init__(parent)
        self._client = client(self.event.emit)
        self._requests: queue.SimpleQueue[Request | None] = queue.SimpleQueue()

    @property
    def pid(self) -> int | None:
        """The engine's process id; None while there is no engine."""
        return self._client.pid

    def send(self, request: Request) -> None:
        """Submit or cancel; returns at once."""
        self._requests.put(request)

    def cancel(self, job_id: str) -> None:
        """Ask a job to stop; the client sees to it that it does."""
        self.send(Cancel(job_id=job_id))

    def finish(self) -> None:
        """Stop the engine, then this thread; returns at once, `finished` tells when it is done."""
        self._requests.put(None)

    def run(self) -> None:
        """The thread's loop."""
        self._client.start()
        while (request := self._requests.get()) is not None:
            self._client.send(request)
        self._client.stop()
