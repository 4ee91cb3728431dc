"""Results reach the store, failures of the store reach the user, and everything ends in order."""

import pytest
from wina_app.window.file_opener import FileOpener, FileOpenerView

from tests.wina_app.fakes import Recorded, done, make_workbench, result
from tests.wina_app.stored_runs import SOURCE, summary
from tests.wina_core.samples import opened_models
from wina_core.jobs import (
    Attached,
    Cancel,
    Detach,
    Detached,
    Done,
    InspectJob,
    JobStatus,
    Pause,
    Progress,
    Result,
    Resume,
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
    assert workbench.jobs[job_id].state == "cancelling"


def test_pausing_and_resuming_are_asked_of_the_engine(bench):
    workbench, engine, _ = bench
    job_id = workbench.submit(InspectJob(model=SOURCE), "Load")
    engine.answer()
    workbench.pause(job_id)
    assert workbench.jobs[job_id].state == "pausing"
    workbench.resume(job_id)
    assert engine.sent[-2:] == [Pause(job_id=job_id), Resume(job_id=job_id)]


def test_stopping_closes_the_store_once_the_engine_is_gone(bench):
    workbench, _, store = bench
    order = []
    finish = store.finish
    store.finish = lambda: (order.append("engine"), finish())
    workbench.stopped.connect(lambda: order.append("store"))
    workbench.submit(InspectJob(model=SOURCE), "Load")
    workbench.stop()
    assert order == ["engine", "store"]


def test_jobs_left_to_the_background_are_not_cancelled(bench):
    workbench, engine, _ = bench
    stopped = []
    workbench.stopped.connect(lambda: stopped.append(1))
    job_id = workbench.submit(InspectJob(model=SOURCE), "Load")
    workbench.keep_running()
    assert isinstance(engine.sent[-1], Detach)
    assert not stopped
    engine.received.emit(Detached())
    assert (engine.left, stopped) == (True, [1])
    assert workbench.jobs[job_id].active


def test_a_host_that_cannot_record_leaves_the_jobs_to_the_window(bench):
    workbench, engine, _ = bench
    refused = []
    workbench.detach_refused.connect(refused.append)
    workbench.submit(InspectJob(model=SOURCE), "Load")
    workbench.keep_running()
    engine.received.emit(Detached(error="The disk is full."))
    assert (engine.left, refused) == (False, ["The disk is full."])


def test_a_window_shows_background_jobs_and_stores_nothing_of_them(bench):
    workbench, engine, store = bench
    submit = Submit(job_id="job", job=InspectJob(model=SOURCE), title="Load")
    progress = Progress(job_id="job", done=1.0, total=4.0, unit="layers")
    status = JobStatus(submit=submit, started=1.0, progress=progress, units=2)
    changes = []
    workbench.results_changed.connect(lambda: changes.append(1))
    engine.received.emit(Attached(recording=True, jobs=(status,)))
    entry = workbench.jobs["job"]
    assert (entry.title, entry.state, entry.fraction, entry.units_stored) == ("Load", "running", 0.25, 2)
    engine.received.emit(Result(job_id="job", value=summary()))
    engine.received.emit(Done(job_id="job"))
    assert opened_models(store.store) == []
    assert changes, "the host has stored it"
    workbench.stop()
    assert engine.left, "another window may need the host"


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


def test_a_job_is_kept_until_it_ends(bench):
    workbench, engine, store = bench
    workbench.submit(RotateJob(model=SOURCE, rotation=RotationSpec()), "Rotate")
    assert kept(store.store) == 1
    engine.answer(done(cancelled=True))
    assert kept(store.store) == 0


def kept(store):
    with store._engine.connect() as connection:
        return connection.exec_driver_sql("SELECT count(*) FROM jobs").scalar()


def test_a_window_on_a_background_host_keeps_its_database(bench, tmp_path):
    workbench, engine, store = bench
    engine.received.emit(Attached(recording=True))
    view = Recorded(FileOpenerView)
    opener = FileOpener(workbench, view, {})
    opener.open_database(str(tmp_path / "other.sqlite"))
    assert "close it to open another" in view.last("show_failure")
    assert store.store.url.database == str(tmp_path / "results.sqlite")
