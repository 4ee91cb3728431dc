"""The Machines page of the settings: the machines over ssh, and below them the Ray clusters."""

import re
from collections.abc import Collection

from pydantic import ValidationError
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QLineEdit, QListWidget, QWidget

from wina_app.services.machines import Machines
from wina_app.style.theme import GRID
from wina_app.widgets.boxes import STRETCH, hbox, vbox
from wina_app.widgets.controls import explain_disabled, labelled, push_button, side_by_side, text_label
from wina_app.widgets.fields import whole_number
from wina_core.errors import WinaError, problems
from wina_core.files.hardware import parse_bytes
from wina_core.specs.machine import Machine, RayCluster

_CLUSTER = "A Ray cluster that runs already. The fields of one engine may stay empty."
_ADDRESS = "HOST:PORT as printed by ray start, or auto if this computer is a node of the cluster."
_GPUS = "Such as 0.5; empty is 1 where there are any."
_CPUS = "Empty is all of a node, without GPUs."
_MEMORY = "Such as 16GB, which Ray sets aside."
_MAX_ENGINES = 10_000

_HOST = "A host of your ~/.ssh/config, or user@host; also its name in commands."
_COMMAND = "The program wina there; env NAME=VALUE wina sets a variable."
_FOLDERS = "HERE=THERE, separated by commas, such as /models=/data/models."
_CHECK = "Starts an engine there, and shows its device and versions"


class RayDialog(QDialog):
    """Name and address of a cluster, and the resources of one engine there."""

    def __init__(self, cluster: RayCluster | None, other_names: Collection[str], parent: QWidget) -> None:
        """Show a cluster, None for a new one; `other_names` are those of the others."""
        super().__init__(parent)
        self.setWindowTitle("Add Ray cluster" if cluster is None else "Edit Ray cluster")
        self.setMinimumWidth(GRID * 72)
        self.cluster: RayCluster | None = None
        """The cluster that was entered; None while something is wrong."""
        self._other_names = other_names
        initial = cluster or RayCluster.model_construct(name="", address="auto")
        self.lines = {
            "name": QLineEdit(initial.name),
            "address": QLineEdit(initial.address),
            "gpus": QLineEdit(_number(initial.gpus)),
            "cpus": QLineEdit(_number(initial.cpus)),
            "memory": QLineEdit("" if initial.memory is None else f"{_number(initial.memory / 1e9)}GB"),
        }
        self._titles = {
            "name": "Name",
            "address": "Address",
            "gpus": "GPUs of one engine",
            "cpus": "Processors of one engine",
            "memory": "Memory of one engine",
        }
        hints = {"address": _ADDRESS, "gpus": _GPUS, "cpus": _CPUS, "memory": _MEMORY}
        self.engines = whole_number(0, _MAX_ENGINES, initial.engines, lowest="All that fit")
        self.problem = text_label("", "problem", wrap=True)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel)
        text = "Add" if cluster is None else "Save"
        self.store = buttons.addButton(text, QDialogButtonBox.ButtonRole.AcceptRole)
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        blocks = {
            name: labelled(self._titles[name], line, hint=hints.get(name, "")) for name, line in self.lines.items()
        }
        share = hbox(None, *((blocks[name], 1) for name in ("gpus", "cpus", "memory")), spacing=GRID * 2)
        vbox(
            self,
            text_label(_CLUSTER, wrap=True),
            *(blocks["name"], blocks["address"], share),
            labelled("Engines", self.engines),
            *(self.problem, buttons),
            margins=(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID),
            spacing=GRID,
        )
        for line in self.lines.values():
            line.textChanged.connect(self._check)
        self.engines.valueChanged.connect(self._check)
        self._check()

    def _check(self) -> None:
        """Say what is wrong with the fields, once name and address are filled, and store none of these."""
        texts = {name: line.text().strip() for name, line in self.lines.items()}
        self.cluster, problem = None, ""
        if texts["name"] and texts["address"]:
            try:
                self.cluster = self._entered(texts)
            except WinaError as error:
                problem = str(error)
        self.problem.setText(problem)
        self.problem.setVisible(bool(problem))
        self.store.setEnabled(self.cluster is not None)

    def _entered(self, texts: dict[str, str]) -> RayCluster:
        """Return the cluster of the texts; raise WinaError for what is none."""
        if texts["name"] in self._other_names:
            name = texts["name"]
            raise WinaError(f'There is a machine or cluster "{name}" already.')
        fields: dict[str, object] = {name: text for name, text in texts.items() if text}
        if texts["memory"]:
            fields["memory"] = parse_bytes(texts["memory"])
        try:
            return RayCluster.model_validate(fields | {"engines": self.engines.value()})
        except ValidationError as error:
            (field, *_), reason = problems(error)[0]
            raise WinaError(f"{self._titles[str(field)]}: {reason}.") from None


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.15g}"  # 15 digits hide the rounding of a division by 1e9


class RayClusters(QWidget):
    """List of the clusters, which are added, edited and removed."""

    def __init__(self, machines: Machines) -> None:
        super().__init__()
        self._machines = machines
        self.list = QListWidget()
        self.list.setAccessibleName("Ray clusters")
        self.list.setFixedHeight(GRID * 14)
        self.list.itemSelectionChanged.connect(self._show_buttons)
        self.list.itemDoubleClicked.connect(self._edit)
        self.add = push_button("Add…", lambda: self._ask(None), name="Add a Ray cluster")
        self.edit = push_button("Edit…", self._edit, name="Edit the Ray cluster")
        self.remove = push_button("Remove", self._remove, name="Remove the Ray cluster")
        buttons = vbox(None, self.add, self.edit, self.remove, STRETCH)
        row = QWidget()
        hbox(row, (self.list, 1), buttons)
        vbox(self, labelled("Ray clusters", row))
        machines.changed.connect(self._show)
        self._show()

    def _show(self) -> None:
        texts = [f"{cluster.name}  ·  {cluster.address}" for cluster in self._machines.clusters]
        if texts != [self.list.item(row).text() for row in range(self.list.count())]:
            self.list.clear()
            self.list.addItems(texts)
        self._show_buttons()

    def _show_buttons(self) -> None:
        for button in (self.edit, self.remove):
            explain_disabled(button, enabled=self._chosen() is not None, reason="Select a cluster")

    def _chosen(self) -> RayCluster | None:
        rows = self.list.selectedIndexes()
        return self._machines.clusters[rows[0].row()] if rows else None

    def _edit(self) -> None:
        self._ask(self._chosen())

    def _ask(self, cluster: RayCluster | None) -> None:
        """Ask for a cluster, a new one or in the place of this one, and store it."""
        name = "" if cluster is None else cluster.name
        dialog = RayDialog(cluster, self._machines.entries.keys() - {name}, self)
        if dialog.exec() and dialog.cluster is not None:
            self._machines.save(dialog.cluster, name)
        dialog.deleteLater()

    def _remove(self) -> None:
        if (cluster := self._chosen()) is not None:
            self._machines.remove(cluster.name)


class MachinesPage(QWidget):
    """List of machines, and the form of one, which is stored as soon as it is valid."""

    def __init__(self, machines: Machines) -> None:
        super().__init__()
        self._machines = machines
        self._selected = ""
        """Name of the machine in the form; empty for a new one."""
        self.clusters = RayClusters(machines)
        self.list = QListWidget()
        self.list.setAccessibleName("Machines")
        self.list.currentTextChanged.connect(lambda name: self.select(name) if name else None)
        self.add = push_button("Add", self._begin_new, name="Add a machine")
        self.remove = push_button("Remove", self._remove, name="Remove the machine", tip="Nothing there changes")
        side, form = QWidget(), QWidget()
        side.setFixedWidth(GRID * 24)
        vbox(side, (self.list, 1), side_by_side(self.add, self.remove), spacing=GRID)
        form.setProperty("role", "form")
        self._build_form(form)
        vbox(
            self,
            (hbox(None, side, (form, 1), spacing=GRID * 2), 1),
            self.clusters,
            margins=(0, GRID * 2, 0, 0),
            spacing=GRID * 2,
        )
        machines.changed.connect(self._show_list)  # not the form, where someone may be typing
        machines.failed.connect(self._show_problem)
        machines.checked.connect(self._show_check)
        self.select(next(iter(machines.ssh_machines), ""))

    def _build_form(self, form: QWidget) -> None:
        self.host, self.command, self.folders = QLineEdit(), QLineEdit(), QLineEdit()
        for line in (self.host, self.command, self.folders):
            line.editingFinished.connect(self._store)
        self.problem, self.outcome = text_label("", "problem", wrap=True), text_label("", wrap=True)
        self.check = push_button("Check", lambda: self._machines.check(self._selected), tip=_CHECK)
        vbox(
            form,
            labelled("Host", self.host, hint=_HOST),
            labelled("Command", self.command, hint=_COMMAND),
            labelled("Folders with the same files", self.folders, hint=_FOLDERS),
            *(self.problem, side_by_side(self.check), self.outcome),
            STRETCH,
            spacing=GRID,
        )

    def select(self, name: str) -> None:
        """Show a machine; an empty name begins a new one."""
        self._selected = name if name in self._machines.ssh_machines else ""
        # Made without validation, which refuses an empty host.
        machine = self._machines.ssh_machines.get(self._selected) or Machine.model_construct(host="")
        self.host.setText(machine.host)
        self.command.setText(machine.command)
        self.folders.setText(", ".join(f"{here}={there}" for here, there in machine.folders.items()))
        self._show_problem("")
        self._show_list()

    def _begin_new(self) -> None:
        self.select("")
        self.host.setFocus()

    def _remove(self) -> None:
        name = self._selected
        self.select(next((other for other in self._machines.ssh_machines if other != name), ""))
        self._machines.remove(name)

    def _store(self) -> None:
        """Store the form if it is a machine, else show what is wrong with it."""
        before, host = self._selected, self.host.text().strip()
        if not host and not before:
            return
        pairs = [pair.partition("=") for pair in re.split(r"\s*,\s*", self.folders.text().strip()) if pair]
        folders = {here.strip(): there.strip() for here, _, there in pairs}
        try:
            machine = Machine(host=host, command=self.command.text(), folders=folders)
        except ValidationError as error:
            (field, *_), reason = problems(error)[0]
            self._show_problem(f"{str(field).capitalize()}: {reason}.")
            return
        if machine.name != before and machine.name in self._machines.entries:
            self._show_problem(f'There is a machine or cluster "{machine.name}" already.')
            return
        self._show_problem("")
        if machine != self._machines.ssh_machines.get(before):
            self._selected = machine.name  # before `save`, after which the list selects it
            self._machines.save(machine, before)

    def _show_list(self) -> None:
        names = list(self._machines.ssh_machines)
        self.list.blockSignals(True)
        self.list.clear()
        self.list.addItems(names)
        self.list.setCurrentRow(names.index(self._selected) if self._selected in names else -1)
        self.list.blockSignals(False)
        explain_disabled(self.remove, enabled=self._selected in names, reason="Select a machine")
        self._show_check(self._selected)

    def _show_problem(self, text: str) -> None:
        self.problem.setText(text)
        self.problem.setVisible(bool(text))

    def _show_check(self, name: str) -> None:
        """Show the outcome of a machine's check, if it is the one in the form."""
        if name != self._selected:
            return
        outcome = self._machines.checks.get(name)
        runs = outcome is not None and outcome.runs
        reason = "Wait for its answer" if runs else "Fill in the host first"
        ready = name in self._machines.ssh_machines and not runs
        explain_disabled(self.check, enabled=ready, reason=reason, explanation=_CHECK)
        self.outcome.setText("" if outcome is None else outcome.text)
        self.outcome.setVisible(outcome is not None)
