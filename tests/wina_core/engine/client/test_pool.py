"""Several engines as one: the assignment of work, the events of the pool, and the end of an engine."""

import itertools
from collections.abc import Callable, Iterable
from math import ceil

import pytest

from tests.wina_core.engine.engine_events import DEMO, evaluate, run
from tests.wina_core.engine.fake_pool import Pool
from wina_core.engine.client.job_queue import UnassignedRuns
from wina_core.jobs import (
    Done,
    EvaluateJob,
    Failed,
    InspectJob,
    Log,
    Move,
    Partial,
    PendingRun,
    Prioritize,
    Progress,
    Queued,
    RotateJob,
    RunFailed,
    RunFinished,
    Started,
)
from wina_core.specs import NO_ROTATION, RotationSpec, RunSpec
from wina_core.specs.runs import measurement_key

ROTATED = RotationSpec(attention_basis=("qkv",), mlp_basis=("gate_up",))


def rotated(spec: RunSpec) -> RunSpec:
    return spec.model_copy(update={"rotation": ROTATED})


PLAIN = tuple(run(sparsity) for sparsity in (0.2, 0.4, 0.6, 0.8))
INSPECT = InspectJob(model=DEMO)
ROTATE = RotateJob(model=DEMO, rotation=ROTATED)
PLAIN_PENDING = evaluate(*PLAIN).runs


def hashes(*runs: PendingRun | RunSpec) -> list[str]:
    return [(each.spec if isinstance(each, PendingRun) else each).content_hash() for each in runs]


def finished(pool: Pool, job_id: str = "a") -> list[str]:
    return sorted(event.run for event in pool.events.of(job_id) if isinstance(event, RunFinished))


# ---- the assignment of work ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engines", [1, 2, 3, 5])
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_every_run_is_handed_out_once_in_pieces_of_one_model(engines: int, groups: int) -> None:
    rotations = [NO_ROTATION, ROTATED, RotationSpec(mode="per_layer"), RotationSpec(mode="per_site")][:groups]
    runs = [spec.model_copy(update={"rotation": rotation}) for spec in PLAIN for rotation in rotations]
    unassigned, pieces = UnassignedRuns(evaluate(*runs).runs), []
    while piece := unassigned.take(None, engines):
        pieces.append(piece)
    assert sorted(hashes(*itertools.chain(*pieces))) == sorted(hashes(*runs))
    assert all(len({pending.spec.rotation for pending in piece}) == 1 for piece in pieces)
    fair = len(PLAIN) if engines == 1 else ceil(len(runs) / engines / 2)
    assert len(pieces[0]) == min(fair, len(PLAIN)), "half of its share of all, whole for one engine"
    assert not unassigned


def test_engines_take_different_models_and_continue_with_the_one_that_they_hold(pool: Pool) -> None:
    pool.submit("a", evaluate(*PLAIN[:2], *map(rotated, PLAIN[:2])), engines=2)
    first, second = pool.clients
    assert hashes(*first.runs) == hashes(PLAIN[0])
    assert hashes(*second.runs) == hashes(rotated(PLAIN[0]))
    second.complete()
    second.given(2)
    assert hashes(*second.runs) == hashes(rotated(PLAIN[1]))
    first.complete()
    first.given(2)
    assert hashes(*first.runs) == hashes(PLAIN[1])
    first.complete()
    second.complete()
    pool.done("a")


def test_jobs_begin_in_the_order_that_the_user_puts_them_in(make: Callable[..., Pool]) -> None:
    pool = make(1)
    for job_id in ("begun", "a", "b", "c"):
        pool.submit(job_id, INSPECT)
    pool.pool.send(Move(job_id="c", before="a"))
    pool.pool.send(Prioritize(job_id="a", priority="low"))
    pool.pool.send(Move(job_id="begun", before=None))
    for count in range(1, 5):
        pool.clients[0].given(count)
        pool.clients[0].complete()
    pool.settle()
    assert [event.job_id for event in pool.events.all if isinstance(event, Started)] == ["begun", "c", "b", "a"]
    moved = [event for event in pool.events.all if isinstance(event, Queued)][4:]
    assert [(event.job_id, event.before, event.priority) for event in moved] == [
        ("c", "a", "first"),
        ("a", None, "low"),
    ]


# ---- the events of the pool ------------------------------------------------------------------------------------------


def test_the_parts_of_a_job_look_like_one(make: Callable[..., Pool]) -> None:
    pool = make(eager=True)
    pool.submit("a", evaluate(*PLAIN, *map(rotated, PLAIN)))
    pool.done("a")
    events = pool.events.of("a")
    assert [type(event) for event in events if isinstance(event, Queued | Started)] == [Queued, Started]
    assert finished(pool) == sorted(hashes(*PLAIN, *map(rotated, PLAIN)))
    assert sum(isinstance(event, Partial) for event in events) == 2 * 2 * len(PLAIN)
    assert sum(isinstance(event, Done | Failed) for event in events) == 1
    assert all(client.submits for client in pool.clients)


def test_progress_is_the_sum_of_the_parts(pool: Pool) -> None:
    pool.submit("a", evaluate(*PLAIN[:2]), engines=2)
    first, second = pool.clients
    for client, done in ((first, 1.5), (second, 0.25), (first, 2.0)):
        client.say(Progress(job_id=client.job_id, done=done, total=2, unit="measurements", metric=f"{done}"))
    first.complete()
    second.say(Progress(job_id=second.job_id, done=2, total=2, unit="measurements", metric="last"))
    last = pool.events.wait(Progress, lambda event: event.metric == "last")
    assert (last.done, last.total, last.unit) == (4.0, 4.0, "measurements")
    shown = [event.done for event in pool.events.all if isinstance(event, Progress)]
    assert shown[0] == 1.5
    assert shown == sorted(shown)


def test_the_time_left_is_that_of_the_missing_measurements_on_all_engines(pool: Pool) -> None:
    job = evaluate(*PLAIN[:2])
    stored = {measurement_key(PLAIN[0], unit): 100.0 for unit in PLAIN[0].evaluation.units}
    pool.submit("a", job.model_copy(update={"stored": stored}), engines=2)
    first, second = pool.clients
    first.begin(first.runs[0])
    second.begin(second.runs[0])
    first.say(Progress(job_id=first.job_id, done=0.5, total=2, unit="measurements", stage="rotation", metric="half"))
    half = pool.events.wait(Progress, lambda event: event.metric == "half")
    assert (half.eta_seconds, half.label) == (400.0 * 7 / 8 / 2, "half")
    assert first.job.stored == second.job.stored == {}  # type: ignore[union-attr]


def test_a_job_without_runs_ends_and_an_id_that_is_queued_is_refused(pool: Pool) -> None:
    for _ in range(2):
        pool.submit("a", EvaluateJob(runs=()), engines=1)
    assert "queued already" in pool.events.wait(Log).text
    pool.clients[0].complete()
    pool.done("a")
    assert len(pool.clients[0].submits) == 1


# ---- an engine's end -------------------------------------------------------------------------------------------------


def units_of(runs: Iterable[PendingRun]) -> list[tuple[str, str]]:
    return sorted((pending.spec.content_hash(), unit) for pending in runs for unit in pending.units)


@pytest.mark.parametrize("engines", [1, 2])
def test_what_a_dead_engine_left_is_computed_without_the_units_that_arrived(
    make: Callable[..., Pool], engines: int
) -> None:
    pool, job = make(engines), evaluate(*PLAIN, *map(rotated, PLAIN[:2]))
    pool.submit("a", job, engines=engines)
    first = pool.clients[0]
    lost = first.runs[1]
    first.finish(first.runs[0])
    first.begin(lost, lost.units[0])
    first.die()
    first.given(2)
    for _ in range(20):
        for client in pool.clients:
            if client.busy:
                client.complete()
        pool.settle()
    pool.done("a")
    events = pool.events.of("a")
    partials = [(event.unit.run, event.unit.unit) for event in events if isinstance(event, Partial)]
    assert sorted(partials) == units_of(job.runs), "each once"
    assert finished(pool) == sorted(hashes(*job.runs))
    assert not any(isinstance(event, RunFailed) for event in events)
    assert "tried again, in engine 2 of at most 3" in pool.events.wait(Log).text


def test_a_run_that_ends_three_engines_fails_and_the_others_are_computed(make: Callable[..., Pool]) -> None:
    pool = make(1)
    pool.submit("a", evaluate(*PLAIN), engines=1)
    engine, deadly = pool.clients[0], hashes(PLAIN[0])[0]
    while engine.busy:
        for pending in engine.runs:
            if pending.spec.content_hash() == deadly:
                engine.begin(pending)
                engine.die("was killed because memory ran out")
                break
            engine.finish(pending)
        else:
            engine.complete()
        pool.settle()
    pool.done("a")
    failed = pool.events.wait(RunFailed)
    assert (failed.job_id, failed.run, failed.detail) == ("a", deadly, "tail")
    assert "ended 3 engines" in failed.error
    assert "lower the batch size" in failed.error
    assert len(engine.submits) == 3
    assert finished(pool) == sorted(hashes(*PLAIN[1:]))


def test_a_dead_engine_fails_a_job_without_runs(make: Callable[..., Pool]) -> None:
    pool = make(1)
    pool.submit("a", INSPECT, engines=1)
    failed = pool.clients[0].die()
    assert pool.events.end("a") == failed.model_copy(update={"job_id": "a"})


@pytest.mark.parametrize("job", [INSPECT, evaluate(*PLAIN)], ids=lambda job: job.kind)
def test_a_job_that_an_engine_had_not_begun_is_given_out_again_but_not_for_ever(
    make: Callable[..., Pool], job: InspectJob | EvaluateJob
) -> None:
    pool = make(1)
    (engine,) = pool.clients
    for job_id, losses in (("a", 2), ("b", 3)):
        before = len(engine.submits)
        pool.submit(job_id, job)
        for loss in range(losses):
            engine.given(before + loss + 1)
            assert engine.job == job
            failed = engine.die(not_begun=True)
        if losses == 2:
            engine.given(before + 3)
            engine.complete()
            pool.done(job_id)
        else:
            assert pool.events.end(job_id) == failed.model_copy(update={"job_id": job_id})


def test_a_job_fails_where_no_engine_can_start(pool: Pool) -> None:
    pool.submit("a", evaluate(*PLAIN), engines=2)
    while not any(isinstance(event, Failed) for event in pool.events.all):
        for client in pool.clients:
            if client.busy:
                client.say(Failed(job_id=client.job_id, error="The engine could not start.", detail="no torch"))
        pool.settle()
    assert pool.events.end("a") == Failed(job_id="a", error="The engine could not start.", detail="no torch")
    assert not any(isinstance(event, RunFailed) for event in pool.events.all)


def test_an_engine_that_cannot_start_beside_one_that_can_fails_its_runs(pool: Pool) -> None:
    pool.submit("a", evaluate(*PLAIN[:2]), engines=2)
    first, second = pool.clients
    lost = hashes(*first.runs)
    first.say(Failed(job_id=first.job_id, error="The engine could not start."))
    second.complete()
    pool.done("a")
    assert [event.run for event in pool.events.all if isinstance(event, RunFailed)] == lost
