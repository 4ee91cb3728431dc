"""Set-up of this program on a machine that has Python, and its removal: one folder there, nothing global."""

import json
import tempfile
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from wina_core.errors import WinaError, printable
from wina_core.remote.machines.check import MachineReport, check_machine
from wina_core.remote.machines.line_process import LineProcess
from wina_core.remote.machines.own_wheel import constraints, make_wheel
from wina_core.remote.machines.registry import save_machine
from wina_core.remote.machines.ssh import ssh_program
from wina_core.specs.machine import Machine

_MOST_LINES, _MOST_BYTES, _MOST_TEXT = 1_000_000, 64 * 1024, 1000
_LINE = TypeAdapter(dict[Annotated[str, Field(max_length=20)], str | bool | tuple[str, ...]])

Step = Callable[[str], None]


def set_up_machine(
    machine: Machine,
    on_step: Step = lambda _: None,
    on_detail: Step = lambda _: None,
    python: str | None = None,
    wheel: Path | None = None,
) -> MachineReport:
    """Install this program into ~/.wina-workbench of a machine, store its command there, and check the machine.

    The wheel goes over the connection; libraries come from the package index of the machine, in the versions that are
    installed here. Variables of pip in the machine's environment, such as PIP_INDEX_URL, apply. Interrupted set-up
    continues when it is repeated. `on_step` is called with each step, `on_detail` with pip's lines, `python` names a
    Python there, `wheel` a wheel instead of one of this program's files. Raises WinaError with pip's last line.
    """
    with tempfile.TemporaryDirectory(prefix="wina-setup-") as name:
        folder = Path(name)
        on_step("Pack this program")
        packed = [wheel or make_wheel(folder), folder / "constraints.txt"]
        packed[1].write_text(constraints())
        on_step("Copy it to the machine")
        done = _run(machine, python, {"action": "set up"}, packed, on_step, on_detail)
    try:
        machine = Machine.model_validate(machine.model_dump() | {"command": done})
    except ValidationError as error:
        raise WinaError(
            f'The machine "{machine.name}" named no command of the program; check its Python and login scripts.'
        ) from error
    save_machine(machine)
    return check_machine(machine, on_step)


def unset_machine(machine: Machine, python: str | None = None) -> bool:
    """Delete ~/.wina-workbench of a machine if set-up made it, and its command; return whether it was there.

    Results, settings and downloaded models on the machine stay.
    """
    found = _run(machine, python, {"action": "remove"}, [], lambda _: None, lambda _: None)
    if any("/.wina-workbench/" in word for word in machine.command):
        save_machine(machine.model_copy(update={"command": Machine.model_fields["command"].default}))
    return bool(found)


def _run(
    machine: Machine, python: str | None, header: dict[str, Any], packed: Sequence[Path], on_step: Step, on_detail: Step
) -> object:
    """Run the other half of set-up on the machine and return its result."""
    source = (files("wina_core.remote.machines") / "remote_setup.py").read_bytes()
    reader = f"import sys; exec(sys.stdin.buffer.read({len(source)}).decode())"
    header |= {"python": python, "files": [(file.name, file.stat().st_size) for file in packed]}
    command = ssh_program(machine, python or "python3", "-I", "-c", reader)
    not_found = (
        f'The machine "{machine.name}" has no {python or "python3"}; install Python 3.11 or newer there, or name it: '
        f"wina machines setup {machine.name} --python PATH."
    )
    with LineProcess(machine, command, not_found) as there:
        there.send(source + json.dumps(header).encode() + b"\n")
        for file in packed:
            there.send(file.read_bytes())
        for line in there.lines(_MOST_LINES, _MOST_BYTES):
            match _parsed(line):
                case {"done": done}:
                    return done
                case {"error": str(error)}:
                    raise WinaError(f"{machine.name}: {printable(error[:_MOST_TEXT])}")
                case {"step": str(step)}:
                    on_step(printable(step[:_MOST_TEXT]))
                case {"detail": str(detail)}:
                    on_detail(printable(detail[:_MOST_TEXT]))
    raise AssertionError("lines end with an error")


def _parsed(line: bytes) -> dict[str, str | bool | tuple[str, ...]]:
    """Return a line of the other half; empty for what a login script printed."""
    try:
        return _LINE.validate_json(line)
    except ValidationError:
        return {}
