"""Connection to a keeper that is made again whenever it ends: each line arrives once, in order, in both directions."""

import secrets
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import IO

from wina_core.errors import WinaError
from wina_core.jobs import encode
from wina_core.jobs.message import Message
from wina_core.remote.engine.frames import Breach, Frame, Hello, Welcome, check_protocol, parse, read_lines
from wina_core.remote.machines.line_process import Tail
from wina_core.remote.machines.ssh import FAILED, is_cut

RETRY_SECONDS = (0.2, 0.5, 1.0, 2.0, 4.0)
"""Waits between attempts to connect; the last one repeats."""
FIRST_ATTEMPTS = 3
"""Attempts to connect for the first time, where the connection is cut and not refused."""
WELCOME_SECONDS = 60.0
"""Time for a keeper to answer; it may have to be started, on a slow disk."""
_END_SECONDS = 1.0
_SILENCE = "timed out without an answer"
_GREETING_LINES = 100
"""Lines that a shell there may print before the keeper's first one."""


class Link:
    """The numbered lines between this process and a keeper."""

    def __init__(
        self,
        command: Sequence[str],
        explain: Callable[[int, str], str],
        on_welcome: Callable[[Welcome], None],
        on_frame: Callable[[Frame], None],
        on_lost: Callable[[str], None],
    ) -> None:
        """Create a link; all functions are called by the thread in `run`.

        `command` connects its streams to the keeper; `explain` says why it ended, from its exit code and stderr.
        `on_welcome` is called at each connection, `on_frame` for each new frame, `on_lost` with the reason when a
        connection has ended.
        """
        self._command = list(command)
        self._explain = explain
        self._on_welcome = on_welcome
        self._on_frame = on_frame
        self._on_lost = on_lost
        self._client = secrets.token_hex(8)
        self._changed = threading.Condition()
        self._requests: deque[Frame] = deque()
        """Requests that the keeper has not acknowledged."""
        self._last_request = 0
        self.received = 0
        """Number of the last frame that has come."""
        self._handled = 0
        """Number of the last frame that `on_frame` has taken, which is acknowledged."""
        self._kills = False
        self._closed = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None

    def send(self, text: str) -> None:
        """Send a request, now or once there is a connection."""
        with self._changed:
            self._last_request += 1
            self._requests.append(Frame(kind="request", n=self._last_request, text=text))
            self._changed.notify_all()

    def kill(self) -> None:
        """Have the engine ended by force, now or once there is a connection."""
        with self._changed:
            self._kills = True
            self._changed.notify_all()

    def finish(self, n: int, seconds: float) -> None:
        """Acknowledge the last frame while it is being handled, and give the keeper so many seconds to end."""
        with self._changed:
            self._handled = n
            self._changed.notify_all()
        if (process := self._process) is not None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(seconds)

    def close(self) -> None:
        """End the connection for good; the keeper and its engine continue."""
        self._closed.set()
        if (process := self._process) is not None:
            with suppress(OSError):
                process.terminate()

    def run(self) -> None:
        """Connect, and again whenever the connection ends, until `close`.

        Raises WinaError if there is no first connection, and for a keeper of another version; Breach for one that
        breaks the rules.
        """
        failures, reached = 0, False
        while not self._closed.is_set():
            connected, cut, reason = self._connect()
            reached |= connected
            failures = 0 if connected else failures + 1
            if self._closed.is_set():
                return
            if reached:
                self._on_lost(reason)
            elif not cut or failures == FIRST_ATTEMPTS:
                raise WinaError(reason)
            self._closed.wait(RETRY_SECONDS[min(failures, len(RETRY_SECONDS) - 1)])

    def _connect(self) -> tuple[bool, bool, str]:
        """Serve one connection until it ends; return whether there was one, whether it was cut, and why it ended."""
        pipe = subprocess.PIPE
        with subprocess.Popen(self._command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            stderr, silent = Tail(process), threading.Event()
            self._process = process
            patience = threading.Timer(WELCOME_SECONDS, _give_up, args=(process, silent))
            patience.daemon = True
            patience.start()
            ended = threading.Event()
            connected = False
            try:
                if not self._closed.is_set():
                    _put(process.stdin, Hello(client=self._client, received=self.received))
                    connected = self._serve(process.stdin, process.stdout, ended, patience)
            except OSError:
                pass
            finally:
                patience.cancel()
                ended.set()
                with self._changed:
                    self._changed.notify_all()
                _end(process)
            said = f"{stderr.text()}\n{_SILENCE if silent.is_set() else ''}".strip()
            code = FAILED if silent.is_set() else process.returncode
            return connected, is_cut(code, said), self._explain(code, said)

    def _serve(self, stdin: IO[bytes], stdout: IO[bytes], ended: threading.Event, patience: threading.Timer) -> bool:
        """Exchange frames; return whether the keeper has answered."""
        lines = read_lines(stdout)
        for _, line in zip(range(_GREETING_LINES), lines, strict=False):
            if line.startswith(b'{"protocol"'):
                break
        else:
            return False
        patience.cancel()
        welcome = parse(Welcome, line)
        check_protocol(welcome, "there")
        with self._changed:
            self._drop_requests(welcome.requests)
        if not self.received:
            self.received = self._handled = welcome.first - 1
        self._on_welcome(welcome)
        writer = threading.Thread(target=self._write, args=(stdin, welcome.requests, ended), daemon=True)
        writer.start()
        try:
            for line in lines:
                self._take(parse(Frame, line))
        except Breach:
            self.kill()
            writer.join(_END_SECONDS)  # it never ends by itself: this is the time to send that
            raise
        return True

    def _take(self, frame: Frame) -> None:
        if frame.kind == "ack":
            with self._changed:
                self._drop_requests(frame.n)
        elif frame.n > self.received + 1:
            raise Breach("a line out of order")
        elif frame.n == self.received + 1:
            self.received = frame.n
            self._on_frame(frame)
            with self._changed:
                self._handled = frame.n
                self._changed.notify_all()

    def _drop_requests(self, n: int) -> None:
        while self._requests and self._requests[0].n <= n:
            self._requests.popleft()

    def _write(self, stdin: IO[bytes], sent: int, ended: threading.Event) -> None:
        """Send requests behind number `sent`, and acknowledge what is received, until the connection ends."""
        acknowledged, killed = self._handled, False
        with suppress(OSError, ValueError):
            while not ended.is_set():
                with self._changed:
                    found = [frame for frame in self._requests if frame.n > sent]
                    if not (found or self._handled > acknowledged or (self._kills and not killed)):
                        self._changed.wait()
                        continue
                    received, kills = self._handled, self._kills
                if kills and not killed:
                    found.insert(0, Frame(kind="kill", n=0))
                if received > acknowledged:
                    found.append(Frame(kind="ack", n=received))
                _put(stdin, *found)
                sent = max([sent, *(frame.n for frame in found if frame.kind == "request")])
                acknowledged, killed = received, kills


def _put(stdin: IO[bytes], *messages: Message) -> None:
    stdin.write("".join(map(encode, messages)).encode())
    stdin.flush()


def _give_up(process: "subprocess.Popen[bytes]", silent: threading.Event) -> None:
    silent.set()
    process.kill()


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End a command whose connection is over; it may have ended, or may hang."""
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    with suppress(OSError):  # only now: a thread may have been writing to it
        assert process.stdin is not None
        process.stdin.close()
