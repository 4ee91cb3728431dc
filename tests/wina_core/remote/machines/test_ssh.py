"""Commands over a real ssh: words stay data, keys are checked, failures are sentences."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.wina_core.remote.machines import sshd as servers
from tests.wina_core.remote.machines.sshd import SshServer
from wina_core.errors import WinaError
from wina_core.remote.machines.ssh import explain_ssh, ssh_command
from wina_core.specs.machine import Machine

WORDS = ("a b", 'it\'s "quoted"', "two\nlines", "$(touch hacked)", "`id`", "-oProxyCommand=x", "--", "", "*", "~")
PRINT = ("-c", "import os, sys; print(repr((sys.argv[1:], os.environ['GIVEN'])))")


def run(machine: Machine, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(ssh_command(machine, *words), capture_output=True, text=True, timeout=120)


def explained(machine: Machine) -> str:
    done = run(machine)
    assert done.returncode
    return explain_ssh(done.returncode, done.stderr, machine)


def test_each_server_of_a_process_has_a_user_of_its_own(tmp_path: Path, sshd: SshServer) -> None:
    with servers._user(tmp_path / "home") as user:
        assert user != sshd.user or os.geteuid() != 0


def test_words_and_variables_stay_data(sshd: SshServer) -> None:
    value = "\n".join(WORDS)
    machine = sshd.machine(command=(str(sshd.python), *PRINT), environment=sshd.environment | {"GIVEN": value})
    done = run(machine, *WORDS)
    assert done.stderr == ""
    assert done.stdout.strip() == repr((list(WORDS), value))


def test_the_program_may_be_below_the_home_folder_there(sshd: SshServer) -> None:
    (sshd.home / "my python").symlink_to(sshd.python)
    machine = sshd.machine(command=("~/my python", "-c", "print(1)"))
    assert run(machine).stdout == "1\n"


@pytest.mark.parametrize("known", ["", "another"])
def test_an_unknown_or_changed_host_key_is_refused(sshd: SshServer, tmp_path: Path, known: str) -> None:
    hosts, config = tmp_path / "known_hosts", tmp_path / "config"
    key = (sshd.folder / "user.pub").read_text().split()[1]
    hosts.write_text(f"[127.0.0.1]:{sshd.port} ssh-ed25519 {key}\n" if known else "")
    config.write_text(sshd.config.read_text().replace(str(sshd.folder / "known_hosts"), str(hosts)))
    said = explained(sshd.machine(ssh_config=str(config)))
    assert ("host key is another" if known else "host key is not known") in said
    assert f"ssh -F {config} away" in said


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("Port {port}", "Port 1"), "nothing listens on its ssh port"),
        (("{folder}/user\n", "{folder}/host\n"), "refused the login"),
        (("HostName 127.0.0.1", "HostName nowhere.invalid"), "name is unknown"),
        (("HostName", "Nonsense"), "refuses its configuration file"),
    ],
)
def test_failures_of_the_connection_are_sentences(
    sshd: SshServer, tmp_path: Path, change: tuple[str, str], expected: str
) -> None:
    old, new = (text.format(port=sshd.port, folder=sshd.folder) for text in change)
    config = tmp_path / "config"
    config.write_text(sshd.config.read_text().replace(old, new))
    assert expected in explained(sshd.machine(ssh_config=str(config)))


def test_a_missing_program_names_the_remedy(sshd: SshServer) -> None:
    assert "wina machines setup away" in explained(sshd.machine(command=("no-such-program",)))


def test_a_missing_client_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(WinaError, match="openssh-client"):
        ssh_command(Machine(name="gpu", destination="gpu"))
