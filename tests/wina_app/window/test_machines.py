"""The Machines page of the settings, and the choice of machines in the status line."""

import pytest
from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtWidgets import QDialog, QTableWidgetItem
from wina_app.window.machines.controller import MachinesController, MachinesView
from wina_app.window.machines.ray_dialog import RayDialog
from wina_app.window.machines.wiring import wire

from tests.wina_app.fakes import Recorded, make_workbench
from tests.wina_app.stored_runs import SOURCE
from wina_core.jobs import InspectJob
from wina_core.records import Environment
from wina_core.remote.machines.check import MachineReport
from wina_core.remote.machines.messages import Device, MachineFacts
from wina_core.remote.machines.registry import load_machines, load_places
from wina_core.specs.machine import Machine, RayCluster

GIB = 2**30
FACTS = MachineFacts(
    program="0.1.0",
    protocol=1,
    python="3.12.3",
    system="Linux",
    host="gpu-07",
    home="/home/me",
    cpus=64,
    memory_total=512 * GIB,
    memory_free=420 * GIB,
    data_folder="/data",
    data_free=900 * GIB,
    cache_folder="/cache",
    cache_free=800 * GIB,
    devices=(Device(name="H100", memory_total=80 * GIB, memory_free=79 * GIB),),
)
REPORT = MachineReport(
    machine="gpu",
    facts=FACTS,
    latency_seconds=0.0123,
    upload=11e6,
    download=45e6,
    environment=Environment(device="cuda", hardware="H100", versions={"torch": "2.5"}),
    job_seconds=8.4,
)


class FakeCommand(QObject):
    """Has the interface of `MachineCommand`; remembers what it was asked."""

    line = Signal(str)
    succeeded = Signal(str)
    failed = Signal(str)
    stopped = Signal()

    def __init__(self):
        super().__init__()
        self.started = []

    def start(self, *words):
        """Remember."""
        self.started.append(words)

    def stop(self):
        """Stop at once."""
        self.stopped.emit()


@pytest.fixture
def page(qtbot, tmp_path):
    """A page over two machines, with its command and the window's machines."""
    workbench, _, store = make_workbench(tmp_path)
    for name in ("gpu", "lab"):
        workbench.machines.save(Machine(name=name, destination=name))
    command = FakeCommand()
    page = wire(MachinesController(workbench.machines, command), workbench.machines)
    qtbot.addWidget(page)
    page.show()
    yield page, command, workbench.machines
    store.store.close()


def type_into(line, text: str) -> None:
    line.setText(text)
    line.editingFinished.emit()


def test_a_machine_is_stored_as_soon_as_its_form_is_valid(page, qtbot):
    page, _, machines = page
    qtbot.mouseClick(page.add, Qt.MouseButton.LeftButton)
    type_into(page.name, "big")
    assert not page.check.isEnabled()
    assert "big" not in machines.known
    type_into(page.destination, "me@big")
    type_into(page.command, "/opt/my wina/bin/wina")
    page.folders.setItem(0, 0, QTableWidgetItem("/models"))
    page.folders.setItem(0, 1, QTableWidgetItem("/data/models"))
    page.environment.setItem(0, 0, QTableWidgetItem("HF_HOME"))
    page.environment.setItem(0, 1, QTableWidgetItem("/hf"))
    page.engines.setValue(0)
    expected = Machine(
        name="big",
        destination="me@big",
        command=("/opt/my", "wina/bin/wina"),
        engines=0,
        folders=({"here": "/models", "there": "/data/models"},),
        environment={"HF_HOME": "/hf"},
    )
    assert load_machines()["big"] == machines.known["big"] == expected
    assert (page.list.currentItem().text(), page.check.isEnabled()) == ("big", True)
    type_into(page.name, "bigger")
    assert list(load_machines()) == ["bigger", "gpu", "lab"]
    qtbot.mouseClick(page.remove, Qt.MouseButton.LeftButton)
    assert (list(load_machines()), page.name.text()) == (["gpu", "lab"], "gpu")


@pytest.mark.parametrize(
    ("field", "text", "problem"),
    [
        ("name", "x", "Name: a machine's name has 2 to 64 letters"),
        ("name", "lab", 'There is a machine or cluster "lab" already.'),
        ("destination", "-oProxyCommand=x", "Destination: it should be an ssh destination"),
        ("command", "'open", "Command: it should begin with a program"),
    ],
)
def test_what_is_no_machine_is_not_stored_and_says_why(page, field, text, problem):
    page, _, machines = page
    before = machines.known["gpu"]
    type_into(getattr(page, field), text)
    assert page.problem.text().startswith(problem)
    assert load_machines()["gpu"] == before
    page.list.setCurrentRow(1)
    assert (page.problem.text(), page.name.text()) == ("", "lab")


def test_a_check_shows_its_report_or_one_sentence(page, qtbot):
    page, command, _ = page
    qtbot.mouseClick(page.check, Qt.MouseButton.LeftButton)
    assert command.started == [("check", "gpu", "--json")]
    command.line.emit("Connect")
    assert (page.lines.toPlainText(), page.check.isEnabled()) == ("Connect", False)
    page.list.setCurrentRow(1)
    assert (page.lines.isVisible(), page.check.isEnabled()) == (False, False)
    command.succeeded.emit(REPORT.model_dump_json())
    assert not page.report.texts()
    page.list.setCurrentRow(0)
    assert page.report.texts()[:2] == ["wina 0.1.0", "gpu-07"]
    assert "12.3 ms" in page.report.texts()
    qtbot.mouseClick(page.check, Qt.MouseButton.LeftButton)
    command.failed.emit("The machine cannot be reached.")
    assert (page.outcome.text(), page.report.texts()) == ("The machine cannot be reached.", [])


def test_set_up_changes_the_program_and_can_be_stopped(page, qtbot):
    page, command, machines = page
    qtbot.mouseClick(page.set_up, Qt.MouseButton.LeftButton)
    command.line.emit("Pack this program")
    qtbot.mouseClick(page.stop, Qt.MouseButton.LeftButton)
    assert (page.outcome.text(), page.set_up.isEnabled()) == ("Stopped.", True)
    qtbot.mouseClick(page.set_up, Qt.MouseButton.LeftButton)
    machines.save(machines.known["gpu"].model_copy(update={"command": ("~/.wina-workbench/bin/wina",)}))
    command.succeeded.emit(REPORT.model_dump_json())
    assert "wina-workbench" in page.command.text()


def answer_ray_dialog(monkeypatch, *entered: dict[str, str], cancel: bool = False) -> list[str]:
    """Type texts into the next dialog of a cluster, one set of fields after the other; return the problems it shows."""
    shown: list[str] = []

    def execute(dialog: RayDialog) -> bool:
        for fields in entered:
            for name, text in fields.items():
                dialog.lines[name].setText(text)
            shown.append(dialog.problem.text())
            assert dialog.store.isEnabled() == (dialog.cluster is not None)
        return not cancel

    monkeypatch.setattr(RayDialog, "exec", execute)
    return shown


def test_ray_clusters_are_added_edited_and_removed(page, qtbot, monkeypatch):
    page, _, machines = page
    clusters = page.clusters
    answer_ray_dialog(monkeypatch, {"name": "grid", "gpus": "0.5", "memory": "16GiB"})
    qtbot.mouseClick(clusters.add, Qt.MouseButton.LeftButton)
    grid = RayCluster(name="grid", address="auto", gpus=0.5, memory=16 * GIB)
    assert load_places()["grid"] == grid
    assert not clusters.edit.isEnabled()
    assert [clusters.table.item(0, column).text() for column in range(2)] == ["grid", "auto"]
    clusters.table.selectRow(0)
    answer_ray_dialog(monkeypatch, {"name": "other"}, cancel=True)
    qtbot.mouseClick(clusters.edit, Qt.MouseButton.LeftButton)
    assert machines.clusters == [grid]
    answer_ray_dialog(monkeypatch, {"name": "big", "address": "head:6379", "gpus": ""})
    qtbot.mouseClick(clusters.edit, Qt.MouseButton.LeftButton)
    edited = RayCluster(name="big", address="head:6379", memory=16 * GIB)
    assert (machines.clusters, list(machines.known)) == ([edited], ["gpu", "lab"])
    type_into(page.name, "big")
    assert page.problem.text() == 'There is a machine or cluster "big" already.'
    clusters.table.selectRow(0)
    qtbot.mouseClick(clusters.remove, Qt.MouseButton.LeftButton)
    assert (list(load_places()), clusters.table.rowCount()) == (["gpu", "lab"], 0)


def test_what_is_no_ray_cluster_cannot_be_stored_and_the_dialog_says_why(page, qtbot, monkeypatch):
    page, _, machines = page
    problems = answer_ray_dialog(
        monkeypatch,
        *({"name": ""}, {"name": "lab"}, {"name": "x"}, {"name": "grid", "address": "head"}),
        *({"address": "auto", "gpus": "-1"}, {"gpus": "", "cpus": "0"}, {"cpus": "", "memory": "much"}),
    )
    qtbot.mouseClick(page.clusters.add, Qt.MouseButton.LeftButton)
    for problem, expected in zip(
        problems,
        (
            "",
            'There is a machine or cluster "lab" already.',
            "Name: a machine's name has 2 to 64 letters",
            'Address: "head" is no address of a Ray cluster',
            "GPUs of one engine: it should be greater than or equal to 0",
            "Processors of one engine: it should be greater than 0",
            '"much" is no size of memory',
        ),
        strict=True,
    ):
        assert problem.startswith(expected)
        assert bool(problem) == bool(expected)
    assert machines.clusters == []


def test_a_page_that_was_closed_finds_its_command_again(tmp_path, qapp):  # noqa: ARG001 - signals need an application
    workbench, _, store = make_workbench(tmp_path)
    workbench.machines.save(Machine(name="gpu", destination="gpu"))
    command = FakeCommand()
    control = MachinesController(workbench.machines, command)
    control.attach(Recorded(MachinesView))
    control.run("setup")
    control.detach()
    command.line.emit("Make the environment")
    view = Recorded(MachinesView)
    control.attach(view)
    assert (view.last("show_lines"), view.last("show_work")) == (["Make the environment"], "gpu")
    store.store.close()


def test_what_was_saved_on_another_machine_is_named_without_a_folder_to_open(application, tmp_path):
    window = application.window
    window.say_saved(tmp_path / "tiny")
    assert "tiny was saved on another machine" in window.message.text
    assert not window.toasts.shown


def test_run_on_is_quiet_without_a_machine_and_else_shows_where_jobs_run(application, qtbot):
    window, machines = application.window, application.workbench.machines
    assert not window.status.run_on.isVisible()
    window.run_on.choose()
    (dialog,) = (each for each in window.findChildren(QDialog) if each.isVisible())
    dialog.close()
    machines.save(Machine(name="gpu", destination="gpu"))
    qtbot.waitUntil(window.status.run_on.isVisible)
    boxes = {action.text(): action for action in window.run_on.menu.actions()}
    boxes["gpu"].trigger()
    assert (machines.chosen, window.status.run_on.text()) == (("local", "gpu"), "Runs on this computer, gpu")
    boxes["This computer"].trigger()
    boxes["gpu"].trigger()
    boxes["This computer"].trigger()
    assert (machines.chosen, boxes["This computer"].isChecked()) == ((), True)
    machines.save(RayCluster(name="grid", address="head:6379"))
    qtbot.waitUntil(lambda: "grid" in machines.places)
    boxes = {action.text(): action for action in window.run_on.menu.actions()}
    assert (boxes["gpu"].toolTip(), boxes["grid"].toolTip()) == ("gpu", "Ray head:6379")
    boxes["grid"].trigger()
    boxes["This computer"].trigger()
    job_id = application.workbench.submit(InspectJob(model=SOURCE), "Load")
    assert application.workbench.jobs[job_id].machines == ("grid",)
    boxes["Machines…"].trigger()
    (dialog,) = (each for each in window.findChildren(QDialog) if each.isVisible())
    dialog.accept()
