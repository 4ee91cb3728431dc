"""Results reach the store, failures of the store reach the user, and everything ends in order."""

import pytest

from tests.wina_app.fakes import done, make_workbench, result
from tests.wina_app.stored_runs import SOURCE, summary
from tests.wina_core.samples import opened_models
from wina_core.engine.protocol import Cancel, InspectJob, Pause, Resume


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

    def full(_change, refused):
        refused("The disk is full.")

    store.write = full
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
