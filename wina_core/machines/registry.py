"""The user's machines, in one file of the config folder."""

import os
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from wina_core.errors import WinaError, explain, near_matches
from wina_core.files.paths import config_folder
from wina_core.files.tables import write_atomically
from wina_core.files.user_file import read_file
from wina_core.machines.machine import Machine

_MACHINES = TypeAdapter(tuple[Machine, ...])


def machines_file() -> Path:
    """Return the file of the machines."""
    return config_folder() / "machines.json"


def load_machines() -> dict[str, Machine]:
    """Return the machines by name; WinaError for a faulty file."""
    file = machines_file()
    if not os.path.lexists(file):
        return {}
    try:
        machines = _MACHINES.validate_json(read_file(file, "file of machines"))
    except (WinaError, ValidationError) as error:
        cause = explain(error).rstrip(".") if isinstance(error, ValidationError) else error
        raise WinaError(
            f"The machines in {file} cannot be read ({cause}); correct or delete the file, then add the machines again."
        ) from error
    return {machine.name: machine for machine in machines}


def find_machine(name: str) -> Machine:
    """Return a stored machine; WinaError with similar names for an unknown one."""
    machines = load_machines()
    if name not in machines:
        hint = near_matches(name, machines) or "`wina machines list` shows all, `wina machines add` adds one."
        raise WinaError(f'There is no machine "{name}"; {hint}')
    return machines[name]


def save_machine(machine: Machine) -> dict[str, Machine]:
    """Store a machine, in the place of one of its name; return all. Raises as `load_machines`, which keeps the file."""
    return _write(load_machines() | {machine.name: machine})


def remove_machine(name: str) -> dict[str, Machine]:
    """Forget a machine and return the others; nothing there is changed. Raises as `find_machine`."""
    find_machine(name)
    return _write({other: machine for other, machine in load_machines().items() if other != name})


def _write(machines: dict[str, Machine]) -> dict[str, Machine]:
    content = _MACHINES.dump_json(tuple(machines[name] for name in sorted(machines)), indent=1, exclude_defaults=True)
    write_atomically(machines_file(), content + b"\n")
    return machines
