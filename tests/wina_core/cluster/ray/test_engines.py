"""Engines on the nodes of a real Ray cluster: nodes killed, a run that ends engines, engines that cannot start."""

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.trust.ray_grid import SLEEPING, ray_cluster, run_grid
from tests.wina_core.engine.engine_events import Events, evaluate, run
from wina_core.cluster.ray import client
from wina_core.cluster.ray.client import open_ray_engines
from wina_core.cluster.ray.options import RayOptions
from wina_core.engine.protocol import Failed, Submit

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Ray's test clusters need Linux or macOS")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    pytest.importorskip("ray")
    with ray_cluster(3) as made:
        yield made


def test_engines_that_start_on_no_node_fail_the_job_with_the_reason(
    cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_PAUSE_SECONDS", 0.0)
    events = Events()
    pool = open_ray_engines(
        events, RayOptions(cluster.address, cpus=1), command=(sys.executable, str(SLEEPING), "never")
    )
    pool.send(Submit(job_id="job", job=evaluate(run(0.5))))
    end = events.end("job")
    pool.stop()
    assert isinstance(end, Failed)
    assert "No living node of the Ray cluster can start an engine" in end.error
    assert "There is no torch on this node." in end.error


def test_a_killed_node_costs_no_run_and_a_run_that_ends_three_engines_fails_alone(cluster: Any) -> None:
    report = run_grid(cluster, runs=30, kills=1, seconds=0.1, poisoned=True)  # the last test: it leaves two nodes
    assert report.faults == 0
    (error,) = report.failed
    assert "ended 3 engines, the last of which stopped with exit code 3" in error
