"""A clock that stops while the job is paused, so that stored durations contain no pause."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

_paused_seconds = 0.0


def now() -> float:
    """Return seconds without pauses, for differences, like `time.perf_counter`."""
    return time.perf_counter() - _paused_seconds


@contextmanager
def paused() -> Iterator[None]:
    """Stop the clock within the block; only the thread that runs jobs may enter."""
    global _paused_seconds
    start = time.perf_counter()
    try:
        yield
    finally:
        _paused_seconds += time.perf_counter() - start
