"""The user's machines and Ray clusters, and those that compute the window's jobs."""

from collections.abc import Iterable
from dataclasses import dataclass

from PySide6.QtCore import QObject, Signal

from wina_app.services.settings import Settings
from wina_app.services.threads import Checks
from wina_core.jobs import Ready
from wina_core.remote.registry import load_places, remove_machine, save_machine
from wina_core.specs.machine import LOCAL, Machine, RayCluster


def describe_ready(ready: Ready) -> str:
    """Return an engine's device, hardware and versions, as printable lines."""
    environment = ready.environment
    versions = ", ".join(f"{name} {version}" for name, version in environment.versions.items())
    return f"{environment.device}: {environment.hardware}\n{versions}"


def only_here(machines: Iterable[str]) -> bool:
    return set(machines) <= {LOCAL}


@dataclass(frozen=True)
class MachineCheck:
    """The state of a machine's check."""

    text: str
    runs: bool = False


class Machines(QObject):
    """The stored machines and clusters, read and written off the main thread, and the choice among them."""

    changed = Signal()
    """The machines, the clusters or the choice have changed."""
    failed = Signal(str)
    checked = Signal(str)
    """The check of the machine with this name has begun or ended."""

    def __init__(self, checks: Checks, settings: Settings) -> None:
        super().__init__()
        self._checks, self._settings = checks, settings
        self.entries: dict[str, Machine | RayCluster] = {}
        """All of them by name."""
        self.checks: dict[str, MachineCheck] = {}
        """Last check of machines by name."""

    @property
    def ssh_machines(self) -> dict[str, Machine]:
        return {name: entry for name, entry in self.entries.items() if isinstance(entry, Machine)}

    @property
    def clusters(self) -> list[RayCluster]:
        return [entry for entry in self.entries.values() if isinstance(entry, RayCluster)]

    @property
    def chosen(self) -> tuple[str, ...]:
        """Machines and clusters that may compute new jobs, `LOCAL` for this computer; empty for this computer alone."""
        return tuple(self._settings.run_on)

    def choose(self, names: Iterable[str]) -> None:
        """Let new jobs run on these machines; on this computer if there are none."""
        chosen = list(dict.fromkeys(names))
        chosen = [] if only_here(chosen) else chosen
        if chosen != self._settings.run_on:
            self._settings.run_on = chosen
            self.changed.emit()

    def load(self) -> None:
        self._checks.ask(load_places, self._take, self.failed.emit)

    def save(self, entry: Machine | RayCluster, replaced: str = "") -> None:
        """Store a machine or a cluster, in the place of another one of the name `replaced`."""

        def question() -> dict[str, Machine | RayCluster]:
            # Stored before the old one is removed: a failure between loses nothing.
            entries = save_machine(entry)
            if replaced in entries and replaced != entry.name:
                entries = remove_machine(replaced)
            return entries

        self._checks.ask(question, self._take, self.failed.emit)

    def check(self, name: str) -> None:
        """Start an engine on a machine, off the main thread, and show its device and versions or why there is none."""
        from wina_core.remote.machine_client import check_machine

        machine = self.ssh_machines[name]
        self._show_check(name, MachineCheck("Connecting…", runs=True))
        self._checks.ask(
            lambda: describe_ready(check_machine(machine)),
            lambda text: self._show_check(name, MachineCheck(text)),
            lambda text: self._show_check(name, MachineCheck(text)),
        )

    def _show_check(self, name: str, check: MachineCheck) -> None:
        self.checks[name] = check
        self.checked.emit(name)

    def remove(self, name: str) -> None:
        self._checks.ask(lambda: remove_machine(name), self._take, self.failed.emit)

    def _take(self, entries: dict[str, Machine | RayCluster]) -> None:
        if entries != self.entries:
            self.entries = entries
            self.changed.emit()
        self.choose(name for name in self.chosen if name in entries or name == LOCAL)
