"""Jobs of a pool that are cancelled, paused or stopped."""

from collections.abc import Callable

from tests.wina_core.engine.client.test_pool import INSPECT, PLAIN, PLAIN_PENDING, ROTATE
from tests.wina_core.engine.engine_events import evaluate
from tests.wina_core.engine.fake_pool import Pool
from tests.wina_core.samples import timed
from wina_core.jobs import (
    Cancel,
    Done,
    Failed,
    Held,
    LatencyJob,
    Measured,
    Partial,
    Pause,
    Resume,
    Shutdown,
    Started,
)
from wina_core.specs.latency import LatencySpec, Shape


def test_cancelling_reaches_all_parts_and_drops_what_is_left(pool: Pool) -> None:
    pool.submit("a", evaluate(*PLAIN), engines=2)
    pool.submit("b", INSPECT)
    pool.pool.send(Cancel(job_id="b"))
    assert pool.events.end("b") == Done(job_id="b", cancelled=True), "it waited"
    pool.pool.send(Cancel(job_id="a"))
    for client in pool.clients:
        client.given(kind=Cancel)
        client.cancelled()
    assert pool.events.end("a") == Done(job_id="a", cancelled=True)
    assert [len(client.submits) for client in pool.clients] == [1, 1]


def test_a_job_is_held_once_all_its_engines_hold_and_later_ones_begin_elsewhere(make: Callable[..., Pool]) -> None:
    pool = make(3)
    first, second, third = pool.clients
    pool.submit("a", evaluate(*PLAIN[:2]), engines=2)
    pool.pool.send(Pause(job_id="a"))
    for client in (first, second):
        client.given(kind=Pause)
    pool.submit("b", INSPECT, priority="normal")
    first.say(Held(job_id=first.job_id, held=True))
    pool.settle()
    assert not any(isinstance(event, Held) for event in pool.events.all)
    second.complete()
    assert pool.events.wait(Held) == Held(job_id="a", held=True)
    pool.settle()
    assert third.job == INSPECT
    assert len(second.submits) == 1
    assert not any(isinstance(request, Cancel) for request in first.sent), "an engine was free"
    pool.pool.send(Resume(job_id="a"))
    first.given(kind=Resume)
    first.complete()
    pool.done("a")
    assert [event.held for event in pool.events.all if isinstance(event, Held)] == [True, False]


def test_a_paused_evaluation_gives_up_its_engine_and_loses_only_the_measurement_in_flight(
    make: Callable[..., Pool],
) -> None:
    pool = make(1)
    (engine,) = pool.clients
    pool.submit("a", evaluate(*PLAIN[:2]), engines=1)
    engine.finish(PLAIN_PENDING[0])
    engine.begin(PLAIN_PENDING[1])
    pool.pool.send(Pause(job_id="a"))
    pool.submit("b", ROTATE)
    engine.given(kind=Pause)
    pool.settle()
    assert not any(isinstance(request, Cancel) for request in engine.sent), "it has not reached a batch yet"
    engine.say(Held(job_id=engine.job_id, held=True))
    engine.given(kind=Cancel)
    engine.cancelled()
    engine.given(2)
    assert engine.job == ROTATE
    held = [event for event in pool.events.all if isinstance(event, Held)]
    assert held == [Held(job_id="a", held=True), Held(job_id="a", held=True, released=True)]
    engine.complete()
    pool.done("b")
    pool.settle()
    assert len(engine.submits) == 2, "it waits to be resumed"
    pool.pool.send(Resume(job_id="a"))
    engine.given(3)
    assert engine.runs == PLAIN_PENDING[1:2]
    engine.complete()
    pool.done("a")
    assert sum(isinstance(event, Partial) for event in pool.events.all) == 4


def test_a_paused_rotation_begins_again_after_the_job_that_took_its_engine(make: Callable[..., Pool]) -> None:
    pool = make(1)
    (engine,) = pool.clients
    pool.submit("a", ROTATE, engines=1)
    pool.pool.send(Pause(job_id="a"))
    pool.submit("b", evaluate(*PLAIN[:1]))
    engine.say(Held(job_id=engine.job_id, held=True))
    engine.given(kind=Cancel)
    pool.pool.send(Resume(job_id="a"))
    engine.cancelled()
    for count in (2, 3):
        engine.given(count)
        engine.complete()
    pool.done(*"ab")
    assert sorted(type(each.job).__name__ for each in engine.submits[1:]) == ["EvaluateJob", "RotateJob"]


def test_a_paused_sweep_gives_up_its_engine_and_keeps_its_points(make: Callable[..., Pool]) -> None:
    spec = LatencySpec(shapes=(Shape(outputs=8, inputs=16),), sparsities=(0.5, 0.8), methods=("wina",))
    first, *_ = points = [timed(each) for each in spec.points()]
    earlier, key = points[-1].point.content_hash(), first.environment.key
    pool = make(1)
    (engine,) = pool.clients
    pool.submit("a", LatencyJob(spec=spec, stored={key: (earlier,)}), engines=1)
    engine.say(Measured(job_id=engine.job_id, record=first))
    pool.pool.send(Pause(job_id="a"))
    pool.submit("b", evaluate(*PLAIN[:1]))
    engine.say(Held(job_id=engine.job_id, held=True))
    engine.given(kind=Cancel)
    engine.cancelled()
    engine.given(2)
    pool.pool.send(Resume(job_id="a"))
    engine.complete()
    engine.given(3)
    assert isinstance(engine.job, LatencyJob)
    stored = {name: set(hashes) for name, hashes in engine.job.stored.items()}
    assert stored == {key: {earlier, first.point.content_hash()}}


def test_a_waiting_job_that_is_paused_is_passed_over(make: Callable[..., Pool]) -> None:
    pool = make(1)
    (engine,) = pool.clients
    for job_id in "abc":
        pool.submit(job_id, INSPECT)
    pool.pool.send(Pause(job_id="b"))
    assert pool.events.wait(Held) == Held(job_id="b", held=True)
    engine.complete()
    engine.given(2)
    assert pool.events.wait(Started, lambda event: event.job_id == "c")
    engine.complete()
    pool.pool.send(Resume(job_id="b"))
    engine.given(3)
    engine.complete()
    pool.done("b")


def test_stopping_ends_all_jobs_as_cancelled(pool: Pool) -> None:
    pool.pool.start()
    pool.submit("a", evaluate(*PLAIN), engines=2)
    pool.submit("b", INSPECT)
    assert pool.pool.pid == 1
    pool.pool.send(Shutdown())
    assert pool.pool.pid is None
    assert {event for event in pool.events.all if isinstance(event, Done | Failed)} == {
        Done(job_id="a", cancelled=True),
        Done(job_id="b", cancelled=True),
    }
