"""The Playground's server: its status line, its dialog, and prompts that go to it."""

from dataclasses import replace

import pytest
from PySide6.QtCore import QObject, Signal
from wina_app.pages.playground.controller import PlaygroundController, PlaygroundView
from wina_app.pages.playground.serve_dialog import ServeDialog
from wina_app.pages.playground.server_controller import ServerController, ServerView
from wina_app.pages.playground.server_panel import ServerPanel
from wina_app.pages.playground.server_state import ServeSettings
from wina_app.services.model_server import ServerState

from tests.wina_app.fakes import Recorded, load, make_workbench
from tests.wina_app.pages.playground.test_controller import CHOICE
from wina_core.engine.protocol.serving import Listening, RequestFinished

pytestmark = pytest.mark.usefixtures("qapp")

LISTENING = Listening(address="http://127.0.0.1:8000/v1", model="tiny", chat=False)


class FakeProcess(QObject):
    """Has the interface of `ModelServer`."""

    changed, failed = Signal(), Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.state, self.started = ServerState(), []

    def start(self, *words) -> None:
        self.started.append(words)

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
    name = "tiny"

    def __init__(self) -> None:
        self.asked, self.answers = [], []

    def answer(self, choice) -> FakeAnswer:
        self.asked.append(choice)
        self.answers.append(FakeAnswer())
        return self.answers[-1]


def test_the_status_line_says_address_requests_and_speed(tmp_path):
    workbench, _, _ = make_workbench(tmp_path)
    process, view = FakeProcess(), Recorded(ServerView)
    control = ServerController(workbench, view, process)
    assert view.named("show_server") == {"running": False, "ready": False}
    process.become(ServerState(folder="/models/tiny"))
    assert view.named("show_server") == {"running": True, "ready": False}
    assert control.name == ""
    state = ServerState(folder="/models/tiny", listening=LISTENING)
    process.become(state.after(RequestFinished(path="/v1/completions", status=200, tokens=10, seconds=2.0)))
    assert view.last("show_server") == "http://127.0.0.1:8000/v1, 1 request, 5.0 tokens/s"
    assert (view.named("show_server")["ready"], control.name) == (True, "tiny")
    process.become(replace(state, stopping=True))
    assert not view.named("show_server")["ready"]


def test_the_open_model_is_offered_and_a_bad_key_starts_nothing(tmp_path):
    workbench, _, _ = make_workbench(tmp_path)
    process, view = FakeProcess(), Recorded(ServerView)
    control = ServerController(workbench, view, process)
    load(workbench)
    control.open()
    assert view.last("ask").folder == workbench.workspace.source.location
    failures = []
    process.failed.connect(failures.append)
    (tmp_path / "key").write_text("short")
    control.start(ServeSettings("demo", 8001, str(tmp_path / "key")))
    assert (len(failures), process.started) == (1, [])
    control.start(ServeSettings("demo", 8001))
    assert process.started == [("demo", 8001, "")]


def test_a_prompt_goes_to_the_server_and_its_answer_can_be_stopped(tmp_path):
    workbench, engine, _ = make_workbench(tmp_path)
    view, server = Recorded(PlaygroundView, choice=replace(CHOICE, to_server=True)), FakeServer()
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
    view, server = Recorded(PlaygroundView, choice=replace(CHOICE, to_server=True)), FakeServer()
    control = PlaygroundController(workbench, view, server)
    assert view.named("show_action")["reason"] == ""
    control.generate()
    assert [each.prompt for each in server.asked] == [CHOICE.prompt]


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
    dialog = ServeDialog(ServeSettings(port=8001), panel)
    assert not dialog.start.isEnabled()
    dialog.folder.setText(" demo ")
    assert dialog.start.isEnabled()
    assert dialog.settings() == ServeSettings("demo", 8001, "")
