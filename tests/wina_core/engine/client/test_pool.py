"""Several engines as one: who gets what, what the pool's client is told, and what becomes of an engine's end."""

import itertools
from collections.abc import Callable, Iterable
from math import ceil
from pathlib import Path

import pytest

from tests.benchmarks.grid_simulation import grid, simulate
from tests.wina_core.engine.engine_events import DEMO, SHORT, WINA, Events, evaluate, run
from tests.wina_core.engine.fake_pool import FakeClient, Pool
from wina_core.api.running import run_recorded
from wina_core.engine.client.job_queue import UnassignedRuns
from wina_core.engine.client.pool import EnginePool
from wina_core.jobs import (
    Cancel,
    Done,
    EvaluateJob,
    Event,
    Failed,
    Held,
    InspectJob,
    Log,
    Move,
    Partial,
    Pause,
    PendingRun,
    Prioritize,
    Progress,
    Queued,
    Ready,
    Resume,
    RotateJob,
    RunFailed,
    RunFinished,
    RunStarted,
    Started,
    Submit,
)
from wina_core.records import UnitRecord
from wina_core.specs import NO_ROTATION, Configuration, EvaluationSpec, RotationSpec, RunSpec
from wina_core.specs.runs import measurement_key
from wina_core.specs.studies import StudySpec
from wina_core.store import Recorder, Store

ROTATED = RotationSpec(attention_basis=("qkv",), mlp_basis=("gate_up",))
CRASH = "The engine was killed from outside."


def rotated(spec: RunSpec) -> RunSpec:
    return spec.model_copy(update={"rotation": ROTATED})


PLAIN = tuple(run(sparsity) for sparsity in (0.2, 0.4, 0.6, 0.8))
INSPECT = InspectJob(model=DEMO)
ROTATE = RotateJob(model=DEMO, rotation=ROTATED)
PLAIN_PENDING = evaluate(*PLAIN).runs


def hashes(*runs: PendingRun | RunSpec) -> list[str]:
    return [(each.spec if isinstance(each, PendingRun) else each).content_hash() for each in runs]


# ---- who gets what -----------------------------------------------------------------------------------------------


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


def test_an_engine_goes_on_with_the_model_that_it_holds() -> None:
    unassigned = UnassignedRuns(evaluate(*PLAIN, *map(rotated, PLAIN)).runs)
    assert hashes(*unassigned.take(None, 4)) == hashes(PLAIN[0])
    assert hashes(*unassigned.take((DEMO, ROTATED), 4)) == hashes(rotated(PLAIN[0]))


def test_runs_of_two_models_go_to_two_engines_at_once(pool: Pool) -> None:
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
    assert pool.events.end("a") == Done(job_id="a")


def test_engines_share_many_models_evenly_with_few_preparations() -> None:
    outcome = simulate(grid(1600, 20), engines=16, failures=4)
    assert outcome.preparing < 0.08
    assert outcome.idle < 0.05


def test_other_jobs_go_to_the_first_engine_that_is_free(pool: Pool) -> None:
    for job_id in "abc":
        pool.submit(job_id, INSPECT)
    first, second = pool.clients
    second.given()
    second.say(Log(level="info", text="reading", job_id=second.job_id), Done(job_id=second.job_id))
    assert pool.events.end("b") == Done(job_id="b")
    assert pool.events.wait(Log).job_id == "b"
    second.given(2)
    second.say(Failed(job_id=second.job_id, error="The folder is missing.", detail="tail"))
    assert pool.events.end("c") == Failed(job_id="c", error="The folder is missing.", detail="tail")
    first.complete()
    assert pool.events.end("a") == Done(job_id="a")


def test_the_next_job_begins_where_the_one_before_has_no_runs_left(pool: Pool) -> None:
    pool.submit("a", evaluate(*PLAIN[:2]), engines=2)
    pool.submit("b", INSPECT)
    pool.clients[0].complete()
    pool.clients[0].given(2)
    assert pool.clients[0].submits[-1].job == INSPECT


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


# ---- what the client is told -------------------------------------------------------------------------------------


@pytest.mark.parametrize("engines", [2, 3])
def test_the_parts_of_a_job_look_like_one(make: Callable[..., Pool], engines: int) -> None:
    pool = make(engines, eager=True)
    pool.submit("a", evaluate(*PLAIN, *map(rotated, PLAIN)))
    assert pool.events.end("a") == Done(job_id="a")
    told = pool.events.of("a")
    assert [type(event) for event in told if isinstance(event, Queued | Started)] == [Queued, Started]
    finished = [event.run for event in told if isinstance(event, RunFinished)]
    assert sorted(finished) == sorted(hashes(*PLAIN, *map(rotated, PLAIN)))
    assert sum(isinstance(event, Partial) for event in told) == 2 * len(finished)
    assert sum(isinstance(event, Done | Failed) for event in told) == 1
    assert all(client.submits for client in pool.clients)


def test_progress_is_the_sum_of_the_parts(pool: Pool) -> None:
    pool.submit("a", evaluate(*PLAIN[:2]), engines=2)
    first, second = pool.clients
    for client, done in ((first, 1.5), (second, 0.25), (first, 2.0)):
        client.say(Progress(job_id=client.job_id, done=done, total=2, unit="measurements", metric=f"{done}"))
    first.complete()
    second.say(Progress(job_id=second.job_id, done=2, total=2, unit="measurements", metric="last"))
    found = pool.events.wait(Progress, lambda event: event.metric == "last")
    assert (found.done, found.total, found.unit) == (4.0, 4.0, "measurements")
    shown = [event.done for event in pool.events.all if isinstance(event, Progress)]
    assert shown[0] == 1.5
    assert shown == sorted(shown)


def test_the_time_left_is_that_of_the_missing_measurements_on_all_engines(pool: Pool) -> None:
    job = evaluate(*PLAIN[:2])
    stored = {measurement_key(PLAIN[0], unit): 100.0 for unit in PLAIN[0].evaluation.units}
    pool.submit("a", job.model_copy(update={"stored": stored}), engines=2)
    first, second = pool.clients
    begun(first, first.runs[0])
    begun(second, second.runs[0])
    first.say(Progress(job_id=first.job_id, done=0.5, total=2, unit="measurements", stage="rotation", metric="half"))
    found = pool.events.wait(Progress, lambda event: event.metric == "half")
    assert (found.eta_seconds, found.label) == ((400.0 - 50.0) / 2, "half")
    assert all(request.job.stored == {} for client in pool.clients for request in client.submits)  # type: ignore[union-attr]


def test_a_job_without_runs_ends(make: Callable[..., Pool]) -> None:
    pool = make(eager=True)
    pool.submit("a", EvaluateJob(runs=()))
    assert pool.events.end("a") == Done(job_id="a")


def test_a_job_id_that_is_there_already_is_refused(pool: Pool) -> None:
    pool.submit("a", INSPECT)
    pool.submit("a", INSPECT)
    assert "queued already" in pool.events.wait(Log).text
    assert len(pool.clients[0].submits) == 1


# ---- an engine's end ---------------------------------------------------------------------------------------------


def died(client: FakeClient, end: str = "was killed from outside") -> Failed:
    return Failed(job_id=client.job_id, error=CRASH, detail="tail", engine_end=end)


def begun(client: FakeClient, pending: PendingRun, *units: str) -> None:
    """Begin a run of the last job, and measure some of its units."""
    name = pending.spec.content_hash()
    client.say(RunStarted(job_id=client.job_id, run=name))
    for unit in units:
        client.say(Partial(job_id=client.job_id, unit=UnitRecord(run=name, unit=unit, metrics=(), seconds=1.0)))


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
    begun(first, lost, lost.units[0])
    first.say(died(first))
    first.given(2)
    for _ in range(20):
        for client in pool.clients:
            if client.busy:
                client.complete()
        pool.settle()
    assert pool.events.end("a") == Done(job_id="a")
    told = pool.events.of("a")
    partials = [(event.unit.run, event.unit.unit) for event in told if isinstance(event, Partial)]
    assert sorted(partials) == units_of(job.runs), "each once"
    assert sorted(event.run for event in told if isinstance(event, RunFinished)) == sorted(hashes(*job.runs))
    assert not any(isinstance(event, RunFailed) for event in told)
    assert "tried again, in engine 2 of at most 3" in pool.events.wait(Log).text


def test_a_run_that_ends_three_engines_fails_and_the_others_are_computed(make: Callable[..., Pool]) -> None:
    pool = make(1)
    pool.submit("a", evaluate(*PLAIN), engines=1)
    engine, deadly = pool.clients[0], hashes(PLAIN[0])[0]
    while engine.busy:
        for pending in engine.runs:
            if pending.spec.content_hash() == deadly:
                begun(engine, pending)
                engine.say(died(engine, "was killed because memory ran out"))
                break
            engine.finish(pending)
        else:
            engine.complete()
        pool.settle()
    assert pool.events.end("a") == Done(job_id="a")
    failed = pool.events.wait(RunFailed)
    assert (failed.job_id, failed.run, failed.detail) == ("a", deadly, "tail")
    assert "ended 3 engines" in failed.error
    assert "lower the batch size" in failed.error
    assert len(engine.submits) == 3
    finished = [event.run for event in pool.events.of("a") if isinstance(event, RunFinished)]
    assert sorted(finished) == sorted(hashes(*PLAIN[1:]))


def test_an_engine_that_dies_after_the_last_unit_of_a_run_has_finished_it(make: Callable[..., Pool]) -> None:
    pool = make(1)
    pool.submit("a", evaluate(PLAIN[0]), engines=1)
    engine = pool.clients[0]
    begun(engine, engine.runs[0], *engine.runs[0].units)
    engine.say(died(engine))
    assert pool.events.end("a") == Done(job_id="a")
    assert [event.run for event in pool.events.of("a") if isinstance(event, RunFinished)] == hashes(PLAIN[0])
    assert len(engine.submits) == 1


def test_an_accelerators_fault_is_tried_again_in_a_new_engine(pool: Pool) -> None:
    pool.submit("a", evaluate(*PLAIN[:2]), engines=2)
    first, second = pool.clients
    for count in (1, 2, 3):
        first.given(count)
        begun(first, first.runs[0])
        first.say(Failed(job_id=first.job_id, error="A fault."))
    second.complete()
    assert pool.events.end("a") == Done(job_id="a")
    assert pool.events.wait(RunFailed).error.endswith("A fault.")


def test_progress_loses_no_more_than_the_unit_that_was_lost(make: Callable[..., Pool]) -> None:
    pool = make(1)
    pool.submit("a", evaluate(*PLAIN[:2]), engines=1)
    engine = pool.clients[0]

    def progress(done: float, total: float) -> float:
        engine.say(
            Progress(job_id=engine.job_id, done=done, total=total, unit="measurements", metric=f"{done} {total}")
        )
        return pool.events.wait(Progress, lambda event: event.metric == f"{done} {total}").done

    engine.finish(engine.runs[0])
    begun(engine, engine.runs[1], engine.runs[1].units[0])
    first, second = engine.runs
    assert len(first.units) == len(second.units) == 2
    engine.say(Progress(job_id=engine.job_id, done=3.5, total=4, unit="measurements"))
    engine.say(died(engine))
    engine.given(2)
    assert units_of(engine.runs) == [(second.spec.content_hash(), second.units[1])]
    assert progress(1, 1) == 4.0
    totals = {event.total for event in pool.events.of("a") if isinstance(event, Progress)}
    assert totals == {4.0}


def test_the_rest_of_a_dead_engine_waits_while_its_job_is_paused(make: Callable[..., Pool]) -> None:
    pool = make(1)
    pool.submit("a", evaluate(*PLAIN), engines=1)
    engine = pool.clients[0]
    begun(engine, engine.runs[0])
    pool.pool.send(Pause(job_id="a"))
    engine.given(kind=Pause)
    engine.say(died(engine))
    assert pool.events.wait(Held) == Held(job_id="a", held=True)
    pool.settle()
    assert len(engine.submits) == 1
    pool.pool.send(Resume(job_id="a"))
    engine.given(2)
    engine.complete()
    assert pool.events.end("a") == Done(job_id="a")


def test_an_engine_that_dies_while_its_job_is_cancelled_starts_no_other(make: Callable[..., Pool]) -> None:
    pool = make(1)
    pool.submit("a", evaluate(*PLAIN), engines=1)
    engine = pool.clients[0]
    begun(engine, engine.runs[0])
    pool.pool.send(Cancel(job_id="a"))
    engine.say(died(engine))
    assert pool.events.end("a") == Done(job_id="a", cancelled=True)
    assert len(engine.submits) == 1


def test_a_dead_engine_fails_a_job_without_runs(make: Callable[..., Pool]) -> None:
    pool = make(1)
    pool.submit("a", INSPECT)
    pool.clients[0].given()
    failed = died(pool.clients[0])
    pool.clients[0].say(failed)
    assert pool.events.end("a") == failed.model_copy(update={"job_id": "a"})


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
    assert pool.events.end("a") == Done(job_id="a")
    assert [event.run for event in pool.events.all if isinstance(event, RunFailed)] == lost


# ---- real engines ------------------------------------------------------------------------------------------------


@pytest.mark.nightly  # by day two engines are compared with one while they are killed: tests/trust/test_kills.py
@pytest.mark.usefixtures("engine_home")
def test_two_real_engines_compute_every_run_once_and_as_one_does(tmp_path: Path) -> None:
    evaluation = EvaluationSpec(fidelity=SHORT)
    runs = tuple(run(sparsity, evaluation) for sparsity in (0.2, 0.4, 0.6))
    study = StudySpec(
        name="pool",
        models=(DEMO,),
        configurations=(Configuration(method=WINA),),
        sparsities=(0.2, 0.4, 0.6),
        evaluation=evaluation,
    )
    events, pids = Events(), set[int]()
    with Store(tmp_path / "pool.sqlite") as store:
        store.save_study(study, runs)
        job = EvaluateJob(runs=tuple(store.pending(runs)))
        recorder = Recorder(store, job)

        def on_event(event: Event) -> None:
            recorder.record(event)
            events(event)

        pool = EnginePool(on_event, [{"OMP_NUM_THREADS": "1"}] * 2)
        pool.send(Submit(job_id="job", job=job))
        assert events.end("job") == Done(job_id="job")
        pids = {event.pid for event in events.all if isinstance(event, Ready)}
        pool.stop()
        finished = [event.run for event in events.all if isinstance(event, RunFinished)]
        assert sorted(finished) == sorted(hashes(*runs))
        assert len(pids) == 2
        assert [row.status for row in store.runs()] == ["done"] * 3
        together = rows(store)
    with Store(tmp_path / "one.sqlite") as store:
        store.save_study(study, runs)
        run_recorded(EvaluateJob(runs=tuple(store.pending(runs))), store)
        assert rows(store) == together


def rows(store: Store) -> list[tuple[object, ...]]:
    """All that was measured."""
    metrics = [(row.run, row.task, row.metric, row.value, row.stderr, row.n) for row in store.metric_rows()]
    maps = [(row[0], store.layer_map(str(row[0]))) for row in metrics]
    return sorted([*metrics, *maps], key=repr)
