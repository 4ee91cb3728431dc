"""The roofline: this device's memory bandwidth, measured when a sweep begins."""

import torch

from wina_core.compute.latency.device import cache_bytes, free_bytes
from wina_core.compute.latency.timing import time_turns
from wina_core.compute.reporter import Reporter

_LEAST = 2**28
_CACHES = 4
"""The buffer's size in last-level caches, so that almost nothing of it stays there."""
_REPETITIONS = 4


def measure_bandwidth(device: torch.device, reporter: Reporter) -> float:
    """Return GB/s (1e9 bytes): the better of reading a large buffer (its sum) and copying it (read and written bytes).

    Sums read at full speed on processors, where a copy also fetches what it overwrites; on GPUs the copy is the usual
    yardstick. Each counts by its fastest turn, since other load only slows it down.
    """
    size = min(max(_LEAST, _CACHES * cache_bytes(device)), free_bytes(device) // 4)
    source = torch.ones(size // 4, device=device)
    target = torch.empty_like(source)
    calls = (lambda _: source.sum, lambda _: lambda: target.copy_(source))
    reading, copying = (min(times) for times in time_turns(calls, _REPETITIONS, device, reporter))
    moved = source.numel() * source.element_size() / 1e6
    return max(moved / reading, 2 * moved / copying)
