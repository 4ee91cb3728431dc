"""A real sshd on 127.0.0.1 for tests: its own host key, user key, home folder and, as root, its own user."""

import os
import secrets
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

if sys.platform != "win32":
    import fcntl
    import pwd

ROOT = Path(__file__).resolve().parents[3]
PREFIX = "wina-ssh-"
"""Of the names of users made here; the process that made one follows, then a random part: a process may run several
servers, and its number may be that of an earlier run that was killed."""
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
    """Keys, settings and log of the server; closed to the user who logs in."""
    home: Path
    """Home folder of that user."""
    user: str
    python: Path
    """Python with the libraries of this one, which that user may run."""
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
        return shlex.join(["env", *environment, str(self.python), "-P", "-m", "wina_core.cli"])

    def put_on_path(self, monkeypatch: pytest.MonkeyPatch, folder: Path, config: Path | None = None) -> None:
        """Put an `ssh` on the PATH that reads this server's configuration instead of the user's."""
        folder.mkdir(exist_ok=True)
        program = folder / "ssh"
        program.write_text(f'#!/bin/sh\nexec {_SSH} -F {config or self.config} "$@"\n')
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)

    def give(self, path: Path) -> Path:
        """Make the user the owner of a file or folder and of all in it; return it."""
        if self.user != pwd.getpwuid(os.geteuid()).pw_name:
            for each in (path, *path.rglob("*")):
                shutil.chown(each, self.user, self.user)
        return path

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
        (self.folder / "sshd_config").write_text(_SERVER.format(port=port, folder=self.folder))
        self.config.write_text(_CLIENT.format(alias=ALIAS, port=port, folder=self.folder, user=self.user))
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
    try:
        os.chmod(folder, 0o755)
        own, home = folder / "server", folder / "home"
        own.mkdir(mode=0o755)
        for name in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", own / name], check=True)
        with _user(home) as user:
            server = SshServer(own, home, user, Path(sys.executable))
            server.environment = {
                "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "kernels", ROOT / "app"))),
                "WINA_HOME": str(home / "wina"),
                "HOME": str(home),
                "OMP_NUM_THREADS": "1",
            }
            _find_python(server, folder)
            if os.geteuid() == 0:
                Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # sshd's empty folder, which its service makes
            try:
                server.start()
                yield server
            finally:
                server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _user(home: Path) -> Iterator[str]:
    """Yield the name of a fresh user with this home where the tests run as root, else of this one."""
    if os.geteuid() != 0 or not shutil.which("useradd"):
        home.mkdir(mode=0o700)
        yield pwd.getpwuid(os.geteuid()).pw_name
        return
    _remove_left_users()
    name = f"{PREFIX}{os.getpid()}-{secrets.token_hex(4)}"
    _change_users("useradd", "-M", "-d", str(home), "-p", "*", "-s", "/bin/sh", "-U", name)
    try:
        home.mkdir(mode=0o700)
        shutil.chown(home, name, name)
        yield name
    finally:
        _remove_user(name)


def _remove_left_users() -> None:
    """Remove users of test runs that were killed."""
    for user in pwd.getpwall():
        maker = user.pw_name.removeprefix(PREFIX).partition("-")[0]
        if user.pw_name.startswith(PREFIX) and maker.isdecimal() and not psutil.pid_exists(int(maker)):
            with suppress(KeyError):  # another process removes it just now
                _remove_user(user.pw_name)


def _change_users(*command: str) -> None:
    """Run useradd or userdel once no other process of the tests does: they give up waiting for each other's locks."""
    with open(Path(tempfile.gettempdir()) / f"{PREFIX}users.lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run(command, check=command[0] == "useradd", capture_output=True)


def _remove_user(name: str) -> None:
    uid = pwd.getpwnam(name).pw_uid
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.uids().real == uid:
                process.kill()
                process.wait(_PATIENCE_S)
    _change_users("userdel", name)


def _find_python(server: SshServer, folder: Path) -> None:
    """Give the user a Python: this one, or where it lies in a closed folder, linked files of it with its libraries."""
    if _may_run(server, server.python):
        return
    base, version = Path(sys.base_prefix), f"python{sys.version_info.major}.{sys.version_info.minor}"
    copy, environment = folder / "python", folder / "venv"
    left_out = shutil.ignore_patterns("site-packages", "test", "share", "include", "*.a")
    shutil.copytree(base, copy, symlinks=True, ignore=left_out, copy_function=_link)
    (environment / "bin").mkdir(parents=True)
    (environment / "lib").symlink_to(Path(sys.prefix) / "lib")
    (environment / "bin" / "python").symlink_to(copy / "bin" / version)
    (environment / "pyvenv.cfg").write_text(f"home = {copy / 'bin'}\n")
    server.python = environment / "bin" / "python"
    server.environment["LD_LIBRARY_PATH"] = str(copy / "lib")  # its own names the closed folder
    if not _may_run(server, server.python):
        pytest.skip(f"the user {server.user} cannot run Python with the libraries in {sys.prefix}")


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another disk
        shutil.copy2(source, target)


def _may_run(server: SshServer, python: Path) -> bool:
    entry = pwd.getpwnam(server.user)
    as_user = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []} if os.geteuid() == 0 else {}
    command = [python, "-P", "-c", "import pydantic, wina_core"]
    try:
        done = subprocess.run(command, cwd="/", env=server.environment, capture_output=True, **as_user)
    except PermissionError:
        return False
    return done.returncode == 0


@pytest.fixture(scope="session")
def sshd() -> Iterator[SshServer]:
    """One server for all tests of this process."""
    with running_sshd() as server:
        yield server
