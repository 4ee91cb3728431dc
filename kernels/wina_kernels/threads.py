"""The threads of compiled loops: as many as torch uses, and the same ones where both use OpenMP, so that none waits for
a core on which one of the other pool spins."""

import threading

import numba
import torch

TURN = threading.Lock()
"""numba's pool takes one caller at a time."""
_MOST = int(numba.config.NUMBA_NUM_THREADS)
_NOW = threading.local()
"""What numba was told last; it keeps a number for each thread that calls it."""


def _start() -> None:
    """numba's pool, when it starts, sets OpenMP's number of threads, which is torch's too: let torch keep its own."""
    before = torch.get_num_threads()
    numba.set_num_threads(_MOST)
    torch.set_num_threads(before)


_start()


def use_threads(worth: int) -> int:
    """Have numba use as many threads as torch does, at most `worth` and at least one, and say how many."""
    threads = max(1, min(torch.get_num_threads(), _MOST, worth))
    if getattr(_NOW, "threads", None) != threads:
        numba.set_num_threads(threads)
        _NOW.threads = threads
    return threads
