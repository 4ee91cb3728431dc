"""The bookkeeping of jobs, and the dock that shows it."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel
from wina_app.models.job_list import JobList
from wina_app.theme import apply_theme
from wina_app.views.jobs_dock import EMPTY, JobsView, progress_text

from tests.wina_app.stored_runs import SOURCE
from wina_core.engine.protocol import (
    Accepted,
    Done,
    Failed,
    Held,
    InspectJob,
    Partial,
    Progress,
    RunFailed,
    RunFinished,
)
from wina_core.records import UnitRecord

JOB = InspectJob(model=SOURCE)


def started(jobs: JobList, job_id: str = "1"):
    jobs.add(job_id, f"Job {job_id}", JOB)
    jobs.apply(Accepted(job_id=job_id, started=True))
    return jobs[job_id]


def test_a_job_goes_from_queued_through_running_to_done():
    jobs = JobList()
    ended = []
    jobs.ended.connect(ended.append)
    jobs.add("1", "Load demo", JOB)
    assert jobs["1"].state == "queued"
    jobs.apply(Accepted(job_id="1"))
    assert jobs["1"].state == "queued"
    jobs.apply(Accepted(job_id="1", started=True))
    jobs.apply(Progress(job_id="1", done=3, total=4, unit="layers", eta_seconds=9.6, metric="rotating"))
    assert (jobs["1"].state, jobs["1"].fraction) == ("running", 0.75)
    assert progress_text(jobs["1"]) == "3 of 4 layers  ·  10 s left"
    jobs.apply(Done(job_id="1"))
    assert (jobs["1"].state, jobs["1"].fraction, jobs.active, ended) == ("done", 1.0, [], ["1"])


def test_nothing_changes_a_job_that_has_ended_and_unknown_jobs_are_passed_over():
    jobs = JobList()
    entry = started(jobs)
    jobs.apply(Done(job_id="1", cancelled=True))
    jobs.apply(Failed(job_id="1", error="late"))
    jobs.apply(Progress(job_id="other", done=1, total=2, unit="x"))
    assert (entry.state, entry.error) == ("cancelled", "")


def test_a_job_with_a_failed_run_has_failed_and_keeps_what_it_stored():
    jobs = JobList()
    entry = started(jobs)
    jobs.apply(Partial(job_id="1", unit=UnitRecord(run="a", unit="t", metrics=(), seconds=1.0)))
    jobs.apply(RunFinished(job_id="1", run="a"))
    jobs.apply(RunFailed(job_id="1", run="b", error="The task is unknown."))
    jobs.apply(Done(job_id="1"))
    assert (entry.state, entry.error) == ("failed", "The task is unknown.")
    assert "1 result stored" in progress_text(entry)
    assert "1 run failed" in progress_text(entry)


def test_the_dock_shows_progress_as_it_comes(qtbot, qapp):
    apply_theme(qapp, "light")
    jobs = JobList()
    view = JobsView(jobs)
    qtbot.addWidget(view)
    view.resize(700, 200)
    view.show()
    assert any(label.text() == EMPTY and label.isVisible() for label in view.findChildren(QLabel))
    started(jobs)
    row = view.rows["1"]
    assert (row.bar.minimum(), row.bar.maximum()) == (0, 0), "busy while the total is unknown"
    jobs.apply(Progress(job_id="1", done=412, total=800, unit="requests", eta_seconds=42.0, metric="wina 50 %: acc"))
    assert row.bar.value() / row.bar.maximum() == 0.515
    texts = {label.text() for label in row.findChildren(QLabel)}
    assert {"Running", "Job 1", "wina 50 %: acc", "412 of 800 requests  ·  42 s left"} <= texts


def test_cancel_is_asked_for_once_and_then_shown(qtbot):
    jobs = JobList()
    view = JobsView(jobs)
    qtbot.addWidget(view)
    view.show()
    started(jobs)
    view.cancel_requested.connect(jobs.cancelling)
    with qtbot.waitSignal(view.cancel_requested) as asked:
        qtbot.mouseClick(view.rows["1"].cancel, Qt.MouseButton.LeftButton)
    assert asked.args == ["1"]
    assert not view.rows["1"].cancel.isEnabled()
    assert "Cancelling" in {label.text() for label in view.rows["1"].findChildren(QLabel)}


def test_a_job_is_paused_once_the_engine_holds_it_and_goes_on_when_resumed(monkeypatch):
    now = 1000.0
    monkeypatch.setattr("wina_app.models.job_list.time.time", lambda: now)
    jobs = JobList()
    entry = started(jobs)
    jobs.apply(Progress(job_id="1", done=3, total=4, unit="layers", eta_seconds=9.6))
    jobs.pausing("1")
    assert entry.state == "pausing"
    now = 1010.0
    jobs.apply(Held(job_id="1", held=True))
    assert (entry.state, entry.eta_seconds, progress_text(entry)) == ("paused", None, "3 of 4 layers")
    now = 4610.0
    assert entry.seconds == 10.0
    jobs.apply(Held(job_id="1", held=False))
    assert entry.state == "running"
    now = 4615.0
    jobs.apply(Done(job_id="1"))
    assert entry.seconds == 15.0
    assert progress_text(entry).startswith("took 15 s")


def test_a_waiting_job_is_paused_and_waits_again(monkeypatch):
    now = 1000.0
    monkeypatch.setattr("wina_app.models.job_list.time.time", lambda: now)
    jobs = JobList()
    jobs.add("1", "Load demo", JOB)
    jobs.pausing("1")
    jobs.apply(Held(job_id="1", held=True))
    assert jobs["1"].state == "paused"
    now = 2000.0
    jobs.apply(Held(job_id="1", held=False))
    assert jobs["1"].state == "queued"
    jobs.apply(Accepted(job_id="1", started=True))
    now = 2003.0
    assert jobs["1"].seconds == 3.0


def test_a_pause_taken_back_before_it_came_to_it_leaves_the_job_running():
    jobs = JobList()
    entry = started(jobs)
    jobs.pausing("1")
    jobs.apply(Held(job_id="1", held=False))
    assert entry.state == "running"


def test_a_held_job_can_be_cancelled_and_can_fail(monkeypatch):
    now = 1000.0
    monkeypatch.setattr("wina_app.models.job_list.time.time", lambda: now)
    jobs = JobList()
    for job_id, end, state in (
        ("1", Done(job_id="1", cancelled=True), "cancelled"),
        ("2", Failed(job_id="2", error="The engine was killed."), "failed"),
    ):
        entry = started(jobs, job_id)
        jobs.apply(Held(job_id=job_id, held=True))
        now += 60.0
        if state == "cancelled":
            jobs.cancelling(job_id)
            assert entry.state == "cancelling"
        jobs.apply(end)
        assert (entry.state, entry.seconds) == (state, 0.0)


def test_the_button_beside_cancel_pauses_and_resumes(qtbot):
    jobs = JobList()
    view = JobsView(jobs)
    qtbot.addWidget(view)
    view.show()
    started(jobs)
    row = view.rows["1"]
    view.pause_requested.connect(jobs.pausing)
    assert (row.pause.text(), row.pause.accessibleName()) == ("Pause", "Pause Job 1")
    with qtbot.waitSignal(view.pause_requested):
        qtbot.mouseClick(row.pause, Qt.MouseButton.LeftButton)
    assert "Pausing" in {label.text() for label in row.findChildren(QLabel)}
    jobs.apply(Held(job_id="1", held=True))
    assert (row.pause.text(), row.pause.accessibleName()) == ("Resume", "Resume Job 1")
    assert row.pause.toolTip()
    assert "Paused" in {label.text() for label in row.findChildren(QLabel)}
    with qtbot.waitSignal(view.resume_requested) as asked:
        qtbot.mouseClick(row.pause, Qt.MouseButton.LeftButton)
    assert asked.args == ["1"]
    jobs.cancelling("1")
    assert not row.pause.isEnabled()
    jobs.apply(Done(job_id="1", cancelled=True))
    assert not row.pause.isVisible()


def test_ended_jobs_can_be_cleared_and_running_ones_stay(qtbot):
    jobs = JobList()
    view = JobsView(jobs)
    qtbot.addWidget(view)
    for job_id in ("1", "2"):
        started(jobs, job_id)
    jobs.apply(Done(job_id="1"))
    jobs.clear_ended()
    assert list(view.rows) == ["2"]


def test_what_runs_is_at_the_top_and_what_ended_below(qtbot):
    jobs = JobList()
    view = JobsView(jobs)
    qtbot.addWidget(view)
    view.resize(700, 400)
    view.show()

    def shown() -> str:
        return "".join(sorted(view.rows, key=lambda job_id: view.rows[job_id].y()))

    for job_id in "1234":
        jobs.add(job_id, f"Job {job_id}", JOB)
    jobs.apply(Accepted(job_id="1", started=True))
    qtbot.waitUntil(lambda: shown() == "1234")
    jobs.apply(Done(job_id="3", cancelled=True))
    jobs.apply(Done(job_id="1"))
    jobs.apply(Accepted(job_id="2", started=True))
    jobs.add("5", "Job 5", JOB)
    qtbot.waitUntil(lambda: shown() == "24513")
