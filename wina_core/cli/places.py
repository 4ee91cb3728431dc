"""Machines that compute the jobs of a command, and the folders that these write."""

import shlex
from collections.abc import Iterable
from contextvars import ContextVar
from pathlib import Path

import typer

from wina_core.engine.client.job_models import machine_of
from wina_core.errors import WinaError
from wina_core.jobs import Job
from wina_core.remote.machines.ask import ask
from wina_core.remote.machines.messages import MachineFacts, Nothing
from wina_core.remote.machines.registry import find_place
from wina_core.specs import ModelSource
from wina_core.specs.machine import LOCAL, Machine, split_location

_CHOSEN: ContextVar[tuple[str, ...]] = ContextVar("machines of a command", default=())


def choose_machines(names: list[str] | None) -> list[str] | None:
    """Keep the answer of `--machine` for `machines_for`."""
    _CHOSEN.set(tuple(dict.fromkeys(names or ())))
    return names


def machines_for(job: Job) -> tuple[str, ...]:
    """Return the machines that compute a job: those of `--machine`, else the one its model lies on; none for here.

    Raises WinaError for a machine that is not known.
    """
    return _machines(machine_of(job))


def is_elsewhere(job: Job) -> bool:
    """Return whether other machines alone compute a job. Raises WinaError as `machines_for`."""
    machines = machines_for(job)
    return bool(machines) and LOCAL not in machines


def _machines(lies_on: str | None) -> tuple[str, ...]:
    chosen = _CHOSEN.get() or ((lies_on,) if lies_on else ())
    for name in chosen:
        if name != LOCAL:
            find_place(name)
    return () if chosen == (LOCAL,) else chosen


def check_machines(names: Iterable[str]) -> None:
    """Raise WinaError for a machine that cannot be asked now: a job of the background fails where nobody reads why."""
    for name in names:
        if name != LOCAL and isinstance(place := find_place(name), Machine):
            ask(place, "describe", Nothing(), MachineFacts)


def output_location(folder: Path, model: ModelSource) -> str:
    """Return the location of a folder that is made of a model: on the machine that computes it, as NAME:/path.

    Raises WinaError for a folder on another machine than that.
    """
    location = folder.as_posix()
    named = split_location(location)[0]
    machines = _machines(split_location(model.location)[0])
    if not any(name != LOCAL and isinstance(find_place(name), Machine) for name in machines):
        if named is not None:
            raise WinaError(
                f"{location} is a folder of the machine {named}, but this computer would write it; add --machine "
                f"{named}, or name a folder here."
            )
        return str(folder.absolute())
    if len(machines) > 1:
        raise WinaError(f"One machine writes the folder; name one of {', '.join(machines)} by --machine.")
    (name,) = machines
    if named != name:
        raise WinaError(
            f"The machine {name} computes this, and writes the folder there: name it as {name}:/path or {name}:~/path, "
            f"such as {name}:~/{folder.name}, and copy it here afterwards with `wina machines fetch`."
        )
    return location


def announce_folder(location: str) -> None:
    """Print how to copy a folder that a machine has written; nothing for one of this computer."""
    if split_location(location)[0] is not None:
        typer.echo(f"Copy it here with: wina machines fetch {shlex.quote(location)} FOLDER", err=True)
