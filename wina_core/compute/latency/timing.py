"""Timing calls turn by turn, in milliseconds: a machine's speed drifts, so those that are compared take turns."""

import time
from collections.abc import Callable, Sequence

import torch

from wina_core.compute.reporter import Reporter
from wina_core.errors import WinaError

Work = Callable[[], object]
Contender = Callable[[int], Work]
"""Turn -> what is timed in it. Whatever must be ready for the work is made here, outside of the timing."""
WARM_UP = 3
"""Turns before those that count."""
LONGEST_SECONDS = 0.8
"""Of a single call, so that a cancellation is seen within a second."""
_HEAD_START = 200_000
"""Cycles, about a tenth of a millisecond, that a GPU is kept busy before each call: by the time it begins, the call is
queued, and the time that the processor takes to launch it is not part of it."""


def time_turns(
    contenders: Sequence[Contender], repetitions: int, device: torch.device, reporter: Reporter
) -> list[list[float]]:
    """Milliseconds by contender and turn, after WARM_UP turns that are not counted."""
    timed = _on_cuda if device.type == "cuda" else _on_cpu
    times: list[list[float]] = [[] for _ in contenders]
    for turn in range(WARM_UP + repetitions):
        for contender, own in zip(contenders, times, strict=True):
            reporter.check()
            own.append(timed(contender(turn)))
    return [own[WARM_UP:] for own in times]


def check_quick(by_rows: Callable[[int], Work], batch: int, reporter: Reporter) -> None:
    """Call with 1, 2, 4, ... up to `batch` rows; WinaError, before it is made, of a call that would take too long.

    For the processor alone, whose calls cannot be interrupted and can take minutes. Each is made twice, since the first
    may have to compile.
    """
    rows = 1
    while True:
        for _ in range(2):
            reporter.check()
            milliseconds = _on_cpu(by_rows(rows))
        if rows == batch:
            return
        following = min(2 * rows, batch)
        expected = milliseconds / 1e3 * following / rows
        if expected > LONGEST_SECONDS:
            raise WinaError(
                f"one call with {following} rows would take about {expected:.1f} s, too long to be cancelled within a "
                "second; choose a smaller batch or another backend."
            )
        rows = following


def _on_cpu(work: Work) -> float:
    start = time.perf_counter_ns()
    work()
    return (time.perf_counter_ns() - start) / 1e6


def _on_cuda(work: Work) -> float:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda._sleep(_HEAD_START)
    start.record()
    work()
    end.record()
    end.synchronize()
    return start.elapsed_time(end)
