"""One engine at a time for a file that several need: the first computes it, the others wait."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import filelock

from wina_core.compute.reporter import Reporter
from wina_core.errors import WinaError

_WAIT_SECONDS = 0.2


@contextmanager
def alone(file: Path, what: str, reporter: Reporter) -> Iterator[None]:
    """Hold the lock of a file or folder of the cache within the block; make its parent.

    While another engine has it, progress says that it computes `what`, such as "the rotated weights". Raises Cancelled,
    and WinaError where the folder cannot be written.
    """
    lock = filelock.FileLock(file.with_suffix(".lock"))
    while True:
        reporter.check()
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            lock.acquire(timeout=_WAIT_SECONDS)
            break
        except filelock.Timeout:
            reporter.progress(0, None, "", f"another engine computes {what}")
        except OSError as error:
            raise WinaError(f"{file.parent} cannot be written ({error.strerror}), which {what} need.") from error
    try:
        yield
    finally:
        lock.release()
