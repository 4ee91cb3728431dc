"""The job host: one pool of engines, its clients, and the recording of results once no window does it."""

import hmac
import logging
import secrets
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO

from wina_core.engine.client.pool import EnginePool
from wina_core.engine.host.book import JobBook
from wina_core.engine.host.peer import Peer
from wina_core.engine.host.place import Address
from wina_core.errors import WinaError, unforeseen
from wina_core.jobs import (
    Assigned,
    Attached,
    Detach,
    Detached,
    Done,
    Event,
    Failed,
    HostRequest,
    Ready,
    Shutdown,
    Submit,
)

if TYPE_CHECKING:
    from wina_core.engine.host.recording import Recording  # loads SQLAlchemy

TOKEN_SECONDS = 5.0
"""Time for a client on the socket to say the token."""
RETRY_SECONDS = 5.0
"""Interval of storing what a full disk has refused."""
MOST_ADMISSIONS = 8
"""Clients that may be about to say the token; more are turned away."""
STOPPED = "The process that runs jobs was stopped by a signal; starting the job again computes what is missing."
GOODBYE_SECONDS = 5.0
"""Time for the last events to reach the clients."""


class Host:
    """Pool of engines with its clients.

    The first client is the program that started the host, on the standard streams. It records the results, and the
    host ends with it, whatever becomes of it. After Detach the host records them itself and listens on a local port for
    other clients; it ends once nothing is left to do and no client is attached.
    """

    def __init__(self, open_pool: Callable[[Callable[[Event], None]], EnginePool]) -> None:
        self._lock = threading.RLock()
        """Orders requests and events: an event before Detach is the client's to record, one after it the host's."""
        self._book = JobBook()
        self._peers: list[Peer] = []
        self._ready: Ready | None = None
        self._assigned: dict[int, Assigned] = {}
        self._recording: Recording | None = None
        self._over = threading.Event()
        self._interrupted = False
        self._admissions = threading.Semaphore(MOST_ADMISSIONS)
        self._pool = open_pool(self._on_event)

    def serve(self, requests: BinaryIO, events: BinaryIO) -> None:
        """Serve all clients; return once the host has ended and its clients know."""
        self._attend(Peer(requests, events))
        self._pool.start()
        while not self._over.wait(RETRY_SECONDS):
            with self._lock:
                if self._recording is not None:
                    self._recording.retry()
        self._pool.stop()
        with self._lock:
            peers, recording = list(self._peers), self._recording
        for peer in peers:
            peer.close(GOODBYE_SECONDS)
        if recording is not None:
            recording.close()

    def end(self) -> None:
        """Let `serve` stop the engines and return."""
        self._over.set()

    def interrupt(self) -> None:
        """End, and leave the jobs to be resumed."""
        self._interrupted = True
        self.end()

    # ---- events --------------------------------------------------------------------------------------------------

    def _on_event(self, event: Event) -> None:
        """Record an event, then pass it to all clients: a client finds it in the database."""
        with self._lock:
            if isinstance(event, Ready):
                self._ready = event
            elif isinstance(event, Assigned):
                self._assigned[event.engine] = event
            if self._recording is not None:
                self._recording.record(event, interrupted=self._interrupted)
            elif self._interrupted and isinstance(event, Done):  # no cancellation of the client's
                event = Failed(job_id=event.job_id, error=STOPPED)
            self._book.apply(event)
            for peer in self._peers:
                peer.send(event)
            self._end_if_idle()

    def _end_if_idle(self) -> None:
        if not self._peers and (self._recording is None or not self._book):
            self.end()

    # ---- clients -------------------------------------------------------------------------------------------------

    def _attend(self, peer: Peer) -> None:
        """Greet a client and take its requests on a thread of its own; turn it away if the host is ending."""
        with self._lock:
            if self._over.is_set():
                peer.close()
                return
            status = Attached(recording=self._recording is not None, jobs=self._book.jobs)
            known = [self._ready] if self._ready else []
            peer.send(*known, *self._assigned.values(), status)
            self._peers.append(peer)
        threading.Thread(target=self._take_requests, args=(peer,), name="requests", daemon=True).start()

    def _take_requests(self, peer: Peer) -> None:
        try:
            for request in peer.requests():
                self._take(request, peer)
        finally:
            with self._lock:
                self._peers.remove(peer)
                peer.close()
                try:
                    if self._recording is not None:
                        with suppress(WinaError):  # the client may have recorded a beginning after Detach
                            self._recording.adopt([status.submit for status in self._book.jobs])
                finally:
                    self._end_if_idle()

    def _take(self, request: HostRequest, peer: Peer) -> None:
        match request:
            case Detach():
                peer.send(Detached(error=self._detach(request.database)))
            case Shutdown():
                self.end()
            case Submit():
                self._submit(request, peer)
            case _:
                self._pool.send(request)

    def _submit(self, submit: Submit, peer: Peer) -> None:
        with self._lock:
            if (status := self._book.submit(submit)) is not None:
                if self._recording is not None:
                    self._recording.submit(submit)
                for other in self._peers:
                    if other is not peer:
                        other.send(Attached(recording=self._recording is not None, jobs=(status,)))
            self._pool.send(submit)

    # ---- in the background ---------------------------------------------------------------------------------------

    def _detach(self, database: str) -> str:
        """Record from now on, and return the reason if that is not possible."""
        from wina_core.engine.host.recording import Recording

        with self._lock:
            if self._recording is not None:
                return ""
            listener = socket.socket()
            try:
                listener.bind(("127.0.0.1", 0))
                listener.listen()
                address = Address(port=listener.getsockname()[1], token=secrets.token_hex(32))
                recording = Recording(database, address, [status.submit for status in self._book.jobs], self._ready)
            except Exception as error:  # the client must get an answer
                listener.close()
                if isinstance(error, WinaError):
                    return str(error)
                logging.getLogger(__name__).exception("The host cannot record")
                return unforeseen(error)
            self._recording = recording
        threading.Thread(target=self._accept, args=(listener, address.token), name="listener", daemon=True).start()
        return ""

    def _accept(self, listener: socket.socket, token: str) -> None:
        while not self._over.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:  # too many open files, or a client that is gone
                self._over.wait(1.0)
                continue
            if self._admissions.acquire(blocking=False):
                threading.Thread(target=self._admit, args=(connection, token), name="admission", daemon=True).start()
            else:
                connection.close()

    def _admit(self, connection: socket.socket, token: str) -> None:
        """Attend a client that knows the token; close the connection of any other."""
        deadline, said = time.monotonic() + TOKEN_SECONDS, b""
        try:
            while len(said) <= len(token) and (left := deadline - time.monotonic()) > 0:
                connection.settimeout(left)
                if not (part := connection.recv(len(token) + 1 - len(said))):
                    break
                said += part
            connection.settimeout(None)
        except OSError:
            said = b""
        finally:
            self._admissions.release()
        if not hmac.compare_digest(said, f"{token}\n".encode()):
            connection.close()
            return

        def drop() -> None:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

        self._attend(Peer(connection.makefile("rb"), connection.makefile("wb"), drop))
