"""Results reach the store, failures of the store reach the user, and everything ends in order."""

import pytest
from wina_app.services import workbench as module

from tests.wina_app.fakes import done, make_workbench, result
from tests.wina_app.stored_runs import SOURCE, summary
from tests.wina_core.samples import opened_models
from wina_core.errors import WinaError
from wina_core.jobs import (
    Cancel,
    Done,
    InspectJob,
    RotateJob,
    Submit,
)
from wina_core.specs import RotationSpec
from wina_core.store import Store


@pytest.fixture
def bench(tmp_path, qapp):  # noqa: ARG001 - signals need an application
    workbench, engine, store = make_workbench(tmp_path)
    yield workbench, engine, store
    store.store.close()


def test_what_a_job_returns_is_stored_and_announced(bench):
    workbench, engine, store = bench
    changes = []
    workbench.results_changed.connect(lambda: changes.append(1))
    workbench.submit(InspectJob(model=SOURCE), "Load")
    engine.answer(result(summary()), done())
    assert opened_models(store.store) == [summary()]
    assert changes


def test_a_result_that_cannot_be_stored_is_said_and_its_job_cancelled(bench):
    workbench, engine, store = bench
    told = []
    workbench.storing_failed.connect(told.append)

    def full(_messages, refused):
        refused("The disk is full.")

    store.record = full
    job_id = workbench.submit(InspectJob(model=SOURCE), "Load")
    engine.answer(result(summary()))
    assert told[0] == "The disk is full."
    assert engine.sent[-1] == Cancel(job_id=job_id)
    assert workbench.jobs[job_id].phase == "cancelling"


class FakeProcess:
    """A background process that has taken over its jobs."""

    def __init__(self, handover):
        self.handover, self.begun = handover, False

    def begin(self):
        self.begun = True


def test_jobs_are_left_to_a_process_that_begins_once_the_window_has_stopped(bench, monkeypatch):
    workbench, engine, store = bench
    processes = []

    def start(handover):
        processes.append(FakeProcess(handover))
        return processes[0]

    monkeypatch.setattr(module, "BackgroundProcess", start)
    begun = []
    workbench.stopped.connect(lambda: begun.append(processes[0].begun))
    job = RotateJob(model=SOURCE, rotation=RotationSpec())
    job_id = workbench.submit(job, "Rotate")
    workbench.submit(InspectJob(model=SOURCE), "Load")
    workbench.keep_running()
    assert processes[0].handover.jobs == (Submit(job_id=job_id, job=job, title="Rotate", priority="normal"),)
    assert begun == [True]
    engine.received.emit(Done(job_id=job_id, cancelled=True))
    assert kept(store.store) == 1, "it is the other process's"


def test_a_process_that_cannot_store_leaves_the_jobs_to_the_window(bench, monkeypatch):
    workbench, engine, _ = bench
    refused = []
    workbench.background_refused.connect(refused.append)

    def refuse(_handover):
        raise WinaError("The disk is full.")

    monkeypatch.setattr(module, "BackgroundProcess", refuse)
    workbench.submit(RotateJob(model=SOURCE, rotation=RotationSpec()), "Rotate")
    workbench.keep_running()
    assert (engine.sent[1:], refused) == ([], ["The disk is full."])


def test_the_job_of_a_window_that_died_is_offered_and_resumed(bench):
    workbench, engine, store = bench
    job = RotateJob(model=SOURCE, rotation=RotationSpec())
    with Store(store.store.url.render_as_string()) as dead:
        dead.keep_jobs([Submit(job_id="job", job=job, title="Rotate")])
    offered = []
    workbench.unfinished_found.connect(offered.append)
    store.opened.emit(store.store)
    assert offered == [1]
    workbench.resume_unfinished()
    assert (engine.last.job, engine.last.title) == (job, "Rotate")
    assert workbench.jobs["job"].title == "Rotate"
    engine.answer(done())
    assert store.store.unfinished_jobs() == []


def kept(store):
    with store._engine.connect() as connection:
        return connection.exec_driver_sql("SELECT count(*) FROM jobs").scalar()
