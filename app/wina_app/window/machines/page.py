"""The Machines page of the settings: the machines over ssh, and below them the Ray clusters."""

from pydantic import ValidationError
from PySide6.QtWidgets import QLineEdit, QListWidget, QWidget

from wina_app.services.machines import Machines
from wina_app.style.theme import GRID
from wina_app.style.translation import tr
from wina_app.widgets.boxes import STRETCH, hbox, vbox
from wina_app.widgets.controls import explain_disabled, labelled, push_button, side_by_side, text_label
from wina_app.window.machines.pair_table import PairTable
from wina_app.window.machines.ray_clusters import RayClusters
from wina_core.errors import problems
from wina_core.specs.machine import Machine

_HOST = tr("A host of your ~/.ssh/config, or user@host; also its name in commands.")
_COMMAND = tr("The program wina there; env NAME=VALUE wina sets a variable.")
_CHECK = tr("Starts an engine there, and shows its device and versions")


class MachinesPage(QWidget):
    """List of machines, and the form of one, which is stored as soon as it is valid."""

    def __init__(self, machines: Machines) -> None:
        super().__init__()
        self._machines = machines
        self._selected = ""
        """Name of the machine in the form; empty for a new one."""
        self.clusters = RayClusters(machines)
        self.list = QListWidget()
        self.list.setAccessibleName(tr("Machines"))
        self.list.currentTextChanged.connect(lambda name: self.select(name) if name else None)
        self.add = push_button(tr("Add"), self._begin_new, name=tr("Add a machine"))
        self.remove = push_button(
            tr("Remove"), self._remove, name=tr("Remove the machine"), tip=tr("Nothing there changes")
        )
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
        machines.changed.connect(self._on_changed)
        machines.failed.connect(self._show_problem)
        machines.checked.connect(self._show_check)
        self.select(next(iter(machines.ssh_machines), ""))

    def _build_form(self, form: QWidget) -> None:
        self.host, self.command = QLineEdit(), QLineEdit()
        for line in (self.host, self.command):
            line.editingFinished.connect(self._store)
        self.folders = PairTable(tr("Folders with the same files"), (tr("Folder here"), tr("Folder there")))
        self.folders.edited.connect(self._store)
        self.problem, self.outcome = text_label("", "problem", wrap=True), text_label("", wrap=True)
        self.check = push_button(tr("Check"), lambda: self._machines.check(self._selected), tip=_CHECK)
        vbox(
            form,
            labelled(tr("Host"), self.host, hint=_HOST),
            labelled(tr("Command"), self.command, hint=_COMMAND),
            labelled(self.folders.accessibleName(), self.folders),
            *(self.problem, side_by_side(self.check), self.outcome),
            STRETCH,
            spacing=GRID,
        )

    def select(self, name: str) -> None:
        """Show a machine; an empty name begins a new one."""
        self._selected = name if name in self._machines.ssh_machines else ""
        machine = self._machines.ssh_machines.get(self._selected) or Machine.model_construct(host="")
        self.host.setText(machine.host)
        self.command.setText(machine.command)
        self.folders.show_pairs(machine.folders.items())
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
        try:
            machine = Machine(host=host, command=self.command.text(), folders=dict(self.folders.pairs()))
        except ValidationError as error:
            (field, *_), reason = problems(error)[0]
            self._show_problem(f"{str(field).capitalize()}: {reason}.")
            return
        if machine.name != before and machine.name in self._machines.entries:
            self._show_problem(tr('There is a machine or cluster "{name}" already.', name=machine.name))
            return
        self._show_problem("")
        if machine != self._machines.ssh_machines.get(before):
            self._selected = machine.name
            self._machines.save(machine, before)

    def _on_changed(self) -> None:
        """List the machines. The form stays, in which someone may be typing."""
        self._show_list()

    def _show_list(self) -> None:
        names = list(self._machines.ssh_machines)
        self.list.blockSignals(True)
        self.list.clear()
        self.list.addItems(names)
        self.list.setCurrentRow(names.index(self._selected) if self._selected in names else -1)
        self.list.blockSignals(False)
        explain_disabled(self.remove, enabled=self._selected in names, reason=tr("Select a machine"))
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
        reason = tr("Wait for its answer") if runs else tr("Fill in the host first")
        ready = name in self._machines.ssh_machines and not runs
        explain_disabled(self.check, enabled=ready, reason=reason, explanation=_CHECK)
        self.outcome.setText("" if outcome is None else outcome.text)
        self.outcome.setVisible(outcome is not None)
