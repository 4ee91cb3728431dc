"""A real sshd on 127.0.0.1 for tests, with a host key, a user key and a home folder of its own."""

import getpass
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from wina_core.specs.machine import Machine

ROOT = Path(__file__).resolve().parents[3]
ALIAS = "away"
_SSH = shutil.which("ssh")
_PATIENCE_S = 120.0

_SERVER = """
ListenAddress 127.0.0.1
Port {port}
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin yes
MaxStartups 100
MaxSessions 100
Subsystem sftp internal-sftp
LogLevel VERBOSE
SetEnv HOME={home}
"""
_CLIENT = """
Host {alias}
  HostName 127.0.0.1
  Port {port}
  User {user}
  IdentityFile {folder}/user
  IdentitiesOnly yes
  IdentityAgent none
  UserKnownHostsFile {folder}/known_hosts
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
"""


@dataclass
class SshServer:
    """A running sshd, and the user who logs in."""

    folder: Path
    """Keys, settings and log of the server."""
    home: Path
    """Home folder of who logs in."""
    port: int = 0
    environment: dict[str, str] = field(default_factory=dict)
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def config(self) -> Path:
        """The configuration of its client."""
        return self.folder / "ssh_config"

    @property
    def log(self) -> str:
        """The output of sshd."""
        return (self.folder / "sshd.log").read_text(errors="replace")

    def machine(self, **changes: object) -> Machine:
        """Return the machine, whose program is the tree under test."""
        return Machine.model_validate({"host": ALIAS, "command": self.command()} | changes)

    def command(self, **variables: str) -> str:
        """Return the command of the program there, with further variables of its environment."""
        environment = [f"{name}={value}" for name, value in (self.environment | variables).items()]
        return shlex.join(["env", *environment, sys.executable, "-P", "-m", "wina_core.cli"])

    def put_on_path(self, monkeypatch: pytest.MonkeyPatch, folder: Path, config: Path | None = None) -> None:
        """Put an `ssh` on the PATH that reads this server's configuration instead of the user's."""
        folder.mkdir(exist_ok=True)
        program = folder / "ssh"
        program.write_text(f'#!/bin/sh\nexec {_SSH} -F {config or self.config} "$@"\n')
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)

    def connections(self) -> list[psutil.Process]:
        """Return the processes of sshd that serve connections, some for each: ending all cuts all connections."""
        assert self.process is not None
        children = psutil.Process(self.process.pid).children(recursive=True)
        return [process for process in children if process.name().startswith("sshd")]

    def start(self) -> None:
        """Start sshd on its port, a free one at first; an earlier one may have been stopped."""
        program = shutil.which("sshd") or "/usr/sbin/sshd"
        for _ in range(5):
            port = self.port or _free_port()
            self._write(port)
            with (self.folder / "sshd.log").open("ab") as log:
                command = [program, "-D", "-e", "-f", str(self.folder / "sshd_config")]
                self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            if _answers(port, self.process):
                self.port = port
                return
        raise RuntimeError(f"sshd does not start: {self.log}")

    def stop(self) -> None:
        """End sshd and every connection."""
        if self.process is None:
            return
        for process in (*psutil.Process(self.process.pid).children(recursive=True), self.process):
            with suppress(psutil.Error):
                process.kill()
        self.process.wait()
        self.process = None

    def _write(self, port: int) -> None:
        (self.folder / "sshd_config").write_text(_SERVER.format(port=port, folder=self.folder, home=self.home))
        self.config.write_text(_CLIENT.format(alias=ALIAS, port=port, folder=self.folder, user=getpass.getuser()))
        key = (self.folder / "host.pub").read_text().split()
        (self.folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {key[0]} {key[1]}\n")


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _answers(port: int, process: "subprocess.Popen[bytes]") -> bool:
    end = time.monotonic() + _PATIENCE_S
    while time.monotonic() < end and process.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            return connection.recv(4) == b"SSH-"
        time.sleep(0.02)
    return False


def _missing() -> str:
    """Return why there can be no server here; empty where there can."""
    if os.name != "posix":
        return "no sshd for tests on this system"
    if not (shutil.which("sshd") or Path("/usr/sbin/sshd").exists()):
        return "sshd is not installed (Debian: apt install openssh-server)"
    return "" if shutil.which("ssh") and shutil.which("ssh-keygen") else "the OpenSSH client is not installed"


@contextmanager
def running_sshd() -> Iterator[SshServer]:
    """Run a server while the block runs; skip the test where none can run."""
    if reason := _missing():
        pytest.skip(reason)
    folder = Path(tempfile.mkdtemp(prefix="wina-sshd-"))
    server = SshServer(folder / "server", folder / "home")
    try:
        for path in (server.folder, server.home):
            path.mkdir(mode=0o700)
        for name in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", server.folder / name], check=True)
        server.environment = {
            "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "kernels", ROOT / "app"))),
            "WINA_HOME": str(server.home / "wina"),
            "OMP_NUM_THREADS": "1",
        }
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # sshd's empty folder, which its service makes
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def sshd() -> Iterator[SshServer]:
    """One server for all tests of this process."""
    with running_sshd() as server:
        yield server
