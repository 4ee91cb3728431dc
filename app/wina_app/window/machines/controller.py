"""Controller of the Machines page: the stored machines, and one check or set-up at a time."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol

from pydantic import ValidationError
from PySide6.QtCore import QObject

from wina_app.services.machine_command import MachineCommand
from wina_app.services.machines import Machines
from wina_app.style.translation import tr
from wina_core.errors import explain
from wina_core.specs.machine import Machine

if TYPE_CHECKING:  # imported with the first report
    from wina_core.remote.machines.check import MachineReport

Work = Literal["check", "setup", "unset"]
_MOST_LINES = 500


class MachinesView(Protocol):
    """The page as its controller sees it."""

    def show_machines(self, names: Sequence[str], selected: str) -> None:
        """List the machines; none is selected with an empty name, as for a new one."""

    def show_machine(self, machine: Machine | None) -> None:
        """Fill the form; empty for a new machine."""

    def show_problem(self, text: str) -> None:
        """Show why the form is not stored; nothing without a text."""

    def show_work(self, running: str, own: bool) -> None:
        """Show the machine with which a command runs, empty for none, and whether it is the selected one."""

    def show_lines(self, lines: Sequence[str]) -> None:
        """Show the progress of a command."""

    def show_report(self, report: "MachineReport | None", text: str, failed: bool) -> None:
        """Show the outcome of the last command with the selected machine."""


class MachinesController(QObject):
    """Editor of the machines, which are stored as soon as the form is valid."""

    def __init__(self, machines: Machines, command: MachineCommand) -> None:
        super().__init__()
        self._machines, self._command = machines, command
        self._view: MachinesView | None = None
        self._selected = ""
        self._shown: Machine | None = None
        """The machine in the form, as stored."""
        self._running: tuple[str, Work] | None = None
        self._lines: list[str] = []
        self._outcomes: dict[str, tuple[MachineReport | None, str, bool]] = {}
        machines.changed.connect(self._on_changed)
        machines.failed.connect(self._on_refused)
        command.line.connect(self._on_line)
        command.succeeded.connect(self._on_succeeded)
        command.failed.connect(lambda text: self._end((None, text, True)))
        command.stopped.connect(lambda: self._end((None, tr("Stopped."), False)))

    def attach(self, view: MachinesView) -> None:
        """Show everything on a page; an earlier one has gone."""
        self._view = view
        self.select(self._selected or next(iter(self._machines.known), ""))

    def detach(self) -> None:
        """Forget the page; a command goes on."""
        self._view = None

    def select(self, name: str) -> None:
        """Show a machine; an empty name begins a new one."""
        self._selected = name if name in self._machines.known else ""
        self._shown = self._machines.known.get(self._selected)
        if self._view is not None:
            self._view.show_machines(list(self._machines.known), self._selected)
            self._view.show_machine(self._shown)
            self._view.show_problem("")
            self._show_work()

    def edit(self, fields: Mapping[str, object]) -> None:
        """Store the form's fields if they are a machine, else show what is wrong with them."""
        assert self._view is not None
        try:
            machine = Machine.model_validate(fields)
        except ValidationError as error:
            begun = fields["name"] and fields["destination"]
            self._view.show_problem(_problem(error) if begun or self._selected else "")
            return
        before = self._selected
        if machine.name != before and machine.name in self._machines.places:
            self._view.show_problem(tr('There is a machine or cluster "{name}" already.', name=machine.name))
            return
        self._view.show_problem("")
        if machine != self._machines.known.get(before):
            self._selected, self._shown = machine.name, machine
            self._machines.save(machine, before)

    def remove(self) -> None:
        """Forget the selected machine; nothing there changes."""
        if self._selected:
            name, others = self._selected, [other for other in self._machines.known if other != self._selected]
            self.select(others[0] if others else "")
            self._outcomes.pop(name, None)
            self._machines.remove(name)

    def run(self, work: Work) -> None:
        """Check or set up the selected machine, or remove its set-up."""
        if self._selected and self._running is None:
            self._running, self._lines = (self._selected, work), []
            self._outcomes.pop(self._selected, None)
            self._command.start(work, self._selected, *(("--json",) if work != "unset" else ()))
            self._show_work()

    def stop(self) -> None:
        """Stop the command."""
        self._command.stop()

    def _on_changed(self) -> None:
        """List the machines; the form is filled only if its machine has changed elsewhere: someone may be typing."""
        known = self._machines.known
        if self._view is None:
            return
        self._view.show_machines(list(known), self._selected if self._selected in known else "")
        stored = known.get(self._selected)
        if stored is not None and stored != self._shown:
            self._shown = stored
            self._view.show_machine(stored)
        self._show_work()

    def _on_refused(self, text: str) -> None:
        if self._view is not None:
            self._view.show_problem(text)

    def _on_line(self, line: str) -> None:
        self._lines = [*self._lines, line][-_MOST_LINES:]
        if self._view is not None and self._running is not None and self._running[0] == self._selected:
            self._view.show_lines(self._lines)

    def _on_succeeded(self, output: str) -> None:
        assert self._running is not None
        if self._running[1] == "unset":
            self._end((None, self._lines[-1] if self._lines else tr("The set-up is removed."), False))
            return
        from wina_core.remote.machines.check import MachineReport

        try:
            self._end((MachineReport.model_validate_json(output), "", False))
        except ValidationError as error:
            self._end((None, explain(error), True))

    def _end(self, outcome: "tuple[MachineReport | None, str, bool]") -> None:
        assert self._running is not None
        (name, work), self._running = self._running, None
        self._outcomes[name] = outcome
        if work != "check":  # which has changed the machine's command
            self._machines.load()
        self._show_work()

    def _show_work(self) -> None:
        if self._view is None:
            return
        running = "" if self._running is None else self._running[0]
        own = bool(running) and running == self._selected
        self._view.show_lines(self._lines if own else [])
        self._view.show_report(*self._outcomes.get(self._selected, (None, "", False)))
        self._view.show_work(running, own)


def _problem(error: ValidationError) -> str:
    """Return the first problem as a sentence that names its field."""
    first = error.errors()[0]
    cause = str(first.get("ctx", {}).get("error") or first["msg"])
    return f"{str(first['loc'][0]).capitalize()}: {cause}."
