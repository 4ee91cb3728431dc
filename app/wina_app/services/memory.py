"""Configuration of glibc's allocator."""

import ctypes
import sys
from contextlib import suppress

_MMAP_THRESHOLD, _ARENA_MAX = -3, -8
"""Parameters of mallopt(3)."""
_BLOCK_BYTES = 65_536


def configure_malloc() -> None:
    """Configure glibc to release freed blocks of 64 KiB and more at once, in one heap for all threads.

    The columns of a million results come and go on several threads; glibc keeps a heap for each and what was freed in
    it: 35 MB of 620. Call this before the first thread is started.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # another C library
            mallopt = ctypes.CDLL("libc.so.6").mallopt
            mallopt(_ARENA_MAX, 1)
            mallopt(_MMAP_THRESHOLD, _BLOCK_BYTES)
