"""The user's machines, and those that compute the window's jobs."""

from collections.abc import Iterable

from PySide6.QtCore import QObject, Signal

from wina_app.services.checks import Checks
from wina_app.services.settings import Settings
from wina_core.engine.client.job_models import machine_of
from wina_core.engine.protocol import Job
from wina_core.machines.machine import LOCAL, Machine
from wina_core.machines.registry import load_machines, remove_machine, save_machine
from wina_core.tasks.consents import forget_machine


def only_here(machines: Iterable[str]) -> bool:
    """Return whether a job for these machines runs on this computer alone."""
    return set(machines) <= {LOCAL}


class Machines(QObject):
    """The machines of the config folder, read and written off the main thread, and the choice among them."""

    changed = Signal()
    """The machines or the choice have changed."""
    failed = Signal(str)

    def __init__(self, checks: Checks, settings: Settings) -> None:
        super().__init__()
        self._checks, self._settings = checks, settings
        self.known: dict[str, Machine] = {}

    @property
    def chosen(self) -> tuple[str, ...]:
        """Machines that may compute new jobs, `LOCAL` for this computer; empty for this computer alone."""
        return tuple(self._settings.run_on)

    def choose(self, names: Iterable[str]) -> None:
        """Let new jobs run on these machines; on this computer if there are none."""
        chosen = list(dict.fromkeys(names))
        chosen = [] if only_here(chosen) else chosen
        if chosen != self._settings.run_on:
            self._settings.run_on = chosen
            self.changed.emit()

    def for_job(self, job: Job) -> tuple[str, ...]:
        """Return the machines for a job: the one on which its model lies, else the chosen ones."""
        own = machine_of(job)
        return self.chosen if own is None else (own,)

    def load(self) -> None:
        """Read the machines."""
        self._checks.ask(load_machines, self._take, self.failed.emit)

    def save(self, machine: Machine, replaced: str = "") -> None:
        """Store a machine, in the place of another one of the name `replaced`."""

        def question() -> dict[str, Machine]:
            known = save_machine(machine)
            if replaced in known and replaced != machine.name:
                forget_machine(replaced)
                known = remove_machine(replaced)
            return known

        self._checks.ask(question, self._take, self.failed.emit)

    def remove(self, name: str) -> None:
        """Forget a machine, and the consents to run code there."""

        def question() -> dict[str, Machine]:
            forget_machine(name)
            return remove_machine(name)

        self._checks.ask(question, self._take, self.failed.emit)

    def _take(self, known: dict[str, Machine]) -> None:
        if known != self.known:
            self.known = known
            self.changed.emit()
        self.choose(name for name in self.chosen if name in known or name == LOCAL)
