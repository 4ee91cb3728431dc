"""The check of a machine: its program and hardware, the connection, and one job by a real engine there."""

import secrets
import statistics
import time
from collections.abc import Callable

from pydantic import ValidationError

from wina_core.errors import WinaError, printable
from wina_core.jobs import EVENTS, Done, Event, Failed, InspectJob, Ready, Submit, encode
from wina_core.records import Environment
from wina_core.records.base import Record
from wina_core.remote.machines.ask import Conversation
from wina_core.remote.machines.line_process import LineProcess
from wina_core.remote.machines.messages import MOST_LINE, Echo, Echoed, MachineFacts, Nothing
from wina_core.remote.machines.ssh import ssh_command
from wina_core.specs import ModelSource
from wina_core.specs.machine import Machine

_ROUND_TRIPS = 9
_BYTES = 4 * 2**20
_MOST_EVENTS = 10_000
_JOB_SECONDS = 300.0
"""Timeout of the job, which waits for the import of torch on a slow disk, and of one transfer."""


class MachineReport(Record):
    """The result of a check."""

    machine: str
    facts: MachineFacts
    latency_seconds: float
    """Median of several round trips over one connection."""
    upload: float
    """Bytes per second to the machine, of text that cannot be compressed much."""
    download: float
    environment: Environment
    """Device, hardware and library versions of an engine there."""
    job_seconds: float
    """Time until the engine had loaded the demo model, the start of ssh and engine included."""


def check_machine(machine: Machine, on_step: Callable[[str], None] = lambda _: None) -> MachineReport:
    """Return the check's report; raise WinaError with the first thing that fails."""
    on_step("Connect")
    with Conversation(machine) as conversation:
        facts = conversation.ask("describe", Nothing(), MachineFacts)
        on_step("Measure the connection")
        trips = [_seconds(conversation, Echo()) for _ in range(_ROUND_TRIPS)]
        latency = statistics.median(trips)
        upload = _rate(_seconds(conversation, Echo(text=secrets.token_urlsafe(_BYTES)[:_BYTES])), latency)
        download = _rate(_seconds(conversation, Echo(reply=_BYTES)), latency)
    on_step("Run a job with the demo model")
    begun = time.monotonic()
    environment = _run_job(machine)
    return MachineReport(
        machine=machine.name,
        facts=facts,
        latency_seconds=latency,
        upload=upload,
        download=download,
        environment=environment,
        job_seconds=time.monotonic() - begun,
    )


def _seconds(conversation: Conversation, question: Echo) -> float:
    begun = time.perf_counter()
    echoed = conversation.ask("echo", question, Echoed, patience=_JOB_SECONDS)
    if (echoed.received, len(echoed.text)) != (len(question.text), question.reply):
        raise WinaError("The machine sent back another text than the requested one; check the connection.")
    return time.perf_counter() - begun


def _rate(seconds: float, latency: float) -> float:
    return _BYTES / max(seconds - latency, 1e-6)


def _run_job(machine: Machine) -> Environment:
    """Return the environment of an engine there once it has inspected the demo model."""
    environment: Environment | None = None
    with LineProcess(machine, ssh_command(machine, "engine")) as engine, engine.within(_JOB_SECONDS):
        engine.send(encode(Submit(job_id="check", job=InspectJob(model=ModelSource(location="demo")))).encode())
        for line in engine.lines(_MOST_EVENTS, MOST_LINE):
            match _parsed(line):
                case Ready() as ready:
                    environment = ready.environment
                case Failed() as failed:
                    raise WinaError(f"{machine.name}: {printable(failed.error)}")
                case Done() if environment is not None:
                    return environment
    raise AssertionError("lines end with an error")


def _parsed(line: bytes) -> Event | None:
    """Return an event; None for a line that a login script printed."""
    try:
        return EVENTS.validate_json(line)
    except ValidationError:
        return None
