"""The threads of compiled loops: as many as torch uses, and the same ones where both use OpenMP, so that none waits for
a core on which one of the other pool spins."""

import threading

import numba
import torch

TURN = threading.Lock()
"""numba's pool takes one caller at a time."""
_MOST = int(numba.config.NUMBA_NUM_THREADS)
_NOW = threading.local()
"""What it was told last from here; it keeps a number for each thread that calls it."""


def use_threads(worth: int) -> int:
    """Have numba use as many threads as torch does, at most `worth` and at least one, and say how many; to be called
    in turn."""
    wanted = torch.get_num_threads()
    threads = max(1, min(wanted, _MOST, worth))
    if getattr(_NOW, "threads", None) != threads:
        numba.set_num_threads(threads)
        _NOW.threads = threads
        # Its pool, when it starts, sets OpenMP's number of threads, which is torch's too.
        torch.set_num_threads(wanted)
    return threads
