"""The actor that holds an engine's process on a node.

Ray sends this module's code to the nodes, so it imports nothing but the standard library: a node whose program has
another version, or none, can say so.
"""

import platform
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import IO

LONGEST_LINE = 64 * 2**20
"""Bytes of a line; a longer one is passed on in pieces, which are no events."""
_MOST_LINES = 1000
"""Lines that wait for the driver; with more, the engine waits."""
_GATHER_SECONDS = 0.002
"""Time for further lines to come along with the first one."""


def check_version(version: str) -> str:
    """Return the reason why this node cannot run an engine of a version of the program; empty if it can."""
    here = f"node {socket.gethostname()}"
    try:
        from wina_core.files.version import __version__ as found
    except ImportError as error:
        return (
            f"On {here} the program cannot be imported by {sys.executable} ({error}); install wina-workbench {version} "
            "in the Python that Ray runs with there."
        )
    if found != version:
        return f"On {here} wina-workbench has version {found}, here {version}; install the same version on both."
    return ""


class NodeEngine:
    """One engine process on this node, of which Ray calls the methods from several threads."""

    def __init__(self) -> None:
        self._lines: queue.Queue[tuple[bool, bytes] | None] = queue.Queue(_MOST_LINES)
        self._open = 2

    def start(self, version: str, command: list[str] | None) -> dict[str, str]:
        """Start the engine; return the node's id and host name, and as `error` the reason where none can be started."""
        import ray

        error = check_version(version)
        if not error:
            try:
                self._start(command)
            except OSError as caught:
                error = f"The engine could not be started on node {socket.gethostname()} ({caught})."
        return {"node": ray.get_runtime_context().get_node_id(), "host": socket.gethostname(), "error": error}

    def _start(self, command: list[str] | None) -> None:
        if command is None:
            from wina_core.files.own_command import own_command

            command = list(own_command("wina_core.engine"))
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for is_log, stream in ((False, self._process.stdout), (True, self._process.stderr)):
            assert stream is not None
            threading.Thread(target=self._follow, args=(is_log, stream), daemon=True).start()

    def _follow(self, is_log: bool, stream: IO[bytes]) -> None:
        for line in iter(lambda: stream.readline(LONGEST_LINE), b""):
            self._lines.put((is_log, line))
        self._lines.put(None)

    def read(self, seconds: float) -> tuple[list[str], list[str], int | None]:
        """Wait for lines, at most so many seconds; return events, log, and once all were read the exit code."""
        found: list[tuple[bool, bytes] | None] = []
        with suppress(queue.Empty):
            found.append(self._lines.get(timeout=seconds))
            time.sleep(_GATHER_SECONDS)
            while len(found) < _MOST_LINES:
                found.append(self._lines.get_nowait())
        self._open -= found.count(None)
        out, log = (_texts(item for item in found if item is not None and item[0] == is_log) for is_log in (0, 1))
        return out, log, None if self._open else self._process.wait()

    def write(self, text: str) -> None:
        """Write to the engine's standard input; an engine that has ended reads nothing."""
        stdin = self._process.stdin
        assert stdin is not None
        with suppress(OSError):
            stdin.write(text.encode())
            stdin.flush()

    def terminate(self) -> None:
        """Send SIGTERM to the engine."""
        with suppress(OSError):
            self._process.send_signal(signal.SIGTERM)


def _texts(lines: Iterable[tuple[bool, bytes]]) -> list[str]:
    return [line.decode(errors="replace") for _, line in lines]


def describe_node(version: str) -> dict[str, str]:
    """Return this node's host name and Python version, and as `error` the reason why it can run no engine."""
    return {"host": socket.gethostname(), "python": platform.python_version(), "error": check_version(version)}
