"""Locks on files, held by the operating system, which releases them when a process dies, however it dies."""

from pathlib import Path
from types import TracebackType
from typing import Self

import filelock

from wina_core.errors import WinaError


class FileLock:
    """An exclusive lock on a file made for the purpose; two locks on one file exclude each other within a process too.

    A file system without such locks is an error: filelock's substitute, the mere existence of a file, outlives a crash.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        # Any thread may release it. A file that is preserved rules out the substitute.
        self._lock = filelock.FileLock(path, thread_local=False, preserve_lock_file=True, poll_interval=0.01)

    def acquire(self) -> bool:
        """Take the lock if it is free; return whether it was."""
        try:
            self._lock.acquire(blocking=False)
        except filelock.Timeout:
            return False
        return True

    def wait(self, seconds: float) -> None:
        """Take the lock as soon as it is free. Raises WinaError after `seconds`."""
        try:
            self._lock.acquire(timeout=seconds)
        except filelock.Timeout as error:
            raise WinaError(
                f"Another program has held {self.path} for {seconds:.0f} s; close it and try again."
            ) from error

    def release(self) -> None:
        self._lock.release(force=True)  # filelock counts acquisitions, of which one release ends all

    def __enter__(self) -> Self:
        self.wait(30.0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
