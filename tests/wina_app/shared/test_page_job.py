"""The one job of a page: begun once, shown, held, tried again, and reported when it ends."""

import pytest
from wina_app.shared.page_job import PageJob
from wina_app.widgets.base_page import Page

from tests.wina_app.fakes import Recorded, done, make_workbench, result
from tests.wina_app.stored_runs import SOURCE, summary
from wina_core.jobs import Cancel, Failed, InspectJob, Pause, Resume

JOB = InspectJob(model=SOURCE)


@pytest.fixture
def bench(tmp_path, qapp):  # noqa: ARG001 - signals need an application
    workbench, engine, store = make_workbench(tmp_path)
    view = Recorded(Page)
    yield PageJob(workbench, view, "It was cancelled."), view, workbench, engine
    store.store.close()


def test_a_job_is_begun_once_shown_and_its_result_passed_on(bench):
    job, view, _, engine = bench
    shown, finished = [], []
    job.changed.connect(lambda: shown.append(job.entry and job.entry.phase))
    job.finished.connect(finished.append)
    for _ in range(2):
        job.ask_and_start(JOB, "Load")
    assert (len(engine.submitted), shown) == (1, ["queued"])
    engine.answer(result(summary()), done())
    assert (shown[-2:], finished[0].result, job.entry) == (["running", None], summary(), None)
    assert not view.calls("show_notice")


def test_a_failed_job_is_tried_again_from_its_message(bench):
    job, view, _, engine = bench
    job.start(JOB, "Load")
    engine.answer(lambda job_id: Failed(job_id=job_id, error="It broke."))
    assert (view.last("show_error"), job.entry) == ("It broke.", None)
    view.named("show_error")["retry"]()
    assert job.entry.phase == "queued"
    assert view.calls("clear_message")


def test_a_job_is_held_and_cancelled_and_another_takes_its_place_without_a_word(bench):
    job, view, workbench, engine = bench
    job.start(JOB, "Load")
    first = engine.last.job_id
    for hold, request in ((job.pause, Pause), (job.resume, Resume), (job.cancel, Cancel)):
        hold()
        assert engine.sent[-1] == request(job_id=first)
    job.start(JOB, "Load again")
    workbench.jobs.apply(done(cancelled=True)(first))
    assert not view.calls("show_notice")
    engine.answer(done(cancelled=True))
    assert view.last("show_notice") == "It was cancelled."
