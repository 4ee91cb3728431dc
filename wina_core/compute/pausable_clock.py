"""A clock that stands still while the process's job is held, so that no stored duration contains a pause."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

_stood = 0.0


def now() -> float:
    """Seconds since some moment, pauses left out; for differences, as `time.perf_counter`."""
    return time.perf_counter() - _stood


@contextmanager
def standing() -> Iterator[None]:
    """Within: the clock stands. Entered by one thread at a time, the one that does the jobs."""
    global _stood
    start = time.perf_counter()
    try:
        yield
    finally:
        _stood += time.perf_counter() - start
