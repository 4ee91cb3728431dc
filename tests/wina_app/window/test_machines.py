"""The Machines page of the settings, and the choice of machines in the status line."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog
from wina_app.services.machines import MachineCheck
from wina_app.window.machines_page import MachinesPage, RayDialog

from tests.wina_app.fakes import make_workbench
from tests.wina_app.stored_runs import SOURCE
from wina_core.errors import WinaError
from wina_core.jobs import InspectJob, Ready
from wina_core.records import Environment
from wina_core.remote import machine_client
from wina_core.remote.registry import load_places
from wina_core.specs.machine import Machine, RayCluster

GIB = 2**30


@pytest.fixture
def page(qtbot, tmp_path):
    """A page over two machines, and the window's machines."""
    workbench, _, store = make_workbench(tmp_path)
    for host in ("gpu", "lab"):
        workbench.machines.save(Machine(host=host))
    page = MachinesPage(workbench.machines)
    qtbot.addWidget(page)
    page.show()
    yield page, workbench.machines
    store.store.close()


def type_into(line, text: str) -> None:
    line.setText(text)
    line.editingFinished.emit()


def test_a_machine_is_stored_as_soon_as_its_form_is_valid(page, qtbot):
    page, machines = page
    qtbot.mouseClick(page.add, Qt.MouseButton.LeftButton)
    type_into(page.command, "/opt/wina/bin/wina")
    assert (page.problem.text(), page.check.isEnabled()) == ("", False)
    type_into(page.host, "me@big")
    type_into(page.folders, "/models=/data/models")
    expected = Machine(host="me@big", command="/opt/wina/bin/wina", folders={"/models": "/data/models"})
    assert load_places()["me@big"] == machines.ssh_machines["me@big"] == expected
    assert (page.list.currentItem().text(), page.check.isEnabled()) == ("me@big", True)
    type_into(page.host, "bigger")
    assert list(load_places()) == ["bigger", "gpu", "lab"]
    qtbot.mouseClick(page.remove, Qt.MouseButton.LeftButton)
    assert (list(load_places()), page.host.text()) == (["gpu", "lab"], "gpu")


@pytest.mark.parametrize(
    ("field", "text", "problem"),
    [
        ("host", "ssh://x", "Host: it should be a host of your ~/.ssh/config"),
        ("host", "lab", 'There is a machine or cluster "lab" already.'),
        ("folders", "/models", "Folders: "),
        ("command", "", "Command: it should begin with a program"),
    ],
)
def test_what_is_no_machine_is_not_stored_and_says_why(page, field, text, problem):
    page, machines = page
    before = machines.ssh_machines["gpu"]
    type_into(getattr(page, field), text)
    assert page.problem.text().startswith(problem)
    assert load_places()["gpu"] == before
    page.list.setCurrentRow(1)
    assert (page.problem.text(), page.host.text()) == ("", "lab")


def test_a_check_shows_what_an_engine_computes_with_or_one_sentence(page, qtbot, monkeypatch):
    page, machines = page
    environment = Environment(device="cuda", hardware="H100", versions={"torch": "2.5"})
    answers = {"gpu": Ready(pid=1, environment=environment)}

    def check(machine: Machine) -> Ready:
        if machine.host not in answers:
            raise WinaError("The machine cannot be reached.")
        return answers[machine.host]

    monkeypatch.setattr(machine_client, "check_machine", check)
    qtbot.mouseClick(page.check, Qt.MouseButton.LeftButton)
    assert page.outcome.text() == "cuda: H100\ntorch 2.5"
    page.list.setCurrentRow(1)
    assert not page.outcome.isVisible()
    qtbot.mouseClick(page.check, Qt.MouseButton.LeftButton)
    assert page.outcome.text() == "The machine cannot be reached."
    another = MachinesPage(machines)
    qtbot.addWidget(another)
    assert another.outcome.text() == "cuda: H100\ntorch 2.5"


def test_a_second_check_waits_for_the_first_one(page):
    page, machines = page
    machines._show_check("gpu", MachineCheck("Connecting…", runs=True))
    assert (page.outcome.text(), page.check.isEnabled()) == ("Connecting…", False)
    page.list.setCurrentRow(1)
    assert page.check.isEnabled()


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
    page, machines = page
    clusters = page.clusters
    answer_ray_dialog(monkeypatch, {"name": "grid", "gpus": "0.5", "memory": "16GiB"})
    qtbot.mouseClick(clusters.add, Qt.MouseButton.LeftButton)
    grid = RayCluster(name="grid", address="auto", gpus=0.5, memory=16 * GIB)
    assert load_places()["grid"] == grid
    assert not clusters.edit.isEnabled()
    assert clusters.list.item(0).text() == "grid  ·  auto"
    clusters.list.setCurrentRow(0)
    answer_ray_dialog(monkeypatch, {"name": "other"}, cancel=True)
    qtbot.mouseClick(clusters.edit, Qt.MouseButton.LeftButton)
    assert machines.clusters == [grid]
    answer_ray_dialog(monkeypatch, {"name": "big", "address": "head:6379", "gpus": ""})
    qtbot.mouseClick(clusters.edit, Qt.MouseButton.LeftButton)
    edited = RayCluster(name="big", address="head:6379", memory=16 * GIB)
    assert (machines.clusters, list(machines.ssh_machines)) == ([edited], ["gpu", "lab"])
    type_into(page.host, "big")
    assert page.problem.text() == 'There is a machine or cluster "big" already.'
    clusters.list.setCurrentRow(0)
    qtbot.mouseClick(clusters.remove, Qt.MouseButton.LeftButton)
    assert (list(load_places()), clusters.list.count()) == (["gpu", "lab"], 0)


def test_what_is_no_ray_cluster_cannot_be_stored_and_the_dialog_says_why(page, qtbot, monkeypatch):
    page, machines = page
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


def test_run_on_is_quiet_without_a_machine_and_else_shows_where_jobs_run(application, qtbot):
    window, machines = application.window, application.workbench.machines
    assert not window.status.run_on.isVisible()
    window.run_on.choose()
    (dialog,) = (each for each in window.findChildren(QDialog) if each.isVisible())
    dialog.close()
    machines.save(Machine(host="gpu"))
    qtbot.waitUntil(window.status.run_on.isVisible)
    boxes = {action.text(): action for action in window.run_on.menu.actions()}
    boxes["gpu"].trigger()
    assert (machines.chosen, window.status.run_on.text()) == (("local", "gpu"), "Runs on this computer, gpu")
    boxes["This computer"].trigger()
    boxes["gpu"].trigger()
    boxes["This computer"].trigger()
    assert (machines.chosen, boxes["This computer"].isChecked()) == ((), True)
    machines.save(RayCluster(name="grid", address="head:6379"))
    qtbot.waitUntil(lambda: "grid" in machines.entries)
    boxes = {action.text(): action for action in window.run_on.menu.actions()}
    assert (boxes["gpu"].toolTip(), boxes["grid"].toolTip()) == ("gpu", "Ray head:6379")
    boxes["grid"].trigger()
    boxes["This computer"].trigger()
    job_id = application.workbench.submit(InspectJob(model=SOURCE), "Load")
    assert application.workbench.jobs[job_id].machines == ("grid",)
    boxes["Machines…"].trigger()
    (dialog,) = (each for each in window.findChildren(QDialog) if each.isVisible())
    dialog.accept()
