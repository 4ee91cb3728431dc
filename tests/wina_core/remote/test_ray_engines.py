"""Engines of a cluster that is none: available, started again elsewhere, refused."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.wina_core.engine.engine_events import Events, evaluate, run
from wina_core.engine.client.pool import EnginePool
from wina_core.jobs import Done, Event, Failed, RunFinished, Submit
from wina_core.remote import ray_client
from wina_core.remote.ray_client import ray_clients
from wina_core.specs.machine import RayCluster

RELAY = Path(__file__).with_name("fake_relay.py")
CLUSTER = RayCluster(name="grid", address="auto")


class Grid:
    """A pool of the engines of a cluster."""

    def __init__(self) -> None:
        self.events = Events()
        self.pool = EnginePool(self.events, machines=lambda _: ray_clients(CLUSTER))

    def submit(self, *sparsities: float, job_id: str = "job") -> Event:
        """Submit runs of these sparsities and return the end of their job."""
        self.pool.send(Submit(job_id=job_id, job=evaluate(*map(run, sparsities)), machines=("grid",)))
        return self.events.end(job_id)

    def of(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.events.of("job") if isinstance(event, kind)]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: Path) -> Iterator[Callable[..., Grid]]:  # noqa: ARG001
    """Makes a pool of so many engines, whose processes behave so in the order of their starts."""
    grids: list[Grid] = []
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]), prepend=":")

    def made(engines: int, *behaviours: str) -> Grid:
        counted = {"engines": engines, "cpus": 1.0, "gpus": 0.0}
        monkeypatch.setattr(ray_client, "_probe_cluster", lambda _: counted)
        command = (sys.executable, str(RELAY), str(tmp_path), *behaviours)
        monkeypatch.setattr(ray_client, "own_command", lambda _: command)
        grids.append(Grid())
        return grids[-1]

    yield made
    for grid in grids:
        grid.pool.stop()


def test_an_engine_that_waits_for_resources_holds_no_run(make: Callable[..., Grid]) -> None:
    grid = make(2, "waits", "computes")
    assert grid.submit(0.1, 0.2, 0.3) == Done(job_id="job")
    assert len(grid.of(RunFinished)) == 3


def test_runs_of_an_engine_lost_before_it_began_them_are_computed_by_another(make: Callable[..., Grid]) -> None:
    grid = make(1, "lost", "computes")
    assert grid.submit(0.1, 0.2) == Done(job_id="job")
    assert len(grid.of(RunFinished)) == 2


def test_a_job_that_loses_three_engines_before_they_begin_it_fails(make: Callable[..., Grid]) -> None:
    failed = make(1, "lost", "lost", "lost", "computes").submit(0.1)
    assert isinstance(failed, Failed)
    assert failed.engine_end == "was lost with its node or Ray actor"


def test_an_engine_that_no_node_can_start_leaves_the_work_to_the_others(make: Callable[..., Grid]) -> None:
    assert make(2, "unfit", "computes").submit(0.1) == Done(job_id="job")


def test_jobs_are_refused_once_no_engine_can_be_started(make: Callable[..., Grid]) -> None:
    end = make(2, "unfit", "unfit").submit(0.1)
    assert isinstance(end, Failed)
    assert "No node of the Ray cluster can start an engine. There is no torch." in end.error


def test_a_cluster_that_was_refused_is_tried_again_by_a_later_job(
    make: Callable[..., Grid], monkeypatch: pytest.MonkeyPatch
) -> None:
    grid = make(1, "unfit", "computes")
    assert isinstance(grid.submit(0.1), Failed)
    assert isinstance(grid.submit(0.1, job_id="soon"), Failed)
    monkeypatch.setattr(ray_client, "REFUSAL_SECONDS", 0.0)
    assert grid.submit(0.1, job_id="later") == Done(job_id="later")
