"""A study of 10,000 runs on 64 engines that fail, simulated with the pool's own sharing of runs (`UnassignedRuns`).

    python tests/benchmarks/grid_simulation.py [--out FILE]

Each group of runs has the seconds of a rotation and of an evaluation that were measured at some size of model
(kernels/benchmarks/results/scaling-cpu.json); its runs differ by up to 20 %. An engine prepares a group whenever it
changes to it. A failure loses the run in flight, and the engine is back after a pause.

Efficiency is the time of all runs by that of all engines; the lower bound of the time counts each group's preparation
once and no failure. Expected before: 0.95 without failures. With groups handed out whole while there were as many as
engines, and shares of one engine's part after that, it was 0.87 for 20 groups and 0.73 for 100, a quarter of the time
being for preparations.
"""

import argparse
import heapq
import json
import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.wina_core.engine.engine_events import QUICK, WINA
from wina_core.engine.client.job_queue import UnassignedRuns
from wina_core.jobs import PendingRun
from wina_core.jobs.job_specs import Group, group_of
from wina_core.specs import ModelSource, RunSpec
from wina_core.specs.plans import UniformSparsity

ROOT = Path(__file__).parents[2]
RESULTS = Path(__file__).parent / "results"
RESTART_SECONDS = 60.0
SPREAD = 0.2


@dataclass
class Outcome:
    """Time and work of a simulated study."""

    engines: int
    runs: int
    groups: int
    failures: int
    hours: float = 0.0
    bound_hours: float = 0.0
    efficiency: float = 0.0
    preparing: float = 0.0
    """Fraction of the engines' time for preparations."""
    lost: float = 0.0
    """Fraction that was lost to failures, restarts included."""
    idle: float = 0.0
    """Fraction without work, at the end."""
    parts: int = 0


def measured_seconds() -> list[tuple[float, float]]:
    """Return the measured seconds of a rotation and an evaluation for each size of model."""
    costs = json.loads((ROOT / "kernels/benchmarks/results/scaling-cpu.json").read_text())["costs"]
    return [(each["rotation"], each["evaluation"]) for name in ("layers", "hidden") for each in costs[name]["seconds"]]


def grid(runs: int, groups: int) -> list[PendingRun]:
    """Return runs in groups of a model each."""
    each = runs // groups
    return [
        PendingRun(
            spec=RunSpec(
                model=ModelSource(location=f"/models/{group}"),
                method=WINA,
                plan=UniformSparsity(sparsity=0.9 * place / each),
                evaluation=QUICK,
            ),
            units=QUICK.units,
        )
        for group in range(groups)
        for place in range(each)
    ]


def simulate(runs: Sequence[PendingRun], engines: int, failures: int, seed: int = 1) -> Outcome:
    """Share runs among engines of which some fail, in virtual time."""
    chance = random.Random(seed)
    costs = measured_seconds()
    groups = list(dict.fromkeys(map(group_of, runs)))
    prepare: Mapping[Group, float] = {group: costs[place % len(costs)][0] for place, group in enumerate(groups)}
    evaluate = {group: costs[place % len(costs)][1] for place, group in enumerate(groups)}
    seconds = {id(run): evaluate[group_of(run)] * chance.uniform(1 - SPREAD, 1 + SPREAD) for run in runs}
    work = sum(seconds.values())
    unassigned, outcome = UnassignedRuns(runs), Outcome(engines, len(runs), len(groups), failures)
    bound = (work + sum(prepare.values())) / engines
    fails = [
        sorted(chance.uniform(0, bound) for _ in range(failures // engines + (place < failures % engines)))
        for place in range(engines)
    ]
    held: list[Group | None] = [None] * engines
    queue = [(0.0, place) for place in range(engines)]
    waiting: list[int] = []
    done, preparing, lost, ends = 0, 0.0, 0.0, [0.0] * engines
    while queue:
        now, place = heapq.heappop(queue)
        part = list(unassigned.take(held[place], engines))
        if not part:
            waiting.append(place)
            continue
        outcome.parts += 1
        group, clock = group_of(part[0]), now
        failure = next((at for at in fails[place] if at >= now), float("inf"))
        steps = [0.0 if held[place] == group else prepare[group], *(seconds[id(run)] for run in part)]
        held[place] = group
        for step, cost in enumerate(steps):
            if clock + cost > failure:
                left = part[max(0, step - 1) :]
                unassigned.put_back([*left[1:], *left[:1]] if step else left)
                lost += failure - clock + RESTART_SECONDS
                held[place], clock = None, failure + RESTART_SECONDS
                for each in waiting:  # they take over what it leaves, when it fails
                    heapq.heappush(queue, (max(failure, ends[each]), each))
                waiting = []
                break
            clock += cost
            preparing += cost if step == 0 else 0.0
            done += step > 0
        ends[place] = clock
        heapq.heappush(queue, (clock, place))
    assert done == len(runs)
    makespan = max(ends)
    outcome.hours, outcome.bound_hours = makespan / 3600, bound / 3600
    outcome.efficiency = work / (engines * makespan)
    outcome.preparing, outcome.lost = preparing / (engines * makespan), lost / (engines * makespan)
    outcome.idle = 1 - outcome.efficiency - outcome.preparing - outcome.lost
    return outcome


def main() -> None:
    """Simulate, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=RESULTS / "grid-simulation.json")
    given = parser.parse_args()
    outcomes = [
        simulate(grid(10_000, groups), 64, failures) for groups in (1, 20, 100, 1000) for failures in (0, 20, 200)
    ]
    for each in outcomes:
        print(
            f"{each.groups:5} groups {each.failures:4} failures: {each.hours:.3f} h (bound {each.bound_hours:.3f}), "
            f"efficiency {each.efficiency:.3f}, preparing {each.preparing:.3f}, lost {each.lost:.3f}, "
            f"idle {each.idle:.3f}, {each.parts} parts"
        )
    content = {
        "benchmark": "grid simulation",
        "restart_seconds": RESTART_SECONDS,
        "studies": list(map(asdict, outcomes)),
    }
    given.out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
