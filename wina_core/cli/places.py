"""Machines that compute the jobs of a command."""

from contextvars import ContextVar

from wina_core.remote.registry import find_place
from wina_core.specs.machine import LOCAL

_CHOSEN: ContextVar[tuple[str, ...]] = ContextVar("machines of a command", default=())


def choose_machines(names: list[str] | None) -> list[str] | None:
    """Keep the answer of `--machine` for `chosen_machines`."""
    _CHOSEN.set(tuple(dict.fromkeys(names or ())))
    return names


def chosen_machines() -> tuple[str, ...]:
    """Return the machines of `--machine`; none for this computer alone. Raises WinaError for an unknown machine."""
    chosen = _CHOSEN.get()
    for name in chosen:
        if name != LOCAL:
            find_place(name)
    return () if chosen == (LOCAL,) else chosen


def runs_elsewhere() -> bool:
    """Return whether other machines alone compute the command's jobs. Raises WinaError as `chosen_machines`."""
    machines = chosen_machines()
    return bool(machines) and LOCAL not in machines
