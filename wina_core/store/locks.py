"""Locks held on files through the operating system, which lets go of them when a process dies, however it dies."""

import os
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from wina_core.errors import WinaError

if sys.platform == "win32":
    import msvcrt

    def _try_lock(handle: int) -> bool:
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
else:
    import fcntl

    def _try_lock(handle: int) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


class FileLock:
    """An exclusive lock on a file that is made for the purpose. Held at most once at a time, within a process too."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle: int | None = None

    def acquire(self) -> bool:
        """Take the lock if nobody holds it; True when taken."""
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        if _try_lock(handle):
            self._handle = handle
            return True
        os.close(handle)
        return False

    def wait(self, seconds: float) -> None:
        """Take the lock as soon as it is free; WinaError after `seconds`."""
        end = time.monotonic() + seconds
        while not self.acquire():
            if time.monotonic() > end:
                raise WinaError(f"Another program has held {self.path} for {seconds:.0f} s; close it and try again.")
            time.sleep(0.01)

    def release(self) -> None:
        """Let go, if held."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def __enter__(self) -> Self:
        self.wait(30.0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
