"""Machines that compute the jobs of a command."""

from contextvars import ContextVar

from wina_core.engine.client.job_models import machine_of
from wina_core.engine.protocol import Job
from wina_core.machines.machine import LOCAL
from wina_core.machines.registry import find_place

_CHOSEN: ContextVar[tuple[str, ...]] = ContextVar("machines of a command", default=())


def choose_machines(names: list[str] | None) -> list[str] | None:
    """Keep the answer of `--machine` for `machines_for`."""
    _CHOSEN.set(tuple(dict.fromkeys(names or ())))
    return names


def machines_for(job: Job) -> tuple[str, ...]:
    """Return the machines that compute a job: those of `--machine`, else the one its model lies on; none for here.

    Raises WinaError for a machine that is not known.
    """
    lies_on = machine_of(job)
    chosen = _CHOSEN.get() or ((lies_on,) if lies_on else ())
    for name in chosen:
        if name != LOCAL:
            find_place(name)
    return () if chosen == (LOCAL,) else chosen
