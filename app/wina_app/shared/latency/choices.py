"""Machines, subjects and loads of the latency plots, and the selected ones."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from wina_app.shared.latency.table import TimedEntry
from wina_core.records import Environment
from wina_core.store.imported.peers import is_same_machine, without_threads

Items = tuple[tuple[str, Any], ...]
"""(text, value) of each."""


@dataclass
class PointSelection:
    """The user's selection; None follows the measurements."""

    machine: Any = None
    subject: Any = None
    load: Any = None
    since: float = field(default=float("inf"))
    """Time of this window's last sweep, seconds since the epoch: points from then on are followed."""


@dataclass(frozen=True)
class PointChoices:
    """Choices and the shown ones among them, which are None where there is no choice."""

    machines: Items = ()
    subjects: Items = ()
    loads: Items = ()
    machine: Any = None
    subject: Any = None
    load: Any = None


def make_choices(
    entries: Collection[TimedEntry], picked: PointSelection, environment: Environment | None
) -> PointChoices:
    """Return the choices among stored timings. A picked value is shown as long as it is there.

    The default machine is that of new points, then this one, then the last measured one; the default subject is the
    last measured one, and the default load the least.
    """
    if not entries:
        return PointChoices()
    latest = sorted(entries, key=lambda entry: entry.row.recorded, reverse=True)
    machines = {entry.machine: entry.machine[1] for entry in latest}
    landed = latest[0].machine if latest[0].row.recorded >= picked.since else None
    local = next((machine for machine in machines if environment is not None and is_local(*machine, environment)), None)
    machine = _first(machines, picked.machine, landed, local, latest[0].machine)
    machine_entries = [entry for entry in latest if entry.machine == machine]
    subjects = dict(entry.subject for entry in machine_entries)
    subject = _first(subjects, picked.subject, machine_entries[0].subject[0])
    loads = dict(entry.load for entry in machine_entries if entry.subject[0] == subject)
    load = _first(loads, picked.load, min(loads))
    return PointChoices(
        machines=_items(machines),
        subjects=_items(dict(sorted(subjects.items()))),
        loads=_items(dict(sorted(loads.items()))),
        machine=machine,
        subject=subject,
        load=load,
    )


def is_local(device: str, hardware: str, environment: Environment) -> bool:
    """Return whether timings on this hardware come from the engine's machine, with any number of threads."""
    if device != environment.device:
        return False
    return is_same_machine(without_threads(hardware), environment.hardware)


def _first(offered: Collection[Any], *preferred: Any) -> Any:
    return next(value for value in preferred if value in offered)


def _items(named: dict[Any, str]) -> Items:
    return tuple((text, value) for value, text in named.items())
