"""Engines on other machines: the client of one that ssh starts and whose life is that of its connection, with ssh's
failures as sentences."""

import os
import queue
import subprocess
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from pydantic import ValidationError

from wina_core.engine.client.client import CANCEL_GRACE_SECONDS, LONGEST_LINE, Engine, EngineClient, default_log_file
from wina_core.errors import WinaError, printable
from wina_core.files.version import __version__
from wina_core.jobs import EVENTS, Done, EngineRequest, Event, Failed, Log, Ready, Result, Submit
from wina_core.remote.ray_client import ray_clients
from wina_core.remote.registry import find_machine, find_place
from wina_core.remote.remote_job import Breach, RemoteJob, check_idle, copy_command
from wina_core.specs.machine import Machine, RayCluster

FAILED = 255
"""Exit code of ssh itself; others are those of the command there."""
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126
"""Exit codes of the shell there for a program that it does not have or may not run."""
START_SECONDS = 300.0
"""Time for an engine to be ready, which waits for the import of torch on a slow disk."""
_OPTIONS = (
    "BatchMode=yes",  # a prompt would wait for ever
    "ConnectTimeout=10",
    "ServerAliveInterval=10",
    "ServerAliveCountMax=3",  # a dead connection ends after 30 s
    "ClearAllForwardings=yes",  # ports that the user forwards are taken by the first connection
)


def ssh_command(machine: Machine, subcommand: str) -> list[str]:
    options = [word for option in _OPTIONS for word in ("-o", option)]
    return ["ssh", "-T", *options, "--", machine.host, f"{machine.command} {subcommand}"]


_OWN = "wina: "
"""Beginning of a sentence of this program."""


def explain_ssh(code: int, stderr: str, machine: Machine) -> str:
    """Return one sentence on an ssh command that ended with this code and these last lines of stderr."""
    subject = f'machine "{machine.name}"'
    last = _last_line(stderr)
    if code == FAILED:
        # In a terminal ssh may ask, and says more.
        return f"The {subject} cannot be reached ({last or 'ssh said nothing'}); try by hand: ssh {machine.host} true."
    if code in (_NOT_FOUND, _NOT_EXECUTABLE):
        return (
            f'The {subject} cannot run "{_short(machine.command)}" ({last}); install it there (pip install '
            f"wina-workbench), or give its path there: wina machines add {machine.host} --command PATH."
        )
    if last.startswith(_OWN):
        return f"The {subject} says: {last.removeprefix(_OWN)}."
    return (
        f"The command on the {subject} ended with code {code} ({last or 'without a message'}); check its --command, "
        f"{_short(machine.command)}."
    )


def _last_line(stderr: str) -> str:
    return _short(next((line.strip() for line in reversed(stderr.splitlines()) if line.strip()), ""))


def _short(text: str) -> str:
    text = printable(text).rstrip(". ")
    return text if len(text) <= 200 else f"{text[:200]}..."


_MAX_GREETING = 200
"""Lines before the first event that are left out: login scripts may print some."""


class MachineClient(EngineClient):
    """Client of an engine on a machine, whose events are checked before anybody sees them.

    An engine that breaks the rules is ended, and with it its job. A lost connection ends the engine: it loses the
    measurement under way, and the next engine computes what is missing.
    """

    def __init__(
        self,
        on_event: Callable[[Event], None],
        machine: Machine,
        cancel_grace: float = CANCEL_GRACE_SECONDS,
        find_machine: Callable[[str], Machine] | None = None,
    ) -> None:
        """`find_machine` returns the machine of a name as the user has it now; without it, `machine` is used always."""
        super().__init__(
            on_event,
            command=ssh_command(machine, "engine"),
            log_file=_log_file(machine),
            cancel_grace=cancel_grace,
        )
        self._machine = machine
        self._find_machine = find_machine
        self._remote_job: RemoteJob | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._is_ready = False
        self._fault = ""
        """The reason why the engine was ended here, as the predicate of "the engine"."""
        self._greeting = 0

    def send(self, request: EngineRequest) -> None:
        """Submit, cancel, pause or resume the job, with the paths of the machine."""
        if isinstance(request, Submit):
            try:
                self._update_machine()
                self._remote_job = RemoteJob(request, self._machine)
            except WinaError as error:
                self._on_event(Failed(job_id=request.job_id, error=str(error)))
                return
            request = self._remote_job.submit
        super().send(request)

    def _update_machine(self) -> None:
        """Use the machine as the user has it now. Raises WinaError if it is not known any more."""
        if self._find_machine is None or (machine := self._find_machine(self._machine.name)) == self._machine:
            return
        with self._lock:
            engine = self._engine
            if engine is not None:
                engine.stopping = True
        if engine is not None:
            # It is idle and has nothing to lose. A shutdown would wait for the network, and with it the whole pool.
            self._end("is replaced")
            assert engine.watcher is not None
            engine.watcher.join()
        self._machine = machine
        self._command = ssh_command(machine, "engine")

    def open_process(self) -> "subprocess.Popen[bytes]":
        self._fault, self._is_ready, self._greeting = "", False, 0
        self._process = process = super().open_process()
        timer = threading.Timer(START_SECONDS, self._end_late, args=(process,))
        timer.daemon = True
        timer.start()
        return process

    def read_event(self, line: bytes) -> Event | None:
        """Return the checked event of a line, with the names of this computer; None for what is left out."""
        # The last line of a lost connection may be half an event; a piece of a longer line is checked, and refused.
        cut_off = not line.endswith(b"\n") and len(line) < LONGEST_LINE
        if self._fault or cut_off:
            return None
        try:
            event = EVENTS.validate_json(line)
        except (ValidationError, RecursionError):
            self._greeting += 1
            if not self._is_ready and self._greeting <= _MAX_GREETING:
                return Log(level="debug", text=printable(line[:200].decode(errors="replace").rstrip()))
            self._end(f"sent a line that is no event ({line[:100].decode(errors='replace').strip()!a})")
            return None
        try:
            return self._check(event)
        except Breach as breach:
            self._end(f"sent {breach}")
            return None

    def _check(self, event: Event) -> Event:
        job_id = getattr(event, "job_id", None)
        if job_id is None or self._remote_job is None:
            event = check_idle(event)
            if isinstance(event, Ready):
                self._check_version(event)
            return event
        event = self._remote_job.check(event)
        if isinstance(event, Done | Failed):
            self._remote_job = None
        if isinstance(event, Result) and (command := copy_command(event.value, self._machine)):
            text = f"It was written on {self._machine.name}; copy it here: {command}"
            self._on_event(Log(level="info", text=text, job_id=event.job_id))
        if isinstance(event, Failed):
            return event.model_copy(update={"error": f"{self._machine.name}: {event.error}"})
        return event

    def _check_version(self, ready: Ready) -> None:
        theirs = ready.environment.versions.get("wina-workbench", "unknown")
        if theirs != __version__:
            raise Breach(
                f"the name of another version (wina-workbench {theirs[:40]} there, {__version__} here: install the "
                "same on both)"
            )
        self._is_ready = True

    def _end_late(self, process: "subprocess.Popen[bytes]") -> None:
        # A later process may have taken the place of the one that this timer was for.
        if self._process is process and not self._is_ready:
            self._end(f"did not answer within {START_SECONDS:.0f} s")

    def _end(self, fault: str) -> None:
        """End the connection, which ends the engine."""
        self._fault = fault
        assert self._process is not None
        self._process.kill()

    def _on_engine_exit(self, engine: Engine, code: int) -> None:
        # Else the code of the ssh that was killed here would look like a kill from outside, and the job would move on.
        super()._on_engine_exit(engine, FAILED if self._fault else code)

    def describe_end(self, engine: Engine, code: int) -> str:
        last = _last_line(engine.log.tail)
        if self._fault:
            end = f"{self._fault}, and was ended"
        elif code < 0 or code == FAILED:  # ssh itself was killed, or lost its connection
            end = f"lost its connection, or was killed ({last or 'ssh printed no reason'})"
        else:
            end = f"stopped with exit code {code} ({last or 'without a message'})"
        return f"on {self._machine.name} {end}"

    def _cause(self, engine: Engine, code: int) -> str:
        if not engine.ready and not self._fault:
            return explain_ssh(code, engine.log.tail, self._machine)
        return super()._cause(engine, code) if engine.ready else f"The engine {self.describe_end(engine, code)}."


def _log_file(machine: Machine) -> Path:
    default = default_log_file()
    return Path(os.devnull) if default == Path(os.devnull) else default.with_name(f"engine-{machine.host}.log")


def check_machine(machine: Machine) -> Ready:
    """Start an engine on a machine and end it; return what it says when it is ready. Raises WinaError if it is not."""
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    client = MachineClient(events.put, machine)
    client.start()
    try:
        while not isinstance(event := events.get(), Ready):
            if isinstance(event, Log) and event.level == "error" and client.pid is None:
                raise WinaError(event.text)
        return event
    finally:
        client.stop()


def open_place(name: str) -> Sequence[Callable[[Callable[[Event], None]], EngineClient]]:
    """Return makers of the clients of a place's engines. Raises WinaError for one that is not known or not reached."""
    machine = find_place(name)
    if isinstance(machine, RayCluster):
        return ray_clients(machine)
    return [partial(MachineClient, machine=machine, find_machine=find_machine)]
