"""The Playground's server: its status line, its dialog, and its job."""

from dataclasses import replace

import pytest
from PySide6.QtCore import QObject, Signal
from wina_app.jobs.texts import remark, state_word
from wina_app.pages.playground.server import ServeDialog, ServerPanel
from wina_app.services.model_server import ServerState

from tests.wina_app.fakes import load, make_workbench
from wina_core.jobs.hosted import Listening, ServeJob

JOB = ServeJob(folder="/models/tiny", port=8000)
LISTENING = Listening(address="http://127.0.0.1:8000/v1", model="tiny", chat=False)


class FakeProcess(QObject):
    """Has the interface of `ModelServer`."""

    changed, failed = Signal(), Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.state, self.started, self.stopped = ServerState(), [], 0

    def start(self, job, _job_id) -> None:
        self.started.append(job)
        self.become(ServerState(folder=job.folder))

    def stop(self) -> None:
        self.stopped += 1
        self.become(replace(self.state, stopping=True))

    def become(self, state: ServerState) -> None:
        self.state = state
        self.changed.emit()

    def leave(self) -> None:
        """Nothing runs."""


@pytest.fixture
def bench(qtbot, tmp_path):
    """(panel, workbench, process, engine, texts of the window's status line)."""
    workbench, engine, _ = make_workbench(tmp_path)
    process, shown = FakeProcess(), []
    panel = ServerPanel(workbench, show_server=lambda text, _tip: shown.append(text), process=process)
    qtbot.addWidget(panel)
    return panel, workbench, process, engine, shown


def job_of(workbench):
    (entry,) = workbench.jobs
    return entry


def test_a_server_is_a_job_of_the_window_until_it_ends(bench):
    panel, workbench, process, engine, shown = bench
    assert panel._stop.isHidden()
    panel.start(JOB)
    entry = job_of(workbench)
    assert (entry.id, entry.title, entry.phase) == (panel.job_id, "Serve: tiny", "running")
    assert not workbench.jobs.active, "no engine is busy"
    assert (panel._stop.isHidden(), panel._serve.isHidden(), shown[-1]) == (False, True, "Serving tiny")
    process.become(ServerState(folder="/models/tiny", listening=LISTENING, requests=2, rate=5.0))
    text = "http://127.0.0.1:8000/v1, 2 requests, 5.0 tokens/s"
    assert remark(job_of(workbench)) == panel.status.text() == text
    workbench.cancel(entry.id)
    entry = job_of(workbench)
    assert (process.stopped, entry.phase, state_word(entry)) == (1, "cancelling", "Stopping")
    process.become(ServerState())
    entry = job_of(workbench)
    assert (entry.phase, remark(entry).partition("  ·  ")[0]) == ("done", "2 requests, 5.0 tokens/s")
    assert not engine.sent
    assert not entry.can_retry
    panel.start(JOB)
    process.failed.emit("The port 8000 is in use by another program.")
    process.become(ServerState())
    entry = workbench.jobs[panel.job_id]
    assert (entry.phase, remark(entry)) == ("failed", "The port 8000 is in use by another program.")


def test_the_open_model_is_offered_and_a_bad_key_starts_nothing(bench, tmp_path):
    panel, workbench, process, *_ = bench
    panel.open()
    dialog = panel.findChild(ServeDialog)
    assert not dialog.start.isEnabled(), "it needs a folder"
    dialog.folder.setText(" demo ")
    assert dialog.job() == ServeJob(folder="demo", port=8000)
    dialog.reject()
    load(workbench)
    panel.open()
    assert panel.findChildren(ServeDialog)[-1].folder.text() == workbench.workspace.source.location
    failures = []
    process.failed.connect(failures.append)
    (tmp_path / "key").write_text("short")
    panel.start(JOB.model_copy(update={"key_file": str(tmp_path / "key")}))
    assert (len(failures), process.started, list(workbench.jobs)) == (1, [], [])
    panel.start(JOB)
    assert process.started == [JOB]
