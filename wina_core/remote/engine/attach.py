"""Connection of ssh's streams to the keeper of a session, which is started if there is none."""

import os
import socket
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path

from wina_core.errors import WinaError
from wina_core.files.own_command import own_command
from wina_core.remote.engine.keeper import LOG, SOCKET, enter_session

START_SECONDS = 30.0
"""Time for a keeper to listen; an earlier one that ends may delay it."""
_BLOCK = 1 << 16


def attach(session: str, place: int, count: int) -> None:
    """Pass the bytes of the standard streams to and from the session's keeper until either side ends.

    The engine of a new keeper is the one at `place` among `count` that share the machine, its own GPU where there are
    enough. Raises WinaError if there can be no keeper.
    """
    if not hasattr(socket, "AF_UNIX"):
        raise WinaError("Engines are kept on Linux and macOS only; this machine has no Unix sockets.")
    enter_session(session)
    hello = b""
    while b"\n" not in hello:
        if not (block := os.read(0, _BLOCK)):
            return
        hello += block
    connection, answer = _connect(hello, session, place, count)
    threading.Thread(target=_receive, args=(connection, answer), daemon=True).start()
    with suppress(OSError):
        while block := os.read(0, _BLOCK):
            connection.sendall(block)
    os._exit(0)


def _receive(connection: socket.socket, block: bytes) -> None:
    with suppress(OSError):
        while block:
            while block:
                block = block[os.write(1, block) :]
            block = connection.recv(_BLOCK)
    os._exit(0)  # the other thread waits for input that nobody would take


def _connect(hello: bytes, session: str, place: int, count: int) -> tuple[socket.socket, bytes]:
    """Connect to the keeper and return its first bytes, which answer `hello`; start one where there is none."""
    deadline, keeper = time.monotonic() + START_SECONDS, None
    while True:
        connection, fault = socket.socket(socket.AF_UNIX), "its keeper closed the connection"
        connection.settimeout(START_SECONDS)
        try:
            connection.connect(SOCKET)
            connection.sendall(hello)
            if answer := connection.recv(_BLOCK):  # none where it was about to end
                connection.settimeout(None)
                return connection, answer
        except OSError as error:
            fault = str(error)
        connection.close()
        if time.monotonic() > deadline or (keeper is not None and keeper.poll()):
            raise WinaError(f"The engine could not be kept there: {_last_line() or fault}")
        if keeper is None or keeper.poll() is not None:
            keeper = _start(session, place, count)
        time.sleep(0.05)


def _start(session: str, place: int, count: int) -> "subprocess.Popen[bytes]":
    """Start a keeper in a session of its own, which the end of the connection does not reach."""
    with open(LOG, "ab", buffering=0) as log:
        return subprocess.Popen(
            [*own_command("wina_core.remote.engine.keeper"), session, str(place), str(count)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _last_line() -> str:
    with suppress(OSError):
        return Path(LOG).read_text(errors="replace").strip().rpartition("\n")[2]
    return ""
