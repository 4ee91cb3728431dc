"""Commands over a real ssh: words stay data, keys are checked, failures are sentences."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.wina_core.remote.sshd import SshServer, sshd
from wina_core import __version__
from wina_core.remote.machine_client import explain_ssh, ssh_command
from wina_core.specs.machine import Machine

__all__ = ["sshd"]

pytestmark = pytest.mark.service


@pytest.fixture(autouse=True)
def own_configuration(sshd: SshServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Have ssh read the server's configuration; return what replaces it."""

    def configure(text: str) -> None:
        (tmp_path / "config").write_text(text)
        sshd.put_on_path(monkeypatch, tmp_path / "bin", tmp_path / "config")

    sshd.put_on_path(monkeypatch, tmp_path / "bin")
    return configure


def run(machine: Machine) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(ssh_command(machine, "--version"), capture_output=True, text=True, timeout=120)


def explained(machine: Machine) -> str:
    done = run(machine)
    assert done.returncode
    return explain_ssh(done.returncode, done.stderr, machine)


def test_the_program_runs_with_its_environment(sshd: SshServer) -> None:
    assert __version__ in run(sshd.machine()).stdout
    (sshd.home / "my python").symlink_to(sys.executable)
    printed = run(sshd.machine(command="env GIVEN='a b' ~/'my python' -c 'import os; print(os.environ[\"GIVEN\"])'"))
    assert (printed.stdout, printed.stderr) == ("a b\n", "")


@pytest.mark.parametrize("known", ["", "another"])
def test_an_unknown_or_changed_host_key_is_refused(
    sshd: SshServer, tmp_path: Path, known: str, own_configuration: Callable[[str], None]
) -> None:
    hosts = tmp_path / "known_hosts"
    key = (sshd.folder / "user.pub").read_text().split()[1]
    hosts.write_text(f"[127.0.0.1]:{sshd.port} ssh-ed25519 {key}\n" if known else "")
    own_configuration(sshd.config.read_text().replace(str(sshd.folder / "known_hosts"), str(hosts)))
    said = explained(sshd.machine())
    assert "Host key verification failed" in said
    assert "ssh away true" in said
