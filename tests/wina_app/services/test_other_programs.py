"""Jobs of other programs on the window's database are shown and cancelled; its own can be cancelled there."""

import pytest
from wina_app.services.hosted_jobs import OtherPrograms

from tests.wina_app.fakes import make_workbench
from tests.wina_app.stored_runs import SOURCE
from tests.wina_core.engine.stored_job import JOB, RUNS, STUDY
from tests.wina_core.samples import unit
from wina_core.jobs import Cancel, RotateJob, Submit
from wina_core.specs import RotationSpec
from wina_core.store import Store


@pytest.fixture
def bench(tmp_path, qapp):  # noqa: ARG001 - signals need an application
    workbench, engine, store = make_workbench(tmp_path)
    others = OtherPrograms(workbench)
    yield workbench, engine, others
    others.leave()
    store.store.close()


@pytest.fixture
def other(bench):
    """The store of another program, with a job."""
    workbench, _, _ = bench
    with Store(workbench.store.store.url.render_as_string()) as opened:
        opened.save_study(STUDY, RUNS)
        opened.keep_jobs([Submit(job_id="job", job=JOB, title="Evaluate")])
        yield opened


def test_a_job_of_another_program_is_followed_to_its_end(bench, other):
    workbench, _, others = bench
    others.look()
    entry = workbench.jobs["job"]
    assert (entry.title, entry.phase, entry.done, entry.total) == ("Evaluate (another program)", "queued", 0, 4)
    assert entry not in workbench.jobs.active, "no engine of this window has it"
    other.begin_run(RUNS[0].content_hash(), None)
    other.record_unit(unit(RUNS[0], RUNS[0].evaluation.units[0]))
    others.look()
    assert (workbench.jobs["job"].phase, workbench.jobs["job"].done) == ("running", 1)
    for spec in RUNS:
        for name in spec.evaluation.units:
            other.record_unit(unit(spec, name))
    other.forget_jobs(["job"])
    others.look()
    assert workbench.jobs["job"].phase == "done"


def test_a_job_that_a_third_program_cancelled_is_not_done(bench, other):
    workbench, _, others = bench
    others.look()
    other.forget_jobs(["job"])
    others.look()
    assert workbench.jobs["job"].phase == "cancelled"


def test_a_job_of_another_program_is_cancelled_by_its_row(bench, other):
    workbench, engine, others = bench
    others.look()
    workbench.cancel("job")
    assert other.kept_jobs() == set()
    others.look()
    assert workbench.jobs["job"].phase == "cancelled"
    assert engine.sent == []


def test_a_job_of_this_window_whose_row_is_gone_is_cancelled(bench, other):
    workbench, engine, others = bench
    job_id = workbench.submit(RotateJob(model=SOURCE, rotation=RotationSpec()), "Rotate")
    others.look()
    other.forget_jobs([job_id])
    others.look()
    assert engine.sent[-1] == Cancel(job_id=job_id)
