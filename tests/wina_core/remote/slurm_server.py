"""A real Slurm on 127.0.0.1 for tests: munged with a key of its own, slurmctld and slurmd, in a temporary folder."""

import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).resolve().parents[3]
_PREFIX = "wina-slurm-"
"""Of the names of folders; the process that made one follows."""
_PATIENCE_S = 120.0
_TRIES = 3
"""Another program may take a port before the server that it was chosen for."""
_PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "squeue", "scancel", "scontrol")
_SETTINGS = """
ClusterName=wina
SlurmctldHost={host}(127.0.0.1)
SlurmctldAddr=127.0.0.1
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=15
MessageTimeout=100
CredType=cred/munge
SlurmctldPort={controller}
SlurmdPort={node}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
ReturnToService=2
KillWait=2
MinJobAge=3600
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory=1000
PartitionName=test Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


class SlurmServer:
    """A running Slurm with one node, which pretends to have `cpus` processors."""

    def __init__(self, folder: Path, cpus: int) -> None:
        self.folder = folder
        self.settings = folder / "slurm.conf"
        self._processes: list[subprocess.Popen[bytes]] = []
        host, ports = socket.gethostname().partition(".")[0], _free_ports(2)
        self.settings.write_text(
            _SETTINGS.format(
                folder=folder,
                host=host,
                user=pwd.getpwuid(os.geteuid()).pw_name,
                controller=ports[0],
                node=ports[1],
                cpus=cpus,
            )
        )
        for name in ("state", "spool"):
            (folder / name).mkdir()
        key = folder / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o600)

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which Slurm's programs find this server, and its jobs the tree under test."""
        tree = os.pathsep.join(map(str, (ROOT, ROOT / "kernels", ROOT / "app")))
        return {"SLURM_CONF": str(self.settings), "PYTHONPATH": tree}

    def start(self) -> None:
        """Start the three servers. Raises RuntimeError with their logs where they do not answer."""
        files = [
            f"--{name}-file={self.folder}/munge.{name.partition('-')[0]}" for name in ("key", "log", "pid", "seed")
        ]
        socket_file = self.folder / "munge.socket"
        self._run("munged", "--foreground", "--force", f"--socket={socket_file}", *files)
        self._wait(socket_file.exists)
        self._run("slurmctld", "-D", "-c", "-i")
        self._run("slurmd", "-D", "-c")
        self._wait(lambda: "idle" in self.call("sinfo", "--noheader", "--format=%T"))

    def stop(self) -> None:
        """End the servers, and all that runs on the node."""
        for process in reversed(self._processes):
            process.kill()
            process.wait()
        _end_processes(self.folder)

    def call(self, *command: str) -> str:
        """Return what a program of Slurm prints."""
        environment = os.environ | self.environment
        patience = 20 if command[0] == "scancel" else 120  # it repeats its request to a job that is just ending
        with suppress(subprocess.TimeoutExpired):
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=patience, check=False
            )
            return done.stdout
        return ""

    def running(self) -> list[str]:
        """Return the elements that run now, such as "5_2"."""
        return self.call("squeue", "--array", "--noheader", "--states=running", "--format=%i").split()

    def kill(self, element: str) -> None:
        """Kill the processes of an element, as the kernel does where memory is short."""
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                variables = process.environ() if "python" in process.name() else {}
                if f"{variables.get('SLURM_ARRAY_JOB_ID')}_{variables.get('SLURM_ARRAY_TASK_ID')}" == element:
                    process.kill()

    def kill_script(self, element: str) -> None:
        """Kill the script of an element, and with it the element."""
        self.call("scancel", f"--signal={signal.Signals.SIGKILL.name}", "--batch", element)

    def preempt(self, element: str) -> None:
        """Take an element off its node and queue it again."""
        self.call("scontrol", "requeue", element)

    def warn(self, element: str) -> None:
        """Send the signal that comes before a time limit."""
        self.call("scancel", "--signal=USR2", element)

    def _run(self, program: str, *arguments: str) -> None:
        with (self.folder / f"{program}.out").open("ab") as output:
            command = [_find(program) or program, *arguments]
            environment = os.environ | self.environment
            self._processes.append(
                subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment)
            )

    def _wait(self, ready: Callable[[], object]) -> None:
        end = time.monotonic() + _PATIENCE_S
        while not ready():
            if time.monotonic() > end or any(process.poll() is not None for process in self._processes):
                raise RuntimeError(f"Slurm does not start: {self._logs()}")
            time.sleep(0.05)

    def _logs(self) -> str:
        return "\n".join(path.read_text(errors="replace")[-1000:] for path in self.folder.glob("*.out"))


def _free_ports(count: int) -> Sequence[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports


def _find(program: str) -> str | None:
    return shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin")


def _end_processes(folder: Path) -> None:
    """Kill what belongs to a server in a folder: slurmstepd leaves slurmd, and a job leaves slurmstepd."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.pid != os.getpid() and _belongs(process, str(folder)):
                process.kill()


def _belongs(process: psutil.Process, folder: str) -> bool:
    named = any(folder in word for word in process.cmdline()) or folder in process.environ().get("SLURM_CONF", "")
    if named or process.name() != "slurmstepd":
        return named
    return any(folder in str(connection.laddr) for connection in process.net_connections("unix"))


def _remove_left() -> None:
    """End the servers of test runs that were killed, and remove their folders."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*-*"):
        maker = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if maker.isdecimal() and not psutil.pid_exists(int(maker)):
            _end_processes(folder)
            shutil.rmtree(folder, ignore_errors=True)


def missing() -> str:
    """Return why there can be no Slurm here; empty where there can."""
    if os.name != "posix":
        return "there is no Slurm on this system"
    lacking = [program for program in _PROGRAMS if not _find(program)]
    return f"{lacking[0]} is not installed (Debian: apt install slurm-wlm)" if lacking else ""


@contextmanager
def running_slurm(cpus: int = 2) -> Iterator[SlurmServer]:
    """Run a Slurm while the block runs. Raises RuntimeError where none can run."""
    if reason := missing():
        raise RuntimeError(reason)
    _remove_left()
    with ExitStack() as stack:
        for left in range(_TRIES - 1, -1, -1):
            folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            folder.chmod(0o755)
            server = SlurmServer(folder, cpus)
            stack.callback(server.stop)
            try:
                server.start()
                break
            except RuntimeError:
                if not left:
                    raise
        yield server


@pytest.fixture(scope="session")
def slurm() -> Iterator[SlurmServer]:
    """One Slurm for all tests of this process; its programs find it by SLURM_CONF."""
    if reason := missing():
        pytest.skip(reason)
    with running_slurm() as server, pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment.items():
            patch.setenv(name, value)
        yield server
