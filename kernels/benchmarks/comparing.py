"""Timing of several ways of doing the same work, turn by turn, and the files of results.

A machine's speed drifts, so contenders take turns, and each turn is compared with the peer's just before: ratios are
medians over turns. CPU time is reported beside wall time, since it excludes other processes; with several threads it
also counts waiting threads.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from wina_core.compute.session.environment import environment

Facts = dict[str, float | int | str]
"""Other measurements or settings: sizes, dtypes, deviations, bytes."""


@dataclass(frozen=True)
class Contender:
    """One way of doing the work."""

    name: str
    prepare: Callable[[], AbstractContextManager[Callable[[], object]]]
    """Prepares everything that is not timed, and yields the timed work."""
    at_most: float | None = None
    """The bar: its time over the peer's."""


def ready(name: str, work: Callable[[], object], at_most: float | None = None) -> Contender:
    """Return a contender that needs no preparation."""
    return Contender(name, partial(nullcontext, work), at_most)


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Set torch's number of threads within the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@dataclass(frozen=True)
class Spread:
    """Median and the 10th and 90th percentile over the repetitions."""

    median: float
    p10: float
    p90: float


@dataclass(frozen=True)
class Timing:
    """A contender's times."""

    name: str
    wall_seconds: Spread
    cpu_seconds: Spread
    wall_ratio: Spread
    """Its time over the peer's in the same turn; 1 for the peer."""
    cpu_ratio: Spread
    at_most: float | None
    facts: Facts = field(default_factory=dict)


@dataclass(frozen=True)
class TimingComparison:
    """Contenders on the same work."""

    setting: Facts
    """Shapes, dtype, threads."""
    repetitions: int
    peer: str
    timings: tuple[Timing, ...]
    """The peer's first."""


def compare(
    peer: Contender,
    challengers: Sequence[Contender],
    repetitions: int,
    setting: Facts,
    facts: Mapping[str, Facts] | None = None,
) -> TimingComparison:
    """Time all contenders once a turn, the peer first, for `repetitions` turns after a warm-up, with as many threads of
    torch as the setting has.

    `facts` are attached to the timings by name.
    """
    contenders = (peer, *challengers)
    with threads(int(setting["threads"])):
        turns = [[_once(contender) for contender in contenders] for _ in range(repetitions + 1)][1:]
    seconds = np.array(turns)  # [turn, contender, wall and cpu]
    ratios = seconds / seconds[:, :1]
    timings = tuple(
        Timing(
            name=contender.name,
            wall_seconds=spread(seconds[:, index, 0]),
            cpu_seconds=spread(seconds[:, index, 1]),
            wall_ratio=spread(ratios[:, index, 0]),
            cpu_ratio=spread(ratios[:, index, 1]),
            at_most=contender.at_most,
            facts=dict((facts or {}).get(contender.name, {})),
        )
        for index, contender in enumerate(contenders)
    )
    return TimingComparison(setting=setting, repetitions=repetitions, peer=peer.name, timings=timings)


def _once(contender: Contender) -> tuple[float, float]:
    with contender.prepare() as work:
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        return time.perf_counter() - wall, time.process_time() - cpu


def spread(values: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> Spread:
    p10, median, p90 = np.percentile(values, (10, 50, 90))
    return Spread(median=float(median), p10=float(p10), p90=float(p90))


def write_results(file: Path, name: str, content: Mapping[str, Any], versions: Mapping[str, str] | None = None) -> None:
    """Write a benchmark's results after their conditions: hardware, and versions of the usual packages and of these."""
    machine = environment()
    head = {"benchmark": name, "hardware": machine.hardware, "versions": {**machine.versions, **(versions or {})}}
    file.parent.mkdir(parents=True, exist_ok=True)
    write_json(file, {**head, **content})
    print(f"-> {file}", flush=True)


def write_json(file: Path, content: Mapping[str, Any]) -> None:
    file.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
