"""The light engine, and evaluations that make room for what a user waits for."""

import threading
from collections.abc import Callable

import pytest

from tests.wina_core.engine.engine_events import DEMO, PATIENCE, WINA, evaluate, run
from tests.wina_core.engine.fake_pool import FakeClient, Pool
from wina_core.jobs import (
    Assigned,
    Cancel,
    Done,
    Failed,
    Held,
    InspectGateJob,
    InspectJob,
    LatencyJob,
    Move,
    Partial,
    Pause,
    Queued,
    Release,
    Resume,
    RotateJob,
    RunStarted,
    Submit,
)
from wina_core.records import UnitRecord
from wina_core.records.gates import GateTarget
from wina_core.specs import RotationSpec
from wina_core.specs.latency import LatencySpec, Shape

CRASH = "The engine was killed from outside."
PLAIN = tuple(run(sparsity) for sparsity in (0.2, 0.4, 0.6, 0.8))
PLAIN_PENDING = evaluate(*PLAIN).runs
INSPECT = InspectJob(model=DEMO)
GATE = InspectGateJob(
    model=DEMO.model_copy(update={"dtype": "bfloat16"}),
    rotation=RotationSpec(mode="none"),
    layer=0,
    projection="q",
    prompt="a",
    gates=(GateTarget(method=WINA, target=0.5),),
)
SWEEP = LatencyJob(spec=LatencySpec(shapes=(Shape(outputs=8, inputs=8),), methods=("wina",)))
ROTATE = RotateJob(model=DEMO, rotation=RotationSpec(attention_basis=("qkv",), mlp_basis=("gate_up",)))


def test_what_the_user_waits_for_goes_to_the_light_engine_while_the_others_are_busy(make: Callable[..., Pool]) -> None:
    pool = make(2, light=True)
    first, second, light = pool.clients
    pool.submit("look", INSPECT)
    first.given()
    first.complete()
    assert light.pid is None, "nothing keeps the others busy"
    pool.submit("a", evaluate(*PLAIN[:2]), engines=2)
    assert light.started.wait(PATIENCE), "it starts before it is needed"
    assert not light.submits
    pool.submit("b", ROTATE)
    pool.submit("c", INSPECT)
    light.given()
    assert light.submits[-1].job == INSPECT, "never batch work"
    assert Assigned(engine=3, light=True, job="c") in pool.events.all
    light.say(Failed(job_id=light.job_id, error=CRASH, engine_end="crashed"))
    assert pool.events.end("c") == Failed(job_id="c", error=CRASH, engine_end="crashed")
    pool.submit("d", INSPECT)
    light.given(2)
    light.complete()
    for client in (first, second):
        client.complete()
    first.given(3)
    first.complete()
    for job_id in "abd":
        assert pool.events.end(job_id) == Done(job_id=job_id)


@pytest.fixture
def lossless(monkeypatch: pytest.MonkeyPatch) -> None:
    """No measurement is short enough to be given up."""
    monkeypatch.setattr("wina_core.engine.client.workers.SHORT_SECONDS", 0.0)


def asked_to_make_room(make: Callable[..., Pool]) -> tuple[Pool, FakeClient]:
    """A pool without room for its light engine, whose other one is asked to release evaluation "a" for "b"."""
    pool = make(1, light=True)
    pool.room = False
    engine, _ = pool.clients
    pool.submit("a", evaluate(*PLAIN[:2]))
    pool.submit("b", INSPECT)
    engine.given(kind=Release)
    return pool, engine


@pytest.mark.usefixtures("lossless")
def test_without_memory_for_it_an_evaluation_makes_room_and_continues(make: Callable[..., Pool]) -> None:
    pool = make(1, light=True)
    pool.room = False
    engine, light = pool.clients
    pool.submit("a", evaluate(*PLAIN))
    engine.given()
    engine.finish(PLAIN_PENDING[0])
    engine.say(RunStarted(job_id=engine.job_id, run=PLAIN_PENDING[1].spec.content_hash()))
    pool.submit("b", INSPECT)
    engine.given(kind=Release)
    assert pool.events.wait(Queued, lambda event: bool(event.reason)).job_id == "b"
    second = PLAIN_PENDING[1]
    record = UnitRecord(run=second.spec.content_hash(), unit=second.units[0], metrics=(), seconds=1.0)
    engine.say(Partial(job_id=engine.job_id, unit=record), Done(job_id=engine.job_id))
    engine.given(2)
    assert engine.submits[-1].job == INSPECT
    engine.complete()
    engine.given(3)
    rest = second.model_copy(update={"units": second.units[1:]})
    assert {each.spec.content_hash(): each for each in engine.runs} == {
        each.spec.content_hash(): each for each in (rest, *PLAIN_PENDING[2:])
    }
    engine.complete()
    assert pool.events.end("a") == Done(job_id="a")
    assert light.pid is None
    units = [(event.unit.run, event.unit.unit) for event in pool.events.all if isinstance(event, Partial)]
    assert len(units) == len(set(units)) == sum(len(each.units) for each in PLAIN_PENDING)


def test_what_cannot_make_room_is_named(make: Callable[..., Pool]) -> None:
    pool = make(1, light=True)
    pool.room = False
    pool.submit("a", ROTATE, engines=1)
    pool.submit("b", INSPECT)
    assert "rotate" in pool.events.wait(Queued, lambda event: bool(event.reason)).reason
    pool.clients[0].complete()
    pool.clients[0].given(2)
    assert pool.events.wait(Queued, lambda event: event.job_id == "b" and not event.reason)
    pool.clients[0].complete()
    assert pool.events.end("b") == Done(job_id="b")


def test_the_light_engine_ends_when_nobody_needs_it(make: Callable[..., Pool], monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while others work, and then it starts no more ahead of its first job."""
    for module in ("pool", "workers"):
        monkeypatch.setattr(f"wina_core.engine.client.{module}.IDLE_SECONDS", 0.01)
    pool = make(1, light=True)
    engine, light = pool.clients
    stopped = threading.Event()
    stop = light.stop
    monkeypatch.setattr(light, "stop", lambda: (stop(), stopped.set()))
    pool.submit("a", evaluate(*PLAIN), engines=1)
    assert light.started.wait(PATIENCE)
    assert stopped.wait(PATIENCE)
    light.started.clear()
    engine.complete()
    pool.submit("b", evaluate(*PLAIN))
    engine.given(2)
    pool.settle()
    assert not light.started.is_set()
    pool.submit("c", INSPECT)
    light.given()


def test_a_measurement_that_has_just_begun_is_given_up_once_for_each_result(make: Callable[..., Pool]) -> None:
    """A stream of interactive jobs delays an evaluation, and never stops it."""
    pool = make(1, light=True)
    pool.room = False
    engine, _ = pool.clients
    pool.submit("a", evaluate(*PLAIN[:2]), engines=1)
    pool.submit("b", INSPECT)
    engine.given(kind=Cancel)
    engine.say(Done(job_id=engine.job_id, cancelled=True))
    engine.given(2)
    engine.complete()
    engine.given(3)
    pool.submit("c", INSPECT)
    engine.given(kind=Release)
    assert pool.events.wait(Queued, lambda event: event.job_id == "c" and "current measurement" in event.reason)
    run = PLAIN_PENDING[0]
    name = run.spec.content_hash()
    record = UnitRecord(run=name, unit=run.units[0], metrics=(), seconds=1.0)
    engine.say(RunStarted(job_id=engine.job_id, run=name), Partial(job_id=engine.job_id, unit=record))
    engine.say(Done(job_id=engine.job_id))
    engine.given(4)
    engine.complete()
    engine.given(5)
    pool.submit("d", INSPECT)
    engine.given(2, kind=Cancel)
    engine.say(Done(job_id=engine.job_id, cancelled=True))
    engine.given(6)
    engine.complete()
    engine.given(7)
    engine.complete()
    assert pool.events.end("a") == Done(job_id="a")


@pytest.mark.usefixtures("lossless")
def test_the_reason_for_waiting_says_how_long_about(make: Callable[..., Pool]) -> None:
    pool = make(1, light=True)
    pool.room = False
    engine, _ = pool.clients
    pool.submit("a", evaluate(*PLAIN), engines=1)
    for unit in (run := PLAIN_PENDING[0]).units:
        name = run.spec.content_hash()
        record = UnitRecord(run=name, unit=unit, metrics=(), seconds=600.0)
        engine.say(RunStarted(job_id=engine.job_id, run=name), Partial(job_id=engine.job_id, unit=record))
    engine.say(RunStarted(job_id=engine.job_id, run=PLAIN_PENDING[1].spec.content_hash()))
    pool.submit("b", INSPECT)
    assert pool.events.wait(Queued, lambda event: bool(event.reason)).reason.endswith("measurement, about 10 min")


def test_nothing_disturbs_a_timed_sweep(make: Callable[..., Pool]) -> None:
    """The light engine neither starts nor computes; the sweep makes room after its point, and waits for that work."""
    pool = make(1, light=True)
    engine, light = pool.clients
    pool.submit("a", SWEEP, engines=1)
    pool.submit("b", INSPECT)
    engine.given(kind=Release)
    assert "timings" in pool.events.wait(Queued, lambda event: bool(event.reason)).reason
    engine.say(Done(job_id=engine.job_id, cancelled=True))
    engine.given(2)
    assert engine.submits[-1].job == INSPECT
    assert light.pid is None
    engine.complete()
    engine.given(3)
    engine.complete()
    assert pool.events.end("a") == Done(job_id="a")
    pool.submit("c", ROTATE)
    pool.submit("d", INSPECT)
    light.given()
    engine.given(4)
    pool.submit("e", SWEEP)
    engine.complete()
    assert "timings" in pool.events.wait(Queued, lambda event: event.job_id == "e" and bool(event.reason)).reason
    assert len(engine.submits) == 4
    light.complete()
    engine.given(5)


def test_a_model_that_is_being_loaded_counts_as_memory(make: Callable[..., Pool]) -> None:
    pool = make(2, light=True)
    engine, _, _ = pool.clients
    pool.submit("a", evaluate(*PLAIN[:2]), engines=2)
    pool.submit("b", INSPECT)
    pool.clients[-1].given()
    assert pool.loading == [DEMO, DEMO]
    engine.finish(*engine.runs)
    pool.clients[-1].complete()
    pool.submit("c", GATE)
    pool.clients[-1].given(2)
    assert pool.loading == [DEMO]


@pytest.mark.usefixtures("lossless")
def test_an_engine_that_was_given_up_goes_to_the_job_that_it_was_given_up_for(make: Callable[..., Pool]) -> None:
    """An evaluation ahead of it in the queue would take it back, only to give it up again, without end."""
    pool = make(1, light=True)
    pool.room = False
    engine, _ = pool.clients
    pool.pool.send(Submit(job_id="a", job=evaluate(*PLAIN[:2]), priority="first"))
    engine.given()
    pool.pool.send(Submit(job_id="c", job=evaluate(*PLAIN[2:])))
    pool.submit("b", INSPECT)
    pool.pool.send(Move(job_id="c", before="b"))
    engine.given(kind=Release)
    engine.say(Done(job_id=engine.job_id))
    engine.given(2)
    assert engine.submits[-1].job == INSPECT
    pool.settle()
    assert sum(isinstance(request, Release) for request in engine.sent) == 1
    for count in (3, 4):
        engine.complete()
        engine.given(count)
    engine.complete()
    for job_id in "abc":
        assert pool.events.end(job_id) == Done(job_id=job_id)


@pytest.mark.usefixtures("lossless")
def test_an_evaluation_that_is_paused_while_it_makes_room_gives_up_its_measurement(make: Callable[..., Pool]) -> None:
    pool, engine = asked_to_make_room(make)
    pool.pool.send(Pause(job_id="a"))
    engine.given(kind=Pause)
    engine.say(Held(job_id=engine.job_id, held=True))
    engine.given(kind=Cancel)
    engine.say(Done(job_id=engine.job_id, cancelled=True))
    engine.given(2)
    assert engine.submits[-1].job == INSPECT
    engine.complete()
    assert pool.events.end("b") == Done(job_id="b")
    pool.pool.send(Resume(job_id="a"))
    engine.given(3)
    engine.complete()
    assert pool.events.end("a") == Done(job_id="a")


@pytest.mark.usefixtures("lossless")
def test_an_evaluation_that_made_room_before_its_pause_waits_for_the_end_of_it(make: Callable[..., Pool]) -> None:
    pool, engine = asked_to_make_room(make)
    pool.pool.send(Pause(job_id="a"))
    engine.given(kind=Pause)
    engine.say(Done(job_id=engine.job_id))
    engine.given(2)
    assert engine.submits[-1].job == INSPECT
    assert [event for event in pool.events.of("a") if isinstance(event, Held)] == [
        Held(job_id="a", held=True, released=True)
    ]
    engine.complete()
    assert pool.events.end("b") == Done(job_id="b")
    assert len(engine.submits) == 2
    pool.pool.send(Resume(job_id="a"))
    engine.given(3)
    engine.complete()
    assert pool.events.end("a") == Done(job_id="a")


@pytest.mark.usefixtures("lossless")
def test_the_job_that_an_engine_was_released_for_gets_one_where_it_dies(make: Callable[..., Pool]) -> None:
    pool, engine = asked_to_make_room(make)
    engine.say(RunStarted(job_id=engine.job_id, run=PLAIN_PENDING[0].spec.content_hash()))
    engine.say(Failed(job_id=engine.job_id, error=CRASH, engine_end="was killed"))
    engine.given(2)
    assert engine.submits[-1].job == INSPECT
    engine.complete()
    engine.given(3)
    engine.complete()
    assert pool.events.end("a") == Done(job_id="a")
