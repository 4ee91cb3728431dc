"""Memory of this program and of its engines: the limit that the user sets, and glibc's allocator."""

import ctypes
import os
import sys
from contextlib import suppress

from wina_core.files.hardware import MEMORY_VARIABLE

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


def limit_memory(chosen: str) -> str:
    """Limit this program and the engines that it starts to the chosen size, such as 8GB; empty for no limit.

    A limit that the program was started with counts instead, and is returned; empty where there is none.
    """
    preset_limit = os.environ.get(MEMORY_VARIABLE, "")
    if chosen and not preset_limit:
        os.environ[MEMORY_VARIABLE] = chosen
    return preset_limit
