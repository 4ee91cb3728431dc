"""Client of the job host, with the interface of `EnginePool`: of a new host, or of a database's background host."""

import os
import queue
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from pydantic import ValidationError

from wina_core.engine.client.client import SHUTDOWN_GRACE_SECONDS, TERMINATE_GRACE_SECONDS
from wina_core.engine.host.place import Address, Place
from wina_core.errors import WinaError
from wina_core.files.own_command import own_command
from wina_core.files.paths import log_folder
from wina_core.jobs import (
    EVENTS,
    Attached,
    Detach,
    Detached,
    Done,
    Event,
    Failed,
    HostRequest,
    Log,
    Ready,
    Shutdown,
    Submit,
    encode,
)

STOP_SECONDS = SHUTDOWN_GRACE_SECONDS + TERMINATE_GRACE_SECONDS + 3.0
"""Time for the host to stop its engines before it is killed; they end with it."""
CONNECT_SECONDS = 2.0

OnEvent = Callable[[Event], None]


@dataclass(eq=False)
class _Link:
    """Streams to a host, and its process if this program started it."""

    events: IO[bytes]
    requests: IO[bytes]
    process: "subprocess.Popen[bytes] | None" = None
    socket: "socket.socket | None" = None
    outbox: "queue.SimpleQueue[HostRequest | None]" = field(default_factory=queue.SimpleQueue)
    reader: threading.Thread | None = None
    leaving: bool = False
    """True once its end is expected."""


class HostClient:
    """Client of one host.

    `on_event` receives every event on a thread of the client. Every submitted job ends with exactly one Done or Failed,
    unless the client leaves: a host that dies fails its jobs, and the next request starts another host.
    """

    def __init__(self, on_event: OnEvent, open_link: Callable[[], _Link]) -> None:
        """Create a client; `open_link` connects to a host and raises OSError if that fails."""
        self._on_event = on_event
        self._open_link = open_link
        self._lock = threading.RLock()
        self._link: _Link | None = None
        self._detaching = False
        self._jobs: set[str] = set()
        """Ids of the host's jobs."""
        self._pid: int | None = None

    @property
    def pid(self) -> int | None:
        """Process id of the engine that was started last; None while there is none."""
        return self._pid

    def start(self) -> None:
        """Connect to the host before the first request."""
        self._send()

    def send(self, request: HostRequest) -> None:
        """Send a request and return at once, except for Shutdown, which is `stop`."""
        if isinstance(request, Shutdown):
            self.stop()
        else:
            self._send(request)

    def stop(self) -> None:
        """Cancel all jobs of the host, stop its engines, and return once it is dead."""
        with self._lock:
            link = self._link
            if link is None:
                return
            link.leaving = True
            link.outbox.put(Shutdown())
        if link.process is not None:
            try:
                link.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                link.process.kill()
                link.process.wait()
        self._join(link)

    def leave(self) -> None:
        """Close the connection; a background host continues."""
        with self._lock:
            link = self._link
            if link is None:
                return
            link.leaving = True
            self._jobs.clear()
            link.outbox.put(None)
        self._join(link)

    def _join(self, link: _Link) -> None:
        if link.reader is not None and link.reader is not threading.current_thread():
            link.reader.join(STOP_SECONDS)

    # ---- the connection ------------------------------------------------------------------------------------------

    def _send(self, *requests: HostRequest) -> None:
        """Send requests, to a new host if there is none; a job fails if none can be started."""
        submitted = [request.job_id for request in requests if isinstance(request, Submit)]
        try:
            with self._lock:
                if self._link is None:
                    self._link = self._open()
                self._jobs.update(submitted)
                for request in requests:
                    self._detaching |= isinstance(request, Detach)
                    self._link.outbox.put(request)
        except OSError as error:
            message = f"The process that runs jobs could not be started ({error}); check the installation."
            self._on_event(Log(level="error", text=message))
            for job_id in submitted:
                self._on_event(Failed(job_id=job_id, error=message))
            if any(isinstance(request, Detach) for request in requests):
                self._on_event(Detached(error=message))

    def _open(self) -> _Link:
        link = self._open_link()
        threading.Thread(target=_write, args=(link,), name="host requests", daemon=True).start()
        link.reader = threading.Thread(target=self._read, args=(link,), name="host events", daemon=True)
        link.reader.start()
        return link

    def _read(self, link: _Link) -> None:
        with suppress(OSError, ValueError):  # the connection was closed
            for line in link.events:
                try:
                    event = EVENTS.validate_json(line)
                except ValidationError:
                    text = f"The job host sent a line that is no event: {line[:200].decode(errors='replace').strip()}"
                    event = Log(level="error", text=text)
                self._note(event)
                self._on_event(event)
        link.outbox.put(None)
        if link.process is not None and not link.leaving:
            link.process.wait()
        self._on_end(link)

    def _note(self, event: Event) -> None:
        with self._lock:
            match event:
                case Ready():
                    self._pid = event.pid
                case Attached():
                    self._jobs.update(status.submit.job_id for status in event.jobs)
                case Detached():
                    self._detaching = False
                case Done() | Failed():
                    self._jobs.discard(event.job_id)

    def _on_end(self, link: _Link) -> None:
        with self._lock:
            jobs, self._jobs = self._jobs, set()
            detaching, self._detaching = self._detaching, False
            self._link = self._pid = None
        if link.leaving:
            return
        error = (
            "The process that runs jobs was killed from outside, perhaps because memory ran out; finished results are "
            "kept, and starting the job again computes what is missing."
        )
        self._on_event(Log(level="error", text=error))
        self._on_event(Attached(recording=False))  # whoever records must do it again
        for job_id in sorted(jobs):
            self._on_event(Failed(job_id=job_id, error=error))
        if detaching:
            self._on_event(Detached(error=error))


def open_host(on_event: OnEvent, engines: int = 0, database: str | Path | None = None) -> HostClient:
    """Return a client of the database's background host, or of a new one where there is none.

    `engines` is the number of engine processes of a new host, 0 for one on each GPU. A host that takes the place of a
    dead one is always new: the client's program may have another database by then.
    """
    first = iter([database])
    return HostClient(on_event, lambda: next((_find(place) for place in first), None) or _start(engines))


def attach(on_event: OnEvent, database: str | Path | None) -> HostClient | None:
    """Return a client that is attached to the database's background host; None if there is none."""
    link = _find(database)
    if link is None:
        return None
    client = HostClient(on_event, lambda: link)
    client.start()
    return client


def _find(database: str | Path | None) -> _Link | None:
    """Connect to the database's background host; None if there is none, or once one that is ending is gone."""
    deadline = time.monotonic() + STOP_SECONDS
    try:
        while (address := Place(database).find()) is not None and time.monotonic() < deadline:
            if (link := _connect(address)) is not None:
                return link
            time.sleep(0.1)
    except (OSError, WinaError):  # the store reports a database that cannot be opened
        return None
    return None


def _connect(address: Address) -> _Link | None:
    """Connect and say the token; None if the host turns the client away."""
    try:
        connection = socket.create_connection(("127.0.0.1", address.port), CONNECT_SECONDS)
    except OSError:
        return None
    try:
        connection.sendall(f"{address.token}\n".encode())
        greeted = connection.recv(1, socket.MSG_PEEK)
    except OSError:
        greeted = b""
    if not greeted:
        connection.close()
        return None
    connection.settimeout(None)
    return _Link(connection.makefile("rb"), connection.makefile("wb"), socket=connection)


def _start(engines: int) -> _Link:
    """Start a host in a session of its own, which no signal to this program's terminal reaches."""
    with _log() as log:
        process = subprocess.Popen(
            [*own_command("wina_core.engine.host"), str(engines)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),  # Windows: no console beside the window
        )
    assert process.stdin is not None
    assert process.stdout is not None
    return _Link(process.stdout, process.stdin, process)


def _log() -> IO[bytes]:
    try:
        return (log_folder() / "host.log").open("wb", buffering=0)
    except (OSError, WinaError):  # it works without
        return open(os.devnull, "wb", buffering=0)


def _write(link: _Link) -> None:
    """Write requests until None comes; the host takes the end for the end of its client."""
    with suppress(OSError, ValueError):
        while (request := link.outbox.get()) is not None:
            link.requests.write(encode(request).encode())
            link.requests.flush()
    with suppress(OSError, ValueError):
        link.requests.close()
    if link.socket is not None:
        with suppress(OSError):
            link.socket.shutdown(socket.SHUT_RDWR)
