"""A Ray cluster on this machine, whose nodes are killed while its engines compute a grid.

The cluster is a head and some workers with room for one engine each. The runs sleep, so that two processors suffice.
"""

import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.wina_core.engine.engine_events import SHORT, Events, evaluate, run
from wina_core.engine.client.pool import EnginePool
from wina_core.jobs import Done, Log, Partial, Ready, RunFailed, RunFinished, Submit
from wina_core.remote.ray_client import ray_clients
from wina_core.specs import EvaluationSpec
from wina_core.specs.machine import RayCluster

SLEEPING = Path(__file__).parents[1] / "wina_core" / "remote" / "fake_remote_engine.py"
POISON = 0.95
"""Sparsity of a run that ends its engine."""
_STORE_BYTES = 80 * 2**20


@dataclass
class Report:
    """Outcome of a grid."""

    runs: int
    workers: int
    kills: int
    lost: int = 0
    """Runs that did not end as computed."""
    doubled: int = 0
    """Measurements that arrived twice."""
    failed: list[str] = field(default_factory=list)
    """Reasons of runs that failed."""
    tried_again: int = 0
    """Runs that were in an engine when its node was killed."""
    seconds: float = 0.0
    """From the submission to the end, all engines being ready before."""
    efficiency: float = 0.0
    """Seconds that the runs sleep, by the seconds of all workers."""

    @property
    def faults(self) -> int:
        """Number of all faults."""
        return self.lost + self.doubled


def sleeping_engines(events: Events, address: str, seconds: float | str) -> EnginePool:
    """Return a pool of engines of one processor each that sleep so long for each run."""
    command = (sys.executable, str(SLEEPING), str(seconds))
    makers = ray_clients(RayCluster(name="grid", address=address, cpus=1), command)
    return EnginePool(events, [{}] * len(makers), lambda to, _: makers[0](to))


@contextmanager
def ray_cluster(workers: int) -> Iterator[Any]:
    """Start a head without processors and workers of one each; end them."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 - else the engines come after everything else
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "1"
    os.environ["PYTHONPATH"] = os.pathsep.join(map(str, filter(None, sys.path)))  # of the nodes, too
    from ray.cluster_utils import Cluster

    small = {"object_store_memory": _STORE_BYTES, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **small})
    try:
        for _ in range(workers):
            cluster.add_node(wait=False, num_cpus=1, **small)
        cluster.wait_for_nodes()
        yield cluster
    finally:
        cluster.shutdown()


def run_grid(cluster: Any, runs: int, kills: int, seconds: float, seed: int = 1, poisoned: bool = False) -> Report:
    """Compute runs that sleep on a cluster, and kill its nodes after random numbers of runs.

    With `poisoned`, one run more ends each engine that computes it.
    """
    workers = list(cluster.worker_nodes)
    report, events, chance = Report(runs, len(workers), kills), Events(), random.Random(seed)
    specs = [run(0.9 * index / runs, EvaluationSpec(fidelity=SHORT)) for index in range(runs)]
    poison = [run(POISON, EvaluationSpec(fidelity=SHORT))] if poisoned else []
    pool = sleeping_engines(events, cluster.address, seconds)
    try:
        for place in range(len(workers)):
            events.wait_for_number(Ready, place + 1)
        begun = time.monotonic()
        pool.send(Submit(job_id="grid", job=evaluate(*poison, *specs)))
        at = sorted(chance.sample(range(1, max(2, runs * 3 // 4)), kills))
        for finished, victim in zip(at, chance.sample(workers, kills), strict=True):
            events.wait_for_number(RunFinished, finished)
            cluster.remove_node(victim, allow_graceful=False)
        events.end("grid")
        report.seconds = time.monotonic() - begun
    finally:
        pool.stop()
    found = events.of("grid")
    ended = Counter(event.run for event in found if isinstance(event, RunFinished))
    report.failed = [event.error for event in found if isinstance(event, RunFailed)]
    arrived = Counter((event.unit.run, event.unit.unit) for event in found if isinstance(event, Partial))
    wanted = {spec.content_hash() for spec in specs}
    assert isinstance(found[-1], Done), found[-1]
    report.lost = len(wanted - set(ended))
    report.doubled = sum(count - 1 for count in arrived.values()) + sum(count - 1 for count in ended.values())
    report.tried_again = sum(isinstance(event, Log) and "tried again" in event.text for event in found)
    report.efficiency = runs * seconds / (report.seconds * len(workers))
    return report
