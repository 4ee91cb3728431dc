"""The dock of jobs, by mouse and by keyboard, and the log of each job."""

import logging

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QToolButton
from wina_app.jobs.dock import JobLine, JobsView
from wina_app.jobs.job_list import JobList
from wina_app.jobs.log import LogView

from tests.wina_app.stored_runs import SOURCE
from wina_core.jobs import Assigned, Done, Failed, Held, Progress, Queued, RotateJob, Started
from wina_core.jobs.hosted import ServeJob
from wina_core.specs import RotationSpec

JOB = RotateJob(model=SOURCE, rotation=RotationSpec())


class Dock:
    """A dock over jobs named by letters."""

    def __init__(self, qtbot, ids: str = "") -> None:
        self.jobs = JobList()
        self.view = JobsView(self.jobs)
        qtbot.addWidget(self.view)
        self.view.resize(760, 320)
        self.view.show()
        for job_id in ids:
            self.jobs.add(job_id, f"Job {job_id}", JOB)
        self.view.rows.arrange()
        self.list = self.view.list

    def move(self, job_id: str, before: str | None) -> None:
        """As the engines' queue does."""
        self.jobs.apply(Queued(job_id=job_id, priority="normal", before=before))
        self.view.rows.arrange()

    @property
    def order(self) -> str:
        self.view.rows.arrange()
        return "".join(self.view.rows.entry(row).id for row in range(self.view.rows.rowCount()))

    def click(self, job_id: str, button: str) -> None:
        self.list.choose(job_id)
        (made,) = (each for each in self.view.findChildren(QToolButton) if each.text() == button)
        made.click()


@pytest.fixture
def dock(qtbot) -> Dock:
    return Dock(qtbot, "abc")


def asked(signal) -> list:
    found: list = []
    signal.connect(lambda *args: found.append(args if len(args) > 1 else args[0]))
    return found


def test_a_server_can_be_stopped_and_not_paused(dock):
    dock.jobs.add("s", "Serve: tiny", ServeJob(folder="tiny", port=8000))
    dock.jobs.apply(Started(job_id="s"))
    dock.view.rows.arrange()
    stopped = asked(dock.list.cancel_requested)
    dock.click("s", "Stop")
    assert (stopped, dock.list.pause.isEnabled(), dock.list.cancel.isEnabled()) == (["s"], False, True)
    line = JobLine(dock.jobs)
    assert (line.cancel.text(), line.pause.isHidden(), line.bar.isHidden()) == ("Stop", True, True)


def test_a_row_says_everything_to_a_screen_reader(dock):
    dock.jobs.apply(Started(job_id="a"))
    dock.jobs.apply(Progress(job_id="a", done=412, total=800, unit="requests", eta_seconds=42.0, metric="wina: acc"))
    said = dock.view.rows.index(dock.view.rows.row("a")).data(Qt.ItemDataRole.AccessibleTextRole)
    assert said == "Job a: Running, 412 of 800 requests  \N{MIDDLE DOT}  42 s left, wina: acc"


def test_buttons_pause_resume_and_cancel_the_selected_job(dock):
    paused, resumed, cancelled = (
        asked(getattr(dock.list, f"{what}_requested")) for what in ("pause", "resume", "cancel")
    )
    dock.jobs.apply(Started(job_id="a"))
    dock.click("a", "Pause")
    dock.jobs.apply(Held(job_id="a", held=True))
    dock.click("a", "Resume")
    dock.click("a", "Cancel")
    dock.jobs.cancelling("a")
    dock.click("a", "Cancel")
    assert (paused, resumed, cancelled) == (["a"], ["a"], ["a"]), "what is being cancelled is not cancelled again"


def test_a_failed_job_can_be_retried_and_all_of_them_at_once(dock, qtbot):
    retried = asked(dock.list.retry_requested)
    for job_id in "ab":
        dock.jobs.apply(Failed(job_id=job_id, error="The engine was killed."))
    dock.view.rows.arrange()
    dock.click("a", "Retry")
    qtbot.waitUntil(dock.view.retry_all.isVisible)
    dock.view.retry_all.click()
    assert retried == ["a", "a", "b"]


def test_the_keyboard_moves_pauses_cancels_and_opens_the_log(dock):
    dock.list.move_requested.connect(dock.move)
    paused, cancelled, logs = (asked(getattr(dock.list, f"{what}_requested")) for what in ("pause", "cancel", "log"))
    dock.view.activateWindow()
    dock.list.setFocus()
    dock.list.choose("b")
    keys = (Qt.Key.Key_Up, Qt.KeyboardModifier.AltModifier), (Qt.Key.Key_Down, Qt.KeyboardModifier.AltModifier)
    QTest.keyClick(dock.list, *keys[0])
    assert dock.order == "bac"
    for _ in range(3):
        QTest.keyClick(dock.list, *keys[1])
    assert dock.order == "acb"
    assert [entry.id for entry in dock.list.chosen] == ["b"], "it stays the one that is selected"
    for key in (Qt.Key.Key_Space, Qt.Key.Key_Delete, Qt.Key.Key_Return):
        QTest.keyClick(dock.list, key)
    assert (paused, cancelled, logs) == (["b"], ["b"], ["b"])


def test_what_is_not_possible_says_why(dock):
    dock.list.choose("a")
    assert not dock.list.retry.isEnabled()
    assert "failed or was cancelled" in dock.list.retry.toolTip()
    dock.jobs.apply(Started(job_id="a"))
    assert not dock.list.up.isEnabled()
    assert "not begun" in dock.list.up.toolTip()
    assert not dock.list.priorities.menuAction().isEnabled()


def test_title_and_error_are_copied(dock):
    dock.jobs.apply(Failed(job_id="a", error="The engine was killed.", detail="last words"))
    dock.view.rows.arrange()
    dock.list.choose("a")
    dock.list.copy_text.trigger()
    assert QGuiApplication.clipboard().text() == "Job a\nThe engine was killed.\nlast words"


def test_the_title_tells_the_queue_and_the_strip_what_each_engine_does(dock, qtbot, monkeypatch):
    monkeypatch.setattr("wina_app.jobs.clock.now", lambda: 1000.0)
    titles = asked(dock.view.title_changed)
    dock.jobs.expect("a", 60.0)
    qtbot.waitUntil(lambda: titles[-1:] == ["3 waiting  \N{MIDDLE DOT}  at least 1:00 min left"])
    for engine, job in ((1, "a"), (2, None)):
        dock.jobs.apply(Assigned(engine=engine, hardware="H100", job=job))
    qtbot.waitUntil(lambda: "Engine 2 (H100): idle" in dock.view._engines.whole())


def test_ended_jobs_can_be_cleared_and_running_ones_stay(dock, qtbot):
    dock.jobs.apply(Done(job_id="a"))
    qtbot.waitUntil(dock.view.clear.isVisible)
    dock.view.clear.click()
    assert dock.order == "bc"


# ---- the log of a job --------------------------------------------------------------------------------------------


@pytest.fixture
def log(qtbot) -> LogView:
    view = LogView()
    qtbot.addWidget(view)
    view.show()
    return view


def lines(log: LogView) -> list[str]:
    return [line.split(": ", 1)[-1] for line in log.text.toPlainText().splitlines()]


def test_a_jobs_log_is_what_it_and_the_engine_said_while_it_ran(log):
    jobs = JobList()
    log.follow(jobs)
    jobs.add("a", "Load demo", JOB)
    for number, job in enumerate(("a", "b", "a", "")):
        log.add(0.0, logging.DEBUG if number == 2 else logging.INFO, "engine", f"line {number}", job)
    assert lines(log) == ["line 0", "line 1", "line 3"]
    log.show_job("a")
    assert lines(log) == ["line 0", "line 2"]
    assert log.job.currentText() == "Load demo"
    log.search.setText("LINE 2")
    assert lines(log) == ["line 2"]
    log.level.setCurrentText("Error")
    assert lines(log) == []
    log.level.setCurrentText("Debug")
    log.add(0.0, logging.INFO, "engine", "line 22", "b")
    assert lines(log) == ["line 2"], "another job's lines stay out"
    jobs.apply(Done(job_id="a"))
    jobs.clear_ended()
    assert log.job.currentText() == "Everything"
