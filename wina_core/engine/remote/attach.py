"""Connection of ssh's streams to the keeper of a session, which is started if there is none."""

import os
import socket
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path

from wina_core.engine.remote.keeper import SOCKET, enter_session
from wina_core.errors import WinaError
from wina_core.files.own_command import own_command

START_SECONDS = 30.0
"""Time for a keeper to listen; an earlier one that ends may delay it."""
_BLOCK = 1 << 16


def attach(session: str, place: int, count: int) -> None:
    """Pass lines between the standard streams and the session's keeper until either side ends.

    The engine of a new keeper is the one at `place` among `count` that share the machine, its own GPU where there are
    enough. Raises WinaError if there can be no keeper.
    """
    if not hasattr(socket, "AF_UNIX"):
        raise WinaError("Engines are kept on Linux and macOS only; this machine has no Unix sockets.")
    enter_session(session)
    connection = _connect(session, place, count)
    threading.Thread(target=_receive, args=(connection,), daemon=True).start()
    with suppress(OSError):
        while block := os.read(0, _BLOCK):
            connection.sendall(block)
    os._exit(0)


def _receive(connection: socket.socket) -> None:
    with suppress(OSError):
        while block := connection.recv(_BLOCK):
            while block:
                block = block[os.write(1, block) :]
    os._exit(0)  # the other thread waits for input that nobody would take


def _connect(session: str, place: int, count: int) -> socket.socket:
    """Connect to the keeper; start one where there is none."""
    deadline, keeper = time.monotonic() + START_SECONDS, None
    while True:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(SOCKET)
        except OSError as error:
            connection.close()
            if time.monotonic() > deadline or (keeper is not None and keeper.poll()):
                raise WinaError(f"The engine could not be kept there: {_last_line() or error}") from error
        else:
            return connection
        if keeper is None or keeper.poll() is not None:
            keeper = _start(session, place, count)
        time.sleep(0.05)


def _start(session: str, place: int, count: int) -> "subprocess.Popen[bytes]":
    """Start a keeper in a session of its own, which the end of the connection does not reach."""
    with open("keeper.log", "ab", buffering=0) as log:
        return subprocess.Popen(
            [*own_command("wina_core.engine.remote.keeper"), session, str(place), str(count)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _last_line() -> str:
    with suppress(OSError):
        return Path("keeper.log").read_text(errors="replace").strip().rpartition("\n")[2]
    return ""
