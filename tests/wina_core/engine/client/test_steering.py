"""Jobs that are cancelled, paused, stopped, or make room for what a user waits for; the light engine."""

from collections.abc import Callable

import pytest

from tests.wina_core.engine.engine_events import DEMO, PATIENCE, WINA, evaluate, run
from tests.wina_core.engine.fake_pool import FakeClient, Pool
from tests.wina_core.samples import timed
from wina_core.engine.client import pool as pool_module
from wina_core.jobs import (
    Assigned,
    Cancel,
    Done,
    Held,
    InspectGateJob,
    InspectJob,
    LatencyJob,
    Measured,
    Move,
    Partial,
    Pause,
    Queued,
    Resume,
    RotateJob,
)
from wina_core.records.gates import GateTarget
from wina_core.specs import RotationSpec
from wina_core.specs.latency import LatencySpec, Shape

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


@pytest.fixture
def crowded(make: Callable[..., Pool]) -> tuple[Pool, FakeClient]:
    """A pool without room for its light engine, and its only other engine."""
    pool = make(1, light=True)
    pool.room = False
    return pool, pool.clients[0]


def reason(pool: Pool, job_id: str) -> str:
    """Return why a job waits."""
    return pool.events.wait(Queued, lambda event: event.job_id == job_id and bool(event.reason)).reason


def test_what_the_user_waits_for_goes_to_the_light_engine_while_the_others_are_busy(make: Callable[..., Pool]) -> None:
    pool = make(2, light=True)
    first, second, light = pool.clients
    pool.submit("look", INSPECT, engines=1)
    first.complete()
    assert light.pid is None, "nothing keeps the others busy"
    pool.submit("a", evaluate(*PLAIN[:2]), engines=2)
    assert light.started.wait(PATIENCE), "it starts before it is needed"
    pool.submit("b", ROTATE)
    pool.submit("c", INSPECT)
    light.given()
    assert light.job == INSPECT, "never batch work"
    assert Assigned(engine=3, light=True, job="c") in pool.events.all
    failed = light.die("crashed")
    assert pool.events.end("c") == failed.model_copy(update={"job_id": "c"})
    pool.submit("d", INSPECT)
    light.given(2)
    for client in (light, first, second):
        client.complete()
    first.given(3)
    first.complete()
    pool.done("a", "b", "d")


def test_without_memory_for_it_an_evaluation_makes_room_and_continues(crowded: tuple[Pool, FakeClient]) -> None:
    pool, engine = crowded
    pool.submit("a", evaluate(*PLAIN), engines=1)
    engine.finish(PLAIN_PENDING[0])
    engine.begin(second := PLAIN_PENDING[1])
    pool.submit("b", INSPECT)
    assert "current measurement" in reason(pool, "b")
    assert not any(isinstance(request, Cancel) for request in engine.sent)
    engine.begin(second, second.units[0])
    engine.given(kind=Cancel)
    engine.cancelled()
    engine.given(2)
    assert engine.job == INSPECT
    engine.complete()
    engine.given(3)
    rest = second.model_copy(update={"units": second.units[1:]})
    assert {each.spec.content_hash(): each for each in engine.runs} == {
        each.spec.content_hash(): each for each in (rest, *PLAIN_PENDING[2:])
    }
    engine.complete()
    pool.done("a")
    assert pool.clients[-1].pid is None
    units = [(event.unit.run, event.unit.unit) for event in pool.events.all if isinstance(event, Partial)]
    assert len(units) == len(set(units)) == sum(len(each.units) for each in PLAIN_PENDING)


def test_what_cannot_make_room_is_named(crowded: tuple[Pool, FakeClient]) -> None:
    pool, engine = crowded
    pool.submit("a", ROTATE, engines=1)
    pool.submit("b", INSPECT)
    assert "rotate" in reason(pool, "b")
    engine.complete()
    engine.given(2)
    assert pool.events.wait(Queued, lambda event: event.job_id == "b" and not event.reason)
    engine.complete()
    pool.done("b")


def test_the_light_engine_gives_back_the_memory_of_a_model_that_nobody_needs(
    make: Callable[..., Pool], monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = make(1, light=True)
    light = pool.clients[-1]
    pool.submit("a", evaluate(*PLAIN), engines=1)
    assert light.started.wait(PATIENCE)
    monkeypatch.setattr(pool_module, "IDLE_SECONDS", 0.0)
    pool.settle()
    assert not light.stopped.is_set(), "it holds no model"
    pool.submit("b", INSPECT)
    light.given()
    light.started.clear()
    light.complete()
    assert light.stopped.wait(PATIENCE)
    assert light.started.wait(PATIENCE), "for the next job, as long as the others are busy"
    pool.submit("c", INSPECT)
    light.given(2)


def test_nothing_disturbs_a_timed_sweep(make: Callable[..., Pool]) -> None:
    """The light engine neither starts nor computes; the sweep makes room after its point, and waits for that work."""
    pool = make(1, light=True)
    engine, light = pool.clients
    pool.submit("a", SWEEP, engines=1)
    pool.submit("b", INSPECT)
    assert "timings" in reason(pool, "b")
    engine.say(Measured(job_id=engine.job_id, record=timed(SWEEP.spec.points()[0])))
    engine.given(kind=Cancel)
    engine.cancelled()
    engine.given(2)
    assert engine.job == INSPECT
    assert light.pid is None
    engine.complete()
    engine.given(3)
    engine.complete()
    pool.done("a")
    pool.submit("c", ROTATE)
    pool.submit("d", INSPECT)
    light.given()
    engine.given(4)
    pool.submit("e", SWEEP)
    engine.complete()
    assert "timings" in reason(pool, "e")
    assert len(engine.submits) == 4
    light.complete()
    engine.given(5)
    assert light.stopped.wait(PATIENCE)


def test_a_model_that_is_being_loaded_counts_as_memory(make: Callable[..., Pool]) -> None:
    pool = make(2, light=True)
    engine, _, light = pool.clients
    pool.submit("a", evaluate(*PLAIN[:2]), engines=2)
    pool.submit("b", INSPECT)
    light.given()
    assert pool.loading == [DEMO, DEMO]
    engine.finish(*engine.runs)
    light.complete()
    pool.submit("c", GATE)
    light.given(2)
    assert pool.loading == [DEMO]


def test_an_engine_that_was_given_up_goes_to_the_job_that_it_was_given_up_for(crowded: tuple[Pool, FakeClient]) -> None:
    """An evaluation ahead of it in the queue would take it back, only to give it up again, without end."""
    pool, engine = crowded
    pool.submit("a", evaluate(*PLAIN[:2]), engines=1, priority="first")
    pool.submit("c", evaluate(*PLAIN[2:]))
    pool.submit("b", INSPECT)
    pool.pool.send(Move(job_id="c", before="b"))
    pool.settle()
    engine.begin(engine.runs[0], engine.runs[0].units[0])
    engine.given(kind=Cancel)
    engine.cancelled()
    engine.given(2)
    assert engine.job == INSPECT
    for count in (3, 4):
        engine.complete()
        engine.given(count)
    engine.complete()
    pool.done(*"abc")
    assert sum(isinstance(request, Cancel) for request in engine.sent) == 1


# ---- cancelling, pausing and stopping --------------------------------------------------------------------------------


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
