"""Some 80 hostile programs in the sandbox: `python -m tests.trust.sandboxed`. It takes about a minute.

Each escape reports whether it got out, and the command looks for itself: at the user's file and folder, at a port that
listens, at processes left behind. Each forgery passes only by a forged verdict.
"""

import os
import secrets
import socket
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from tests.trust.attack import verdict
from tests.trust.escapes import ESCAPES, TESTS, escape
from tests.trust.forgeries import FORGERIES
from wina_core.compute.sandbox import SandboxLimits, run_confined

LIMITS = SandboxLimits(seconds=2, wall_seconds=4.0)
SECRET = "of the user"


def escaped(names: Iterable[str]) -> list[str]:
    """Return the escapes that reached anything outside."""
    with tempfile.TemporaryDirectory() as folder, _listening() as server:
        secret = Path(folder, "secret.txt")
        secret.write_text(SECRET, encoding="utf-8")
        before, processes = _observed(secret), set(psutil.Process().children())
        places = {"secret": str(secret), "folder": folder, "port": server.getsockname()[1], "runner": os.getpid()}
        out = []
        for name in names:
            passed = run_confined(escape(ESCAPES[name], **places), TESTS, LIMITS).passed
            if (
                passed
                or _arrived(server)
                or _observed(secret) != before
                or set(psutil.Process().children()) - processes
            ):
                out.append(name)
        return out


def forged(names: Iterable[str]) -> list[str]:
    """Return the forgeries that passed."""
    return [name for name in names if _passes(*FORGERIES[name])]


def _passes(program: str, tests: str) -> bool:
    return run_confined(program, tests.format(x=secrets.randbelow(10**8) + 10**6), LIMITS).passed


@contextmanager
def _listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server


def _arrived(server: socket.socket) -> bool:
    try:
        server.accept()
    except BlockingIOError:
        return False
    return True


def _observed(secret: Path) -> tuple[object, ...]:
    status = secret.stat()
    return os.listdir(secret.parent), secret.read_text(encoding="utf-8"), status.st_mode, status.st_mtime_ns


def main() -> int:
    """Run all programs, print the results, and return the exit status."""
    began = time.perf_counter()
    escapes, forgeries = escaped(ESCAPES), forged(FORGERIES)
    report = {"programs": len(ESCAPES) + len(FORGERIES), "seconds": round(time.perf_counter() - began, 1)}
    return verdict("sandboxed", report | {"escapes": escapes, "forged": forgeries}, escapes + forgeries)


if __name__ == "__main__":
    sys.exit(main())
