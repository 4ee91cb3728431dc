"""One engine at a time for a file that several need: the first computes it, the others wait."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import filelock

from wina_core.compute.reporter import Reporter

_WAIT_SECONDS = 0.2


@contextmanager
def alone(file: Path, what: str, reporter: Reporter) -> Iterator[None]:
    """Hold the lock of a file or folder of the cache within the block; make its parent.

    While another engine has it, progress says that it computes `what`, such as "the rotated weights". Raises Cancelled.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(file.with_suffix(".lock"))
    while True:
        reporter.check()
        try:
            lock.acquire(timeout=_WAIT_SECONDS)
            break
        except filelock.Timeout:
            reporter.progress(0, None, "", f"another engine computes {what}")
    try:
        yield
    finally:
        lock.release()
