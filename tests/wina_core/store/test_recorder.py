"""One job's events, as the engine sends them, end up in the store."""

import math

import pytest

from tests.wina_core.samples import ENVIRONMENT, MODEL, WINA, opened_models, run, study, summary, unit
from wina_core.jobs import (
    CalibrateJob,
    Done,
    EvaluateJob,
    Failed,
    InspectJob,
    Partial,
    Progress,
    Result,
    RotateJob,
    RunFailed,
    RunFinished,
    RunStarted,
    Started,
)
from wina_core.records import CalibrationRecord, LayerRecord, RotationReport
from wina_core.specs import FIDELITY, CalibrationSpec, RotationSpec, RunSpec
from wina_core.store import Recorder, Store

FIRST, SECOND, THIRD = (run(0.25), run(0.5), run(0.75))
JOB = "job 1"


@pytest.fixture
def store(store: Store) -> Store:
    store.save_study(study(), (FIRST, SECOND, THIRD))
    return store


@pytest.fixture
def recorder(store: Store) -> Recorder:
    return Recorder(store, EvaluateJob(runs=tuple(store.pending((FIRST, SECOND, THIRD)))), ENVIRONMENT)


def _statuses(store: Store) -> list[str]:
    return [row.status for row in store.runs()]


def _computed(recorder: Recorder, spec: RunSpec) -> None:
    recorder.record(RunStarted(job_id=JOB, run=spec.content_hash()))
    for name in spec.evaluation.units:
        recorder.record(Partial(job_id=JOB, unit=unit(spec, name)))


def test_units_are_stored_as_they_arrive_and_a_failed_run_does_not_touch_the_others(
    store: Store, recorder: Recorder
) -> None:
    recorder.record(Started(job_id=JOB))
    recorder.record(RunStarted(job_id=JOB, run=FIRST.content_hash()))
    assert _statuses(store) == ["running", "queued", "queued"]
    recorder.record(Progress(job_id=JOB, done=1, total=2, unit="requests"))
    recorder.record(Partial(job_id=JOB, unit=unit(FIRST, FIDELITY)))
    assert len(store.metric_rows()) == 1
    recorder.record(Partial(job_id=JOB, unit=unit(FIRST)))
    recorder.record(RunFinished(job_id=JOB, run=FIRST.content_hash()))
    recorder.record(RunStarted(job_id=JOB, run=SECOND.content_hash()))
    recorder.record(RunFailed(job_id=JOB, run=SECOND.content_hash(), error="The data set is not reachable."))
    assert _statuses(store) == ["done", "failed", "queued"]
    assert [row.error for row in store.runs()] == ["", "The data set is not reachable.", ""]
    assert store.runs()[0].hardware == "a processor"


def test_a_dead_engine_fails_the_run_in_hand_and_interrupts_the_rest(store: Store, recorder: Recorder) -> None:
    recorder.record(Failed(job_id=JOB, error="The machine is off."))
    assert {(row.status, row.error) for row in store.runs()} == {("interrupted", "The machine is off.")}
    store.save_study(study(), (FIRST, SECOND, THIRD))
    _computed(recorder, FIRST)
    recorder.record(RunStarted(job_id=JOB, run=SECOND.content_hash()))
    recorder.record(Failed(job_id=JOB, error="The engine ran out of memory.", run=None))
    assert _statuses(store) == ["done", "failed", "interrupted"]
    assert store.runs()[1].error == "The engine ran out of memory."
    assert [pending.spec for pending in store.pending((FIRST, SECOND, THIRD))] == [SECOND, THIRD]


def test_cancelling_ends_what_is_not_done(store: Store, recorder: Recorder) -> None:
    _computed(recorder, FIRST)
    recorder.record(RunStarted(job_id=JOB, run=SECOND.content_hash()))
    recorder.record(Partial(job_id=JOB, unit=unit(SECOND)))
    recorder.record(Done(job_id=JOB, cancelled=True))
    assert _statuses(store) == ["done", "cancelled", "cancelled"]
    store.save_study(study(), (FIRST, SECOND, THIRD))
    assert _statuses(store) == ["done", "queued", "queued"], "launched again, it goes on"
    assert [run.units for run in store.pending([SECOND])] == [(FIDELITY,)]


def test_results_of_the_other_jobs_are_stored_under_what_was_asked_for(store: Store) -> None:
    Recorder(store, InspectJob(model=MODEL)).record(Result(job_id=JOB, value=summary()))
    assert opened_models(store) == [summary()]

    rotation = RotationSpec()
    report = RotationReport(
        rotation=rotation.content_hash(), logits_deviation=math.inf, residuals=(), shortcut_parameters=0, seconds=1.0
    )
    Recorder(store, RotateJob(model=MODEL, rotation=rotation)).record(Result(job_id=JOB, value=report))
    assert store.rotations(MODEL)[0].report == report

    stat = LayerRecord(layer=0, projection="q", metric="norm_spread", value=0.5)
    record = CalibrationRecord(key="k", tokens=64, layers=(stat,), seconds=1.0)
    job = CalibrateJob(model=MODEL, rotation=rotation, method=WINA, calibration=CalibrationSpec())
    Recorder(store, job).record(Result(job_id=JOB, value=record))
    (cell,) = store.cell_stats(MODEL, rotation, WINA)
    assert (cell.metric, cell.value) == ("norm_spread", 0.5)
