"""The user's machines and Ray clusters, in one file of the config folder."""

import os
from collections.abc import Callable
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from wina_core.errors import WinaError, explain, near_matches
from wina_core.files.locks import FileLock
from wina_core.files.paths import config_folder
from wina_core.files.tables import write_atomically
from wina_core.files.user_file import read_file
from wina_core.specs.machine import Machine, RayCluster

Places = dict[str, Machine | RayCluster]
_PLACES = TypeAdapter(tuple[Machine | RayCluster, ...])


def machines_file() -> Path:
    return config_folder() / "machines.json"


def load_places() -> Places:
    """Return the machines and clusters by name; WinaError for a faulty file."""
    file = machines_file()
    # A link that leads nowhere is reported below, and not replaced by the next machine that is added.
    if not os.path.lexists(file):
        return {}
    try:
        machines = _PLACES.validate_json(read_file(file, "file of machines"))
    except (WinaError, ValidationError) as error:
        cause = explain(error).rstrip(".") if isinstance(error, ValidationError) else error
        raise WinaError(
            f"The machines in {file} cannot be read ({cause}); correct or delete the file, then add the machines again."
        ) from error
    return {machine.name: machine for machine in machines}


def find_place(name: str) -> Machine | RayCluster:
    """Return a stored machine or cluster; WinaError with similar names for an unknown one."""
    machines = load_places()
    if name not in machines:
        hint = near_matches(name, machines) or "`wina machines list` shows all, `wina machines add` adds one."
        raise WinaError(f'There is no machine "{name}"; {hint}')
    return machines[name]


def find_machine(name: str) -> Machine:
    """Return a stored machine. Raises WinaError as `find_place`, and for a Ray cluster."""
    machine = find_place(name)
    if isinstance(machine, RayCluster):
        raise WinaError(f"{name} is a Ray cluster, which has no ssh; name a machine.")
    return machine


def save_machine(machine: Machine | RayCluster) -> Places:
    """Store a machine or a cluster, replacing one of its name; return all.

    Raises as `load_places`, which keeps the file.
    """
    return _change(lambda machines: machines | {machine.name: machine})


def remove_machine(name: str) -> Places:
    """Forget a machine or a cluster and return the others; nothing there is changed. Raises as `find_place`."""
    find_place(name)
    return _change(lambda machines: {other: machine for other, machine in machines.items() if other != name})


def _change(change: Callable[[Places], Places]) -> Places:
    # Two programs may read, change and write the file at the same time.
    with FileLock(machines_file().with_suffix(".lock")):
        machines = change(load_places())
        machines = {name: machines[name] for name in sorted(machines)}
        content = _PLACES.dump_json(tuple(machines.values()), indent=1, exclude_defaults=True)
        write_atomically(machines_file(), content + b"\n")
    return machines
