"""An engine's process on a node, as its client sees it, and the driver that reaches it."""

import itertools
import queue
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from io import RawIOBase
from typing import IO, cast

from pydantic import ValidationError

from wina_core.engine.client.engine_log import default_log_file
from wina_core.errors import WinaError
from wina_core.files.own_command import own_command
from wina_core.jobs import encode
from wina_core.remote.cluster.ray.messages import (
    REPORTS,
    Connect,
    Connected,
    Exited,
    Open,
    Order,
    Output,
    Placed,
    Refused,
    Report,
    Resources,
    Signal,
    Waits,
    Write,
)

_CONNECT_SECONDS = 180.0
"""Time for Ray to connect and for the nodes to answer."""
_KILL_SECONDS = 2.0
"""Time for the driver to report the end of an engine that it killed."""
_GONE = -15
"""Exit code of an engine whose driver is gone."""


class RayProcess:
    """An engine's process on some node, with what its client uses of a `subprocess.Popen`."""

    def __init__(self, number: int, send: Callable[[Order], None], on_wait: Callable[[str], None]) -> None:
        self.pid = number
        """Its number at the driver: process ids of several nodes may be equal."""
        self.node = ""
        """Id of its node, once it was placed."""
        self.end: Exited | None = None
        self.stdout, self.stderr = _Lines(), _Lines()
        self.stdin = cast(IO[bytes], _Requests(number, send))
        self._send, self._on_wait = send, on_wait
        self._ended = threading.Event()

    def take(self, report: Report) -> None:
        """Take a report of the driver."""
        match report:
            case Placed():
                self.node = report.node
                self.stderr.put(f"The engine runs on node {report.host}.")
            case Waits():
                self._on_wait(report.reason)
            case Output():
                self.stdout.put(*report.out)
                self.stderr.put(*report.log)
            case Exited():
                self.finish(report)

    def finish(self, end: Exited) -> None:
        """End, once."""
        if self.end is None:
            self.end = end
            self._ended.set()
            self.stdout.close()
            self.stderr.close()

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code; raise subprocess.TimeoutExpired if it does not end in time."""
        if not self._ended.wait(timeout) or self.end is None:
            raise subprocess.TimeoutExpired("engine", timeout or 0.0)
        return self.end.code

    def terminate(self) -> None:
        """Send SIGTERM."""
        self._send(Signal(engine=self.pid, kill=False))

    def kill(self) -> None:
        """End the engine and its actor, here at the latest after a while."""
        self._send(Signal(engine=self.pid, kill=True))
        timer = threading.Timer(_KILL_SECONDS, self.finish, args=(Exited(engine=self.pid, code=-9),))
        timer.daemon = True
        timer.start()


class _Lines:
    """Lines that come from another thread, which limits their length."""

    def __init__(self) -> None:
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()

    def put(self, *lines: str) -> None:
        for line in lines:
            self._lines.put(line.encode(errors="replace"))

    def close(self) -> None:
        self._lines.put(None)

    def readline(self, _limit: int, /) -> bytes:
        return self._lines.get() or b""


class _Requests(RawIOBase):
    """The standard input of an engine."""

    def __init__(self, number: int, send: Callable[[Order], None]) -> None:
        self._number, self._send_order = number, send

    def write(self, data: bytes) -> int:  # type: ignore[override]  # whole lines of UTF-8 alone
        self._send_order(Write(engine=self._number, text=data.decode()))
        return len(data)


class RayDriver:
    """The driver's process, which holds the actors of all engines of one pool.

    Raises WinaError if there is no cluster at the address or none of its nodes can run an engine.
    """

    def __init__(self, address: str, resources: Resources, command: tuple[str, ...] | None = None) -> None:
        self._address = address
        self._numbers = itertools.count(1)
        self._engines: dict[int, RayProcess] = {}
        self._lock = threading.Lock()
        self._gone = False
        with default_log_file().with_name("ray.log").open("ab") as log:
            self._process = subprocess.Popen(
                own_command("wina_core.remote.cluster.ray"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,  # what a terminal sends to its whole group is for this process
            )
        self.connected = self._connect(Connect(address=address, resources=resources, command=command))
        threading.Thread(target=self._listen, name="ray driver", daemon=True).start()

    def _connect(self, order: Connect) -> Connected:
        timer = threading.Timer(_CONNECT_SECONDS, self._process.kill)
        timer.start()
        self.send(order)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        timer.cancel()
        answer = REPORTS.validate_json(line) if line else None
        if isinstance(answer, Connected):
            return answer
        self.stop()
        if isinstance(answer, Refused):
            raise WinaError(answer.error)
        raise WinaError(
            f"Ray did not connect to the cluster at {self._address}; the log folder's file ray.log names the cause. "
            f"Check the cluster with: ray status --address={self._address}"
        )

    def send(self, order: Order) -> None:
        """Send an order; a driver that is gone takes none."""
        stdin = self._process.stdin
        assert stdin is not None
        with self._lock, suppress(OSError, ValueError):
            stdin.write(encode(order).encode())
            stdin.flush()

    def open(self, avoid: str, on_wait: Callable[[str], None]) -> RayProcess:
        """Start an engine on some node, none of which its client found unfit."""
        process = RayProcess(next(self._numbers), self.send, on_wait)
        with self._lock:
            gone = self._gone
            if not gone:
                self._engines[process.pid] = process
        if gone:
            process.finish(self._end(process.pid))
        else:
            self.send(Open(engine=process.pid, avoid=avoid))
        return process

    def stop(self) -> None:
        """End the driver, and with it all actors."""
        with self._lock:
            self._gone = True
            with suppress(OSError):
                cast(IO[bytes], self._process.stdin).close()
        try:
            self._process.wait(_KILL_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _listen(self) -> None:
        """Pass reports on until the driver exits."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with suppress(ValidationError):  # nothing but our own process writes here
                report = REPORTS.validate_json(line)
                if not isinstance(report, Connected | Refused) and report.engine in self._engines:
                    self._engines[report.engine].take(report)
                    if isinstance(report, Exited):
                        del self._engines[report.engine]
        with self._lock:
            self._gone = True
            left = list(self._engines.values())
        for process in left:
            process.finish(self._end(process.pid))

    def _end(self, number: int) -> Exited:
        """Return the end of an engine whose driver is gone."""
        return Exited(
            engine=number,
            code=_GONE,
            cause="was lost with the Ray cluster",
            refused=f"The Ray cluster at {self._address} was lost; finished results are kept. Start the cluster again "
            "(ray start --head), then the command.",
        )
