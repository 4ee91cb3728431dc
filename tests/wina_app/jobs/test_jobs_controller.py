"""The queue as the engine is told of it, doing again what failed, and what a job should take."""

import pytest
from PySide6.QtCore import QObject, Signal
from wina_app.jobs.dock import JobsController

from tests.wina_app.fakes import done, make_workbench
from tests.wina_app.stored_runs import SOURCE
from wina_core.jobs import (
    EvaluateJob,
    Failed,
    InspectJob,
    Move,
    Partial,
    PendingRun,
    Prioritize,
    RunFailed,
    RunStarted,
    Started,
)
from wina_core.records import UnitRecord
from wina_core.specs import Configuration, EvaluationSpec, MethodSpec, RunSpec
from wina_core.specs.plans import UniformSparsity
from wina_core.specs.runs import measurement_key
from wina_core.specs.studies import StudySpec
from wina_core.store import Store

LOAD = InspectJob(model=SOURCE)
EVALUATION = EvaluationSpec(tasks=("arc_easy", "piqa"))
REST = tuple(unit for unit in EVALUATION.units if unit != "piqa")


def run(sparsity: float) -> RunSpec:
    return RunSpec(
        model=SOURCE, method=MethodSpec(name="wina"), plan=UniformSparsity(sparsity=sparsity), evaluation=EVALUATION
    )


RUNS = tuple(PendingRun(spec=run(sparsity), units=EVALUATION.units) for sparsity in (0.4, 0.6))
BATCH = EvaluateJob(runs=RUNS)


class View(QObject):
    """The signals of the dock, and what was copied."""

    retry_requested = Signal(str)
    move_requested = Signal(str, object)
    priority_requested = Signal(str, str)
    specification_requested = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.copied = ""

    def copy(self, text: str) -> None:
        self.copied = text


@pytest.fixture
def bench(tmp_path, qapp):  # noqa: ARG001 - signals need an application
    workbench, engine, store = make_workbench(tmp_path)
    store.store.save_study(
        StudySpec(name="test", models=(SOURCE,), configurations=(Configuration(),)), [pending.spec for pending in RUNS]
    )
    view = View()
    yield workbench, engine, store, view, JobsController(workbench, view)
    store.store.close()


def test_another_order_and_another_priority_are_requested_of_the_queue(bench):
    workbench, engine, _, view, _ = bench
    a, b, c = (workbench.submit(BATCH, title) for title in "abc")
    view.move_requested.emit(c, a)
    assert engine.sent[-1] == Move(job_id=c, before=a)
    view.priority_requested.emit(b, "high")
    assert engine.sent[-1] == Prioritize(job_id=b, priority="high")
    engine.received.emit(Started(job_id=b))
    requests = len(engine.sent)
    view.move_requested.emit(b, None)
    assert len(engine.sent) == requests, "what has begun stays where it is"


def unit(pending: PendingRun, name: str) -> Partial:
    record = UnitRecord(run=pending.spec.content_hash(), unit=name, metrics=(), seconds=30.0)
    return Partial(job_id="", unit=record)


def test_an_evaluation_that_died_is_done_again_as_far_as_it_is_missing_and_under_its_id(bench):
    workbench, engine, _, view, _ = bench
    job_id = workbench.submit(BATCH, "Evaluate")
    name = RUNS[0].spec.content_hash()
    engine.answer(
        lambda job_id: RunStarted(job_id=job_id, run=name),
        lambda job_id: unit(RUNS[0], "piqa").model_copy(update={"job_id": job_id}),
        lambda job_id: Failed(job_id=job_id, error="The engine was killed.", run=name),
    )
    assert workbench.jobs[job_id].phase == "failed"
    view.retry_requested.emit(job_id)
    again = engine.last
    assert again.job_id == job_id
    assert again.job.runs == (PendingRun(spec=RUNS[0].spec, units=REST), RUNS[1])
    assert (workbench.jobs[job_id].phase, workbench.jobs[job_id].error) == ("queued", "")
    assert len(engine.submitted) == 2
    view.retry_requested.emit(job_id)
    assert len(engine.submitted) == 2, "it is queued already"


def test_a_job_whose_runs_are_in_another_database_is_not_done_again_in_this_one(bench, tmp_path):
    workbench, engine, store, view, _ = bench
    job_id = workbench.submit(BATCH, "Evaluate")
    engine.answer(lambda job_id: Failed(job_id=job_id, error="The engine was killed."))
    store.store.close()
    store.store, failures = Store(tmp_path / "other.sqlite"), []
    workbench.storing_failed.connect(failures.append)
    view.retry_requested.emit(job_id)
    assert failures == [
        "This job's runs are not in this results database; open the one that has them, or evaluate them again."
    ]
    assert workbench.jobs[job_id].phase == "failed"
    assert len(engine.submitted) == 1


def test_a_job_of_which_nothing_is_missing_is_done(bench):
    workbench, engine, _, view, _ = bench
    job = EvaluateJob(runs=(PendingRun(spec=RUNS[0].spec, units=("piqa",)),))
    job_id = workbench.submit(job, "Evaluate")
    name = RUNS[0].spec.content_hash()
    engine.answer(
        lambda job_id: RunStarted(job_id=job_id, run=name),
        lambda job_id: unit(RUNS[0], "piqa").model_copy(update={"job_id": job_id}),
        lambda job_id: RunFailed(job_id=job_id, run=name, error="Late."),
        done(),
    )
    view.retry_requested.emit(job_id)
    assert workbench.jobs[job_id].phase == "done"
    assert len(engine.submitted) == 1


def test_a_job_that_is_cleared_away_meanwhile_is_not_done_again(bench):
    workbench, engine, store, view, _ = bench
    job_id = workbench.submit(LOAD, "Load")
    engine.answer(lambda job_id: Failed(job_id=job_id, error="No."))
    answers = []
    store.ask = lambda question, answer, _refused=None: answers.append((question, answer))
    view.retry_requested.emit(job_id)
    workbench.jobs.clear_ended()
    question, answer = answers[0]
    answer(question(store.store))
    assert len(engine.submitted) == 1


def test_what_like_measurements_took_is_what_a_job_should_take(bench):
    workbench, *_ = bench
    stored = {measurement_key(RUNS[0].spec, task): 30.0 for task in EVALUATION.units}
    job_id = workbench.submit(EvaluateJob(runs=RUNS, stored=stored), "Evaluate")
    assert workbench.jobs[job_id].expected_seconds == 2 * 30.0 * len(EVALUATION.units)
    other = workbench.submit(EvaluateJob(runs=RUNS[:1]), "Evaluate again")
    assert workbench.jobs[other].expected_seconds is None, "nothing was ever measured here"
