"""Jobs of a pool that are cancelled, paused or stopped."""

from collections.abc import Callable

from tests.wina_core.engine.client.test_pool import INSPECT, PLAIN, PLAIN_PENDING, ROTATE, hashes
from tests.wina_core.engine.engine_events import evaluate
from tests.wina_core.engine.fake_pool import Pool
from tests.wina_core.samples import timed
from wina_core.jobs import (
    Cancel,
    Done,
    EvaluateJob,
    Failed,
    Held,
    LatencyJob,
    Measured,
    Partial,
    Pause,
    Resume,
    RotateJob,
    RunStarted,
    Shutdown,
    Started,
    Submit,
)
from wina_core.specs.latency import LatencySpec, Shape


def test_cancelling_reaches_all_parts_and_drops_what_is_left(pool: Pool) -> None:
    pool.submit("a", evaluate(*PLAIN), engines=2)
    pool.pool.send(Cancel(job_id="a"))
    for client in pool.clients:
        client.given(kind=Cancel)
        client.say(Done(job_id=client.job_id, cancelled=True))
    assert pool.events.end("a") == Done(job_id="a", cancelled=True)
    assert [len(client.submits) for client in pool.clients] == [1, 1]


def test_a_waiting_job_is_cancelled_at_once(pool: Pool) -> None:
    for job_id in "abc":
        pool.submit(job_id, INSPECT)
    pool.pool.send(Cancel(job_id="c"))
    assert pool.events.end("c") == Done(job_id="c", cancelled=True)


def test_a_job_is_held_once_all_its_engines_hold_and_later_ones_begin_elsewhere(make: Callable[..., Pool]) -> None:
    pool = make(3)
    pool.submit("a", evaluate(*PLAIN[:2]))
    first, second, third = pool.clients
    second.given()
    pool.pool.send(Pause(job_id="a"))
    for client in (first, second):
        client.given(kind=Pause)
    pool.pool.send(Submit(job_id="b", job=INSPECT, priority="normal"))
    first.say(Held(job_id=first.job_id, held=True))
    pool.settle()
    assert not any(isinstance(event, Held) for event in pool.events.all)
    second.complete()
    assert pool.events.wait(Held) == Held(job_id="a", held=True)
    pool.settle()
    assert third.submits[-1].job == INSPECT
    assert len(second.submits) == 1
    assert not any(isinstance(request, Cancel) for request in first.sent), "an engine was free"
    pool.pool.send(Resume(job_id="a"))
    first.given(kind=Resume)
    first.complete()
    assert pool.events.end("a") == Done(job_id="a")
    assert [event.held for event in pool.events.all if isinstance(event, Held)] == [True, False]


def test_a_paused_evaluation_gives_up_its_engine_and_loses_only_the_measurement_in_flight(
    make: Callable[..., Pool],
) -> None:
    pool = make(1)
    pool.submit("a", evaluate(*PLAIN[:2]))
    (engine,) = pool.clients
    engine.given()
    engine.finish(PLAIN_PENDING[0])
    engine.say(RunStarted(job_id=engine.job_id, run=hashes(PLAIN[1])[0]))
    pool.pool.send(Pause(job_id="a"))
    pool.submit("b", ROTATE)
    engine.given(kind=Pause)
    pool.settle()
    assert not any(isinstance(request, Cancel) for request in engine.sent), "it has not reached a batch yet"
    engine.say(Held(job_id=engine.job_id, held=True))
    engine.given(kind=Cancel)
    engine.say(Done(job_id=engine.job_id, cancelled=True))
    engine.given(2)
    assert engine.submits[-1].job == ROTATE
    held = [event for event in pool.events.all if isinstance(event, Held)]
    assert held == [Held(job_id="a", held=True), Held(job_id="a", held=True, released=True)]
    engine.complete()
    assert pool.events.end("b") == Done(job_id="b")
    pool.settle()
    assert len(engine.submits) == 2, "it waits to be resumed"
    pool.pool.send(Resume(job_id="a"))
    engine.given(3)
    assert engine.runs == PLAIN_PENDING[1:2]
    engine.complete()
    assert pool.events.end("a") == Done(job_id="a")
    assert sum(isinstance(event, Partial) for event in pool.events.all) == 4


def test_a_paused_rotation_begins_again_after_the_job_that_took_its_engine(make: Callable[..., Pool]) -> None:
    pool = make(1)
    pool.submit("a", ROTATE)
    (engine,) = pool.clients
    engine.given()
    pool.pool.send(Pause(job_id="a"))
    pool.submit("b", evaluate(*PLAIN[:1]))
    engine.say(Held(job_id=engine.job_id, held=True))
    engine.given(kind=Cancel)
    pool.pool.send(Resume(job_id="a"))
    engine.say(Done(job_id=engine.job_id, cancelled=True))
    engine.given(2)
    engine.complete()
    engine.given(3)
    engine.complete()
    for job_id in "ab":
        assert pool.events.end(job_id) == Done(job_id=job_id)
    assert [type(each.job) for each in engine.submits] in (
        [RotateJob, RotateJob, EvaluateJob],
        [RotateJob, EvaluateJob, RotateJob],
    )


def test_a_paused_sweep_gives_up_its_engine_and_keeps_its_points(make: Callable[..., Pool]) -> None:
    spec = LatencySpec(shapes=(Shape(outputs=8, inputs=16),), sparsities=(0.5, 0.8), methods=("wina",))
    first, *_ = points = [timed(each) for each in spec.points()]
    earlier = points[-1].point.content_hash()
    key = first.environment.key
    pool = make(1)
    pool.submit("a", LatencyJob(spec=spec, stored={key: (earlier,)}))
    (engine,) = pool.clients
    engine.given()
    engine.say(Measured(job_id=engine.job_id, record=first))
    pool.pool.send(Pause(job_id="a"))
    pool.submit("b", evaluate(*PLAIN[:1]))
    engine.say(Held(job_id=engine.job_id, held=True))
    engine.given(kind=Cancel)
    engine.say(Done(job_id=engine.job_id, cancelled=True))
    engine.given(2)
    pool.pool.send(Resume(job_id="a"))
    engine.complete()
    engine.given(3)
    rest = engine.submits[-1].job
    assert isinstance(rest, LatencyJob)
    assert {name: set(hashes) for name, hashes in rest.stored.items()} == {key: {earlier, first.point.content_hash()}}


def test_a_waiting_job_that_is_paused_is_passed_over(make: Callable[..., Pool]) -> None:
    pool = make(1)
    for job_id in "abc":
        pool.submit(job_id, INSPECT)
    pool.pool.send(Pause(job_id="b"))
    assert pool.events.wait(Held) == Held(job_id="b", held=True)
    pool.clients[0].complete()
    pool.clients[0].given(2)
    assert pool.events.wait(Started, lambda event: event.job_id == "c")
    pool.clients[0].complete()
    pool.pool.send(Resume(job_id="b"))
    pool.clients[0].given(3)
    pool.clients[0].complete()
    assert pool.events.end("b") == Done(job_id="b")


def test_stopping_ends_all_jobs_as_cancelled_and_the_pool_can_start_again(pool: Pool) -> None:
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
    pool.pool.stop()
    pool.submit("c", INSPECT)
    pool.clients[0].given(2)
    pool.clients[0].complete()
    assert pool.events.end("c") == Done(job_id="c")
