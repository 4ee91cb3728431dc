"""Set-up over a real ssh, with libraries that are there already, the check, and the removal."""

import sysconfig
from pathlib import Path

import pytest

from tests.wina_core.remote.machines.sshd import SshServer
from wina_core import __version__
from wina_core.errors import WinaError
from wina_core.remote.machines.ask import ask
from wina_core.remote.machines.check import check_machine
from wina_core.remote.machines.messages import MachineFacts, Nothing
from wina_core.remote.machines.registry import find_machine, load_machines, save_machine
from wina_core.remote.machines.setup import set_up_machine, unset_machine
from wina_core.specs.machine import Machine

FOLDER = ".wina-workbench"


def without_index(sshd: SshServer) -> Machine:
    """Return a machine whose set-up installs the wheel alone; the libraries of these tests are its own."""
    libraries = sysconfig.get_path("purelib")
    environment = sshd.environment | {
        "PYTHONPATH": libraries,
        "PIP_NO_DEPS": "1",
        "PIP_NO_INDEX": "1",
        "PIP_NO_COMPILE": "1",
    }
    return sshd.machine(command=("wina",), environment=environment)


@pytest.fixture
def broken_wheel(tmp_path: Path) -> Path:
    wheel = tmp_path / f"wina_workbench-{__version__}-py3-none-any.whl"
    wheel.write_bytes(b"no wheel")
    return wheel


def test_a_failed_set_up_is_repeated_used_and_removed(
    sshd: SshServer, broken_wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check that follows is the same as in `test_cli`, so that only the program is asked here."""
    facts = lambda machine, _: ask(machine, "describe", Nothing(), MachineFacts)  # noqa: E731
    monkeypatch.setattr("wina_core.remote.machines.setup.check_machine", facts)
    machine, steps, details = without_index(sshd), list[str](), list[str]()
    python, kept = str(sshd.python), sshd.home / FOLDER / "venv" / "kept"
    with pytest.raises(WinaError, match=r"Installing failed: .*is invalid"):
        set_up_machine(machine, python=python, wheel=broken_wheel)
    kept.touch()
    found = set_up_machine(machine, steps.append, details.append, python)
    assert kept.exists()
    stored = find_machine("away")
    assert stored.command == (str(sshd.home / FOLDER / "venv" / "bin" / "wina"),)
    assert steps[:2] == ["Pack this program", "Copy it to the machine"]
    assert any("Successfully installed wina-workbench" in line for line in details)
    assert (found.program, found.home) == (__version__, str(sshd.home))
    assert unset_machine(stored, python) is True
    assert not (sshd.home / FOLDER).exists()
    assert find_machine("away").command == ("wina",)
    named = stored.model_copy(update={"command": ("/opt/wina",)})
    save_machine(named)
    assert unset_machine(named, python) is False
    assert find_machine("away") == named


def test_a_folder_that_set_up_has_not_made_is_left_alone(sshd: SshServer) -> None:
    folder = sshd.home / FOLDER
    folder.mkdir()
    (folder / "mine").touch()
    try:
        for attempt in (set_up_machine, unset_machine):
            with pytest.raises(WinaError, match=r"\.wina-workbench was not made by this set-up"):
                attempt(without_index(sshd), python=str(sshd.python))
        assert (folder / "mine").exists()
    finally:
        (folder / "mine").unlink()
        folder.rmdir()


def test_a_missing_python_names_the_remedy(sshd: SshServer, broken_wheel: Path) -> None:
    with pytest.raises(WinaError, match="has no no-such-python; install Python"):
        set_up_machine(without_index(sshd), python="no-such-python", wheel=broken_wheel)


@pytest.mark.parametrize("done", ["true", '"/bin/sh"', "[]", '["-x"]'])
def test_a_machine_that_names_no_command_changes_nothing(sshd: SshServer, broken_wheel: Path, done: str) -> None:
    python = sshd.home / "python-that-lies"
    python.write_text(f"#!/bin/sh\nhead -c 5000000 /dev/zero >&2; echo '{{\"done\": {done}}}'\n")
    python.chmod(0o755)
    with pytest.raises(WinaError, match="named no command"):
        set_up_machine(without_index(sshd), python=str(python), wheel=broken_wheel)
    assert load_machines() == {}


@pytest.mark.parametrize(
    ("engine", "expected"),
    [
        ("echo the reason >&2; exit 3", r"ended with code 3 \(the reason\)"),
        ("exec yes", "something other than an answer"),
        ("exec cat /dev/zero", "something other than an answer"),
    ],
)
def test_a_check_names_an_engine_that_fails(sshd: SshServer, engine: str, expected: str) -> None:
    script = f'if test "$1" = engine; then {engine}; fi; exec {sshd.python} -m wina_core.cli "$@"'
    with pytest.raises(WinaError, match=expected):
        check_machine(sshd.machine(command=("sh", "-c", script, "sh")))
