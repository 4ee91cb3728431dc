"""Engines of a driver that does what a test has it do: available, tried again elsewhere, refused."""

import threading
from collections.abc import Callable, Iterator

import pytest

from tests.wina_core.engine.engine_events import PATIENCE, Events, evaluate, run
from tests.wina_core.samples import ENVIRONMENT
from wina_core.engine.client.pool import EnginePool
from wina_core.jobs import (
    REQUESTS,
    Done,
    EvaluateJob,
    Event,
    Failed,
    Ready,
    RunFailed,
    RunFinished,
    RunStarted,
    Shutdown,
    Started,
    Submit,
    encode,
)
from wina_core.remote.cluster.ray import client as client_module
from wina_core.remote.cluster.ray.client import RayClients, RayEngineClient
from wina_core.remote.cluster.ray.messages import Exited, Order, Output, Placed, Signal, Write
from wina_core.remote.cluster.ray.process import RayProcess

LOST, REFUSED = "was lost with its node", "No node can start an engine."


class FakeDriver:
    """A driver whose engines are placed, speak and end as a test says."""

    def __init__(self) -> None:
        self.engines: list[RayProcess] = []
        self.avoided: list[str] = []
        self.orders: list[Order] = []
        self.stopped = threading.Event()
        self._changed = threading.Condition()

    def open(self, avoid: str, on_wait: Callable[[str], None]) -> RayProcess:
        with self._changed:
            self.engines.append(RayProcess(len(self.engines) + 1, self.send, on_wait))
            self.avoided.append(avoid)
            self._changed.notify_all()
        return self.engines[-1]

    def send(self, order: Order) -> None:
        with self._changed:
            self.orders.append(order)
            self._changed.notify_all()
        if isinstance(order, Write) and isinstance(REQUESTS.validate_json(order.text), Shutdown):
            self.end(order.engine, code=0)
        elif isinstance(order, Signal) and order.kill:
            self.end(order.engine, code=-9)

    def stop(self) -> None:
        self.stopped.set()

    def started(self, count: int) -> None:
        """Wait until so many engines were started."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.engines) >= count, PATIENCE)

    def say(self, engine: int, *events: Event) -> None:
        self.engines[engine - 1].take(Output(engine=engine, out=tuple(map(encode, events))))

    def ready(self, engine: int) -> None:
        self.engines[engine - 1].take(Placed(engine=engine, node=f"node-{engine}", host="host"))
        self.say(engine, Ready(pid=engine, environment=ENVIRONMENT))

    def end(self, engine: int, code: int = -15, cause: str = "", refused: str = "") -> None:
        self.engines[engine - 1].take(Exited(engine=engine, code=code, cause=cause, refused=refused))

    def given(self, engine: int) -> Submit:
        """Wait for an engine's job."""
        found: list[Submit] = []

        def look() -> bool:
            writes = (each for each in self.orders if isinstance(each, Write) and each.engine == engine)
            requests = (REQUESTS.validate_json(write.text) for write in writes)
            found[:] = [request for request in requests if isinstance(request, Submit)]
            return bool(found)

        with self._changed:
            assert self._changed.wait_for(look, PATIENCE)
        return found[-1]

    def compute(self, engine: int) -> list[str]:
        """Compute all runs of an engine's job, and return their hashes."""
        submit = self.given(engine)
        assert isinstance(submit.job, EvaluateJob)
        names = [pending.spec.content_hash() for pending in submit.job.runs]
        self.say(engine, Started(job_id=submit.job_id))
        for name in names:
            self.say(engine, RunStarted(job_id=submit.job_id, run=name), RunFinished(job_id=submit.job_id, run=name))
        self.say(engine, Done(job_id=submit.job_id))
        return names


class Grid:
    """A pool of two engines at a fake driver."""

    def __init__(self) -> None:
        self.driver, self.events = FakeDriver(), Events()
        cluster = RayClients(self.driver, 2)  # type: ignore[arg-type]  # all that it needs of one
        self.pool = EnginePool(self.events, [{}] * 2, lambda to, _: RayEngineClient(to, cluster))
        for each in cluster.clients:
            each.start()

    def submit(self, *sparsities: float) -> None:
        self.pool.send(Submit(job_id="job", job=evaluate(*map(run, sparsities))))

    def finished(self) -> set[str]:
        return {event.run for event in self.events.of("job") if isinstance(event, RunFinished)}


@pytest.fixture
def grid(monkeypatch: pytest.MonkeyPatch) -> Iterator[Grid]:
    monkeypatch.setattr(client_module, "_PAUSE_SECONDS", 0.0)
    made = Grid()
    yield made
    made.pool.stop()
    assert made.driver.stopped.is_set()


def test_an_engine_that_waits_for_resources_holds_no_run(grid: Grid) -> None:
    grid.submit(0.1, 0.2, 0.3)
    grid.driver.ready(2)  # the first one waits for ever
    computed = {name for _ in range(2) for name in grid.driver.compute(2)}
    while len(computed) < 3:
        computed.update(grid.driver.compute(2))
    assert isinstance(grid.events.end("job"), Done)
    assert grid.finished() == computed


def test_runs_of_an_engine_lost_before_it_began_them_are_computed_by_another(grid: Grid) -> None:
    grid.driver.ready(1)
    grid.submit(0.1)
    grid.driver.given(1)
    grid.driver.end(1, cause=LOST)
    grid.driver.started(3)
    assert not any(isinstance(event, Done | Failed) for event in grid.events.of("job"))
    grid.driver.ready(3)
    grid.driver.compute(3)
    assert isinstance(grid.events.end("job"), Done)
    assert grid.driver.avoided[-1] == ""  # it ran there


def test_a_run_that_is_being_prepared_while_three_engines_are_lost_fails(grid: Grid) -> None:
    grid.submit(0.1)
    for engine, following in ((1, 3), (3, 4), (4, 5)):
        grid.driver.ready(engine)
        grid.driver.given(engine)
        grid.driver.end(engine, cause=LOST)
        grid.driver.started(following)
    assert isinstance(grid.events.end("job"), Done)
    (failed,) = (event for event in grid.events.of("job") if isinstance(event, RunFailed))
    assert f"ended 3 engines, the last of which {LOST}" in failed.error


def test_a_node_where_an_engine_does_not_start_is_avoided(grid: Grid) -> None:
    grid.driver.engines[0].take(Placed(engine=1, node="bad", host="host"))
    grid.driver.engines[0].take(Output(engine=1, log=("There is no torch.",)))
    grid.driver.end(1, code=1)
    grid.driver.started(3)
    assert grid.driver.avoided == ["", "", "bad"]


def test_jobs_are_refused_once_no_engine_can_be_started(grid: Grid) -> None:
    grid.submit(0.1, 0.2)
    grid.driver.end(1, cause=LOST, refused=REFUSED)
    grid.driver.ready(2)
    grid.driver.given(2)  # the other engine computes, so nothing is refused yet
    grid.driver.end(2, cause=LOST, refused=REFUSED)
    end = grid.events.end("job")
    assert isinstance(end, Failed)
    assert end.error == REFUSED
