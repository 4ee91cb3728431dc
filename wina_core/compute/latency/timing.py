"""Timing of calls turn by turn, in milliseconds: contenders alternate, because a machine's speed drifts."""

import time
from collections.abc import Callable, Sequence

import torch

from wina_core.compute.reporter import Reporter
from wina_core.errors import WinaError

Work = Callable[[], object]
Contender = Callable[[int], Work]
"""Turn -> the timed work. Preparations happen here, outside of the timing."""
WARM_UP = 3
"""Turns before those that count."""
LONGEST_SECONDS = 0.8
"""Longest single call, so that a cancellation is seen within a second."""
_HEAD_START = 200_000
"""Cycles, about a tenth of a millisecond, that keep a GPU busy before each call, so that launch time is not
measured."""


def time_turns(
    contenders: Sequence[Contender], repetitions: int, device: torch.device, reporter: Reporter
) -> list[list[float]]:
    """Return milliseconds by contender and turn, after WARM_UP turns."""
    timed = _on_cuda if device.type == "cuda" else _on_cpu
    times: list[list[float]] = [[] for _ in contenders]
    for turn in range(WARM_UP + repetitions):
        for contender, own in zip(contenders, times, strict=True):
            reporter.check()
            own.append(timed(contender(turn)))
    return [own[WARM_UP:] for own in times]


def check_quick(by_rows: Callable[[int], Work], batch: int, reporter: Reporter) -> None:
    """Call with 1, 2, 4, ... up to `batch` rows; raise WinaError before a call that would take too long.

    For the processor alone, whose calls cannot be interrupted and can take minutes. Each call runs twice, since the
    first may compile.
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
