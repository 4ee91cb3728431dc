"""Threads of compiled loops: as many as torch uses, and the same OpenMP pool, so that neither pool spins on the other's
cores."""

import threading

import numba
import torch

TURN = threading.Lock()
"""numba's pool takes one caller at a time."""
_MOST = int(numba.config.NUMBA_NUM_THREADS)
_NOW = threading.local()
"""The last setting of each calling thread."""


def use_threads(worth: int) -> int:
    """Set and return numba's number of threads: torch's, at most `worth` and at least 1. Hold `TURN`."""
    wanted = torch.get_num_threads()
    threads = max(1, min(wanted, _MOST, worth))
    if getattr(_NOW, "threads", None) != threads:
        numba.set_num_threads(threads)
        _NOW.threads = threads
        # Its pool, when it starts, sets OpenMP's number of threads, which is torch's too.
        torch.set_num_threads(wanted)
    return threads
