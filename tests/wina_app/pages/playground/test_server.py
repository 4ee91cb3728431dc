"""The Playground's server: its status line, its dialog, and prompts that go to it."""

from dataclasses import replace

import pytest
from PySide6.QtCore import QObject, Signal
from wina_app.jobs.texts import remark, state_word
from wina_app.pages.playground.controller import PlaygroundController
from wina_app.pages.playground.page import PlaygroundPage
from wina_app.pages.playground.server_controller import ServerController
from wina_app.pages.playground.server_panel import ServeDialog, ServerPanel
from wina_app.services.model_server import ServerState

from tests.wina_app.fakes import Recorded, load, make_workbench
from tests.wina_app.pages.playground.test_controller import CHOICE
from wina_core.jobs.hosted import Listening, RequestFinished, ServeJob

pytestmark = pytest.mark.usefixtures("qapp")

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


class FakeAnswer(QObject):
    """Has the interface of `ServerAnswer`."""

    piece, ended = Signal(str), Signal(str, str)
    stopped = False

    def stop(self) -> None:
        self.stopped = True
        self.ended.emit("stopped", "")


class FakeServer:
    name, runs, chat = "tiny", True, True

    def __init__(self) -> None:
        self.asked, self.answers = [], []

    def answer(self, choice) -> FakeAnswer:
        self.asked.append(choice)
        self.answers.append(FakeAnswer())
        return self.answers[-1]


def test_the_status_line_says_address_requests_and_speed(tmp_path):
    workbench, _, _ = make_workbench(tmp_path)
    process, view = FakeProcess(), Recorded(ServerPanel)
    control = ServerController(workbench, view, process)
    assert view.named("show_server") == {"running": False, "ready": False}
    control.start(JOB)
    assert view.named("show_server") == {"running": True, "ready": False}
    assert control.name == ""
    state = ServerState(folder="/models/tiny", listening=LISTENING)
    process.become(state.after(RequestFinished(path="/v1/completions", status=200, tokens=10, seconds=2.0)))
    assert view.last("show_server") == "http://127.0.0.1:8000/v1, 1 request, 5.0 tokens/s"
    assert (view.named("show_server")["ready"], control.name) == (True, "tiny")
    assert view.calls("choose_server"), "no model is open to prompt"
    process.become(replace(state, stopping=True))
    assert not view.named("show_server")["ready"]


def test_a_server_is_a_job_of_the_window_until_it_ends(tmp_path):
    workbench, engine, _ = make_workbench(tmp_path)
    process = FakeProcess()
    control = ServerController(workbench, Recorded(ServerPanel), process)
    control.start(JOB)
    entry = job_of(workbench)
    assert (entry.id, entry.title, entry.phase) == (control.job_id, "Serve: tiny", "running")
    assert not workbench.jobs.active, "no engine is busy"
    state = ServerState(folder="/models/tiny", listening=LISTENING, requests=2, rate=5.0)
    process.become(state)
    assert remark(job_of(workbench)) == "http://127.0.0.1:8000/v1, 2 requests, 5.0 tokens/s"
    workbench.cancel(entry.id)
    entry = job_of(workbench)
    assert (process.stopped, entry.phase, state_word(entry)) == (1, "cancelling", "Stopping")
    process.become(ServerState())
    entry = job_of(workbench)
    assert (entry.phase, remark(entry).partition("  ·  ")[0]) == ("done", "2 requests, 5.0 tokens/s")
    assert not engine.sent
    assert not entry.can_retry
    control.start(JOB)
    process.failed.emit("The port 8000 is in use by another program.")
    process.become(ServerState())
    entry = workbench.jobs[control.job_id]
    assert (entry.phase, remark(entry)) == ("failed", "The port 8000 is in use by another program.")


def job_of(workbench):
    (entry,) = workbench.jobs
    return entry


def test_the_open_model_is_offered_and_a_bad_key_starts_nothing(tmp_path):
    workbench, _, _ = make_workbench(tmp_path)
    process, view = FakeProcess(), Recorded(ServerPanel)
    control = ServerController(workbench, view, process)
    load(workbench)
    control.open()
    assert view.last("ask").folder == workbench.workspace.source.location
    failures = []
    process.failed.connect(failures.append)
    (tmp_path / "key").write_text("short")
    control.start(JOB.model_copy(update={"key_file": str(tmp_path / "key")}))
    assert (len(failures), process.started, list(workbench.jobs)) == (1, [], [])
    control.start(JOB)
    assert process.started == [JOB]


def test_a_prompt_goes_to_the_server_and_its_answer_can_be_stopped(tmp_path):
    workbench, engine, _ = make_workbench(tmp_path)
    view, server = Recorded(PlaygroundPage, choice=replace(CHOICE, to_server=True)), FakeServer()
    control = PlaygroundController(workbench, view, server)
    load(workbench)
    control.generate()
    assert [each.prompt for each in server.asked] == [CHOICE.prompt]
    assert not [each for each in engine.submitted if each.job.type == "generate"]
    assert view.named("show_action")["running"]
    answer = server.answers[0]
    answer.piece.emit("re")
    answer.piece.emit("turn")
    assert control.completions["sparse"].text == "return"
    control.stop()
    assert answer.stopped
    assert not view.named("show_action")["running"]
    assert control.completions["sparse"].ended.end == "stopped"
    control.generate()
    server.answers[1].ended.emit("stopped", "The server is stopping.")
    assert view.last("show_error") == "The server is stopping."


def test_the_server_needs_no_open_model(tmp_path):
    workbench, _, _ = make_workbench(tmp_path)
    view, server = Recorded(PlaygroundPage, choice=replace(CHOICE, to_server=True)), FakeServer()
    control = PlaygroundController(workbench, view, server)
    assert view.named("show_action")["reason"] == ""
    control.generate()
    assert [each.prompt for each in server.asked] == [CHOICE.prompt]
    server.runs = False
    control.follow_server()
    assert view.named("show_context") == {"ready": True}, "its completion stays"
    control = PlaygroundController(workbench, view, server)
    assert view.named("show_context") == {"ready": False}
    server.runs = True
    control.follow_server()
    assert view.named("show_context") == {"ready": True}
    assert view.last("show_choices").chat, "the served model's template"


def test_the_panel_offers_what_is_of_use(qtbot):
    panel = ServerPanel()
    qtbot.addWidget(panel)
    panel.send.setChecked(True)
    assert not panel.sends
    with qtbot.waitSignal(panel.changed):
        panel.show_server("here", running=True, ready=True)
    assert panel.sends
    assert (panel.stop.isHidden(), panel.serve.isHidden()) == (False, True)


def test_the_dialog_needs_a_folder(qtbot):
    panel = ServerPanel()
    qtbot.addWidget(panel)
    dialog = ServeDialog(ServeJob(folder="", port=8001), panel)
    assert not dialog.start.isEnabled()
    dialog.folder.setText(" demo ")
    assert dialog.start.isEnabled()
    assert dialog.job() == ServeJob(folder="demo", port=8001)
