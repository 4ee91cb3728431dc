"""A program on a machine, with which lines are exchanged: bounded lines, a bounded log, an end in time."""

import subprocess
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import IO, Self

from wina_core.errors import WinaError
from wina_core.files.version import __version__
from wina_core.remote.machines.ssh import NOT_FOUND, explain_ssh
from wina_core.specs.machine import Machine

_TAIL_LINES, _TAIL_BYTES = 64, 16 * 1024
_TAIL_SECONDS = 1.0
"""Time for the writers of stderr to end once the process has ended."""
_GOODBYE_SECONDS = 5.0
"""Time for the program to end by itself once its input has ended."""


class Tail:
    """The last lines of a process's stderr, whose writers may never stop, or outlive the process."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        """Take the stream from the process: closing it there would wait for all of its writers."""
        stream, process.stderr = process.stderr, None
        assert stream is not None
        self._lines: deque[bytes] = deque(maxlen=_TAIL_LINES)
        self._reader = threading.Thread(target=self._read, args=(stream,), name="stderr of ssh", daemon=True)
        self._reader.start()

    def text(self) -> str:
        """Return the lines once the stream has ended, or after `_TAIL_SECONDS`."""
        self._reader.join(_TAIL_SECONDS)
        return b"".join(self._lines).decode(errors="replace")

    def _read(self, stream: IO[bytes]) -> None:
        for line in iter(lambda: stream.readline(_TAIL_BYTES), b""):
            self._lines.append(line)
        stream.close()


class LineProcess:
    """A connection of ssh to a program, ended by leaving the block."""

    def __init__(self, machine: Machine, command: Sequence[str], not_found: str = "") -> None:
        """`command` is of `ssh_command` or `ssh_program`; `not_found` is the error where the machine lacks a program
        other than wina."""
        self.machine = machine
        self._command = command
        self._not_found = not_found
        self._late = False

    def __enter__(self) -> Self:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(self._command, stdin=pipe, stdout=pipe, stderr=pipe)
        self._stderr = Tail(self._process)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(0.0 if kind else _GOODBYE_SECONDS)
        except subprocess.TimeoutExpired:
            self.end()
        self._process.stdout.close()
        self._stderr.text()

    def end(self) -> None:
        """End the connection at once."""
        self._process.kill()
        self._process.wait()

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """End the connection if the block takes longer."""
        timer = threading.Timer(seconds, self._end_late)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _end_late(self) -> None:
        self._late = True
        self._process.kill()

    def send(self, line: bytes) -> None:
        """Send a line; where the connection has failed, reading says so."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.write(line)
            self._process.stdin.flush()

    def lines(self, most_lines: int, most_bytes: int) -> Iterator[bytes]:
        """Yield lines; raise WinaError at their end, for too many lines and for one that is too long."""
        assert self._process.stdout is not None
        for _ in range(most_lines):
            line = self._process.stdout.readline(most_bytes + 1)
            if not line:
                raise self._failure()
            if len(line) > most_bytes:
                break
            yield line
        self.end()
        raise WinaError(
            f'The machine "{self.machine.name}" sent something other than an answer; check that its command starts '
            "wina and that login scripts there print nothing."
        )

    def _failure(self) -> WinaError:
        """Return the error of a connection that has ended."""
        name = self.machine.name
        if self._late:
            return WinaError(
                f'The machine "{name}" did not answer in time; check the network and its load, then try again.'
            )
        code = self._process.wait()
        stderr = self._stderr.text()
        if "No such command" in stderr:
            return WinaError(
                f'wina on the machine "{name}" is older than this one ({__version__}); update it: wina machines setup '
                f"{name}."
            )
        if code == NOT_FOUND and self._not_found:
            return WinaError(self._not_found)
        return WinaError(explain_ssh(code, stderr, self.machine))
