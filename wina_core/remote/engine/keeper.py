"""Keeper of one engine on a remote machine: it lives as long as its engine, whatever the connection does.

`python -m wina_core.remote.engine.keeper SESSION PLACE COUNT` listens on a Unix socket in the session's folder, which
only this user may enter. What the engine says goes into a spool file, and from there to the one bridge that is
connected; a newer connection takes the place of an older one. A spool that was not delivered outlives the keeper.
"""

import json
import os
import platform
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Literal

import filelock

from wina_core.engine.client.devices import engine_environments
from wina_core.errors import WinaError
from wina_core.files.disk import check_room
from wina_core.files.own_command import own_command
from wina_core.files.paths import data_folder
from wina_core.files.version import PROTOCOL
from wina_core.jobs import Shutdown, encode
from wina_core.remote.engine.frames import SESSION, Frame, Hello, Welcome, parse, read_lines
from wina_core.remote.engine.spool import Spool

IDLE_SECONDS = 300.0
"""Time without a bridge and without a job after which the engine ends."""
KILL_SECONDS = 3.0
"""Time for a terminated engine to exit before it is killed."""
SOCKET = "socket"
"""The socket's name. It is used from inside its folder: the path of a Unix socket has at most 107 bytes."""
ROOM = 10**8
"""Bytes that the disk must have left for what an engine says."""
LOG = "keeper.log"
"""The name of the file with what the keeper itself prints."""
LOST = "-9"
"""Exit code, SIGKILL's, for an engine whose keeper died, as when the machine was started anew."""
_LOCK_SECONDS = 10.0
_PROGRESS = re.compile(r'\{"type":"progress"')
_READY = re.compile(r'\{"type":"ready"')
_END = re.compile(r'\{"type":"(done|failed)"')


def enter_session(session: str) -> None:
    """Make a session's folder, for this user alone, the working folder. Raises WinaError for a bad name, a full disk.

    Its name has this machine's: several machines may share the user's home folder.
    """
    if not re.fullmatch(SESSION, session):
        raise WinaError(f"{session!r} names no session of an engine.")
    check_room(data_folder(), ROOM, "What an engine says takes up to", "free some space there")
    folder = data_folder() / "engines" / f"{session}@{platform.node()}"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.chdir(folder)


class Keeper:
    """The engine of a session, its spool, and the connection to the bridge."""

    def __init__(self, spool: Spool, environment: Mapping[str, str]) -> None:
        """`environment` adds to the engine's environment variables."""
        self._environment = environment
        self._spool = spool
        self._lock = threading.RLock()
        self._engine: subprocess.Popen[bytes] | None = None
        self._watcher: threading.Thread | None = None
        """It lives until the engine's end is in the spool."""
        self._outbox: queue.SimpleQueue[str] = queue.SimpleQueue()
        """Lines for the engine, which may not read them at once."""
        self._ready = ""
        self._job: tuple[str, str] = ("", "")
        """Id and kind of the engine's job."""
        self._requests = 0
        """Number of the bridge's last request."""
        self._connection: socket.socket | None = None
        self._left = time.monotonic()
        """Time at which the last bridge left."""

    def serve(self, listener: socket.socket) -> None:
        """Serve bridges until the engine has ended and nobody waits for its end, or nobody needs it any more."""
        listener.settimeout(1.0)
        while not self._is_over():
            with suppress(TimeoutError):
                connection, _ = listener.accept()
                connection.settimeout(None)
                threading.Thread(target=self._attend, args=(connection,), daemon=True).start()

    def _is_over(self) -> bool:
        with self._lock:
            if self._connection is not None:
                return False
            idle = time.monotonic() - self._left
            if self._watcher is None:
                return idle > _LOCK_SECONDS  # its bridge has not come
            if not self._watcher.is_alive():
                return True
            if idle > IDLE_SECONDS and not self._job[0]:
                self._outbox.put(encode(Shutdown()))
            return False

    # ---- the bridge ----------------------------------------------------------------------------------------------

    def _attend(self, connection: socket.socket) -> None:
        """Serve one connection until it ends or another one takes its place."""
        reading, writing = connection.makefile("rb"), Sender(connection)
        try:
            lines = read_lines(reading)
            hello = parse(Hello, next(lines))
            if hello.protocol != PROTOCOL:
                writing.send(encode(Welcome()).encode())
                return
            with self._lock:
                if self._connection is not None:
                    _close(self._connection)
                self._connection = connection
                welcome = self._greet(hello)
                writing.send(encode(welcome).encode())
            first = max(welcome.first, hello.received + 1)
            threading.Thread(target=self._deliver, args=(writing, first), daemon=True).start()
            for line in lines:
                frame = parse(Frame, line)
                with self._lock:
                    if self._connection is not connection:
                        break
                    self._take(frame, writing)
        except (OSError, ValueError, WinaError, StopIteration):  # the connection is gone or the bridge is no bridge
            pass
        finally:
            writing.close()
            with self._lock:
                if self._connection is connection:
                    self._connection, self._left = None, time.monotonic()

    def _greet(self, hello: Hello) -> Welcome:
        """Make the engine, or the rest of an earlier one, that of this bridge."""
        spool = self._spool
        if hello.client == spool.client:
            spool.acknowledge(hello.received)
            if self._engine is None and not spool.ended:
                spool.add("exit", LOST)
        elif hello.received:  # its spool was lost
            spool.acknowledge(max(spool.last, hello.received))
            spool.take_over(hello.client)
            spool.add("exit", LOST)
        else:
            if self._watcher is not None and self._engine is not None and self._engine.poll() is not None:
                self._watcher.join()  # its end is the earlier bridge's
                self._engine = None
            self._requests = 0
            spool.take_over(hello.client)
            if self._engine is None:
                self._start()
        job, kind = self._job
        return Welcome(
            requests=self._requests, first=spool.first, before=spool.before, ready=self._ready, job=job, job_kind=kind
        )

    def _deliver(self, writing: "Sender", n: int) -> None:
        """Send the frames from `n` on, as they come."""
        spool = self._spool
        while not writing.closed:
            with spool.changed:
                n = max(n, spool.first)
                if spool.last < n:
                    spool.changed.wait(1.0)
                    continue
                line = spool.read(n)
            writing.send(line)
            n += 1

    def _take(self, frame: Frame, writing: "Sender") -> None:
        match frame.kind:
            case "ack":
                self._spool.acknowledge(frame.n)
                if self._spool.ended and self._spool.first > self._spool.last:  # it has everything
                    self._spool.remove()
                    tidy()
                    os._exit(0)
            case "kill":
                self._kill()
            case "request" if frame.n == self._requests + 1:
                self._requests = frame.n
                self._note_request(frame.text)
                self._outbox.put(f"{frame.text}\n")
                writing.send(encode(Frame(kind="ack", n=frame.n)).encode())

    def _note_request(self, text: str) -> None:
        with suppress(ValueError, KeyError, TypeError):
            request = json.loads(text)
            if request["type"] == "submit":
                self._job = str(request["job_id"]), str(request["job"]["kind"])

    # ---- the engine ----------------------------------------------------------------------------------------------

    def _start(self) -> None:
        pipe = subprocess.PIPE
        engine = subprocess.Popen(
            own_command("wina_core.engine"),
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            env=os.environ | self._environment,
        )
        assert engine.stdin is not None
        assert engine.stdout is not None
        assert engine.stderr is not None
        self._engine, self._ready, self._job, self._outbox = engine, "", ("", ""), queue.SimpleQueue()
        threading.Thread(target=_write, args=(self._outbox, engine.stdin), daemon=True).start()
        log = threading.Thread(target=self._spool_lines, args=(engine.stderr, "log"), daemon=True)
        log.start()
        self._watcher = threading.Thread(target=self._watch, args=(engine, engine.stdout, log), daemon=True)
        self._watcher.start()

    def _watch(self, engine: "subprocess.Popen[bytes]", events: IO[bytes], log: threading.Thread) -> None:
        """Spool events until the engine exits, and then its end."""
        self._spool_lines(events, "event")
        code = engine.wait()
        log.join(timeout=1.0)
        self._spool.add("exit", str(code))

    def _spool_lines(self, lines: IO[bytes], kind: Literal["event", "log"]) -> None:
        for line in lines:
            text = line.decode(errors="replace").rstrip("\r\n")
            if kind == "event" and _READY.match(text):
                self._ready = text
            elif kind == "event" and _END.match(text):
                self._job = ("", "")
            if self._connection is not None or not _PROGRESS.match(text):  # which nobody reads later
                self._spool.add(kind, text)

    def _kill(self) -> None:
        engine = self._engine
        if engine is not None:
            engine.terminate()
            timer = threading.Timer(KILL_SECONDS, engine.kill)
            timer.daemon = True
            timer.start()


class Sender:
    """Writing side of a connection, used by several threads."""

    def __init__(self, connection: socket.socket) -> None:
        self.closed = False
        self._connection = connection
        self._lock = threading.Lock()

    def send(self, line: bytes) -> None:
        """Send a line; a connection that is gone is closed."""
        try:
            with self._lock:
                self._connection.sendall(line)
        except OSError:
            self.close()

    def close(self) -> None:
        """End the connection."""
        self.closed = True
        _close(self._connection)


def _write(outbox: "queue.SimpleQueue[str]", stdin: IO[bytes]) -> None:
    """Write lines to the engine until it is dead; then its end follows."""
    with suppress(OSError):
        while True:
            stdin.write(outbox.get().encode())
            stdin.flush()


def tidy() -> None:
    """Remove what a session leaves beside its spool; the log stays if it says anything."""
    Path(SOCKET).unlink(missing_ok=True)
    log = Path(LOG)
    with suppress(OSError):
        if not log.stat().st_size:
            log.unlink()


def _close(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


def main() -> int:
    """Keep the engine of the session that the command names; return at once if it has a keeper."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    enter_session(sys.argv[1])
    lock = filelock.FileLock("lock")
    try:
        lock.acquire(timeout=_LOCK_SECONDS)
    except filelock.Timeout:
        return 0
    Path(SOCKET).unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(SOCKET)
        listener.listen()
        place, count = map(int, sys.argv[2:4])
        environment = engine_environments(count)[place]
        Keeper(Spool(Path("events")), environment).serve(listener)
        tidy()
    return 0


if __name__ == "__main__":
    code = main()
    os._exit(code)  # at once: a thread that still reads must not keep the process alive
