"""Connection of the job host to one client: JSON lines both ways."""

import logging
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import BinaryIO

from pydantic import ValidationError

from wina_core.jobs import HOST_REQUESTS, HostRequest, Message, encode

_MOST_WAITING = 100_000
"""Messages that may wait for a client which does not read; beyond that it is dropped."""


class Peer:
    """One client of the host. Sending never waits for the client."""

    def __init__(self, requests: BinaryIO, events: BinaryIO, drop: Callable[[], object] | None = None) -> None:
        """Create the connection; `drop` breaks it at once. Without it the client is the one that records the results,
        which is never dropped."""
        self._requests = requests
        self._drop = drop
        self._outbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._writer = threading.Thread(target=self._write, args=(events,), name="events", daemon=True)
        self._writer.start()

    def send(self, *messages: Message) -> None:
        """Send messages soon."""
        if self._drop is not None and self._outbox.qsize() > _MOST_WAITING:
            self._drop()
            return
        for message in messages:
            self._outbox.put(encode(message).encode())

    def close(self, patience: float = 0.0) -> None:
        """Close the connection once everything is sent, and wait `patience` seconds for that."""
        self._outbox.put(None)
        if patience:
            self._writer.join(patience)

    def requests(self) -> Iterator[HostRequest]:
        """Yield requests until the client is gone; a line that is no request is logged and passed over."""
        with suppress(OSError, ValueError):  # the connection was closed
            for line in self._requests:
                try:
                    yield HOST_REQUESTS.validate_json(line)
                except ValidationError as error:
                    faults = error.errors(include_input=False, include_url=False)  # the input may have a password
                    logging.getLogger(__name__).error("A request could not be read: %s", faults)

    def _write(self, events: BinaryIO) -> None:
        with suppress(OSError, ValueError):
            while (line := self._outbox.get()) is not None:
                events.write(line)
                events.flush()
        with suppress(OSError, ValueError):
            events.close()
        if self._drop is not None:
            with suppress(OSError):
                self._drop()
