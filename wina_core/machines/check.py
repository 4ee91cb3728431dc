"""The check of a machine: its program and hardware, the connection, and one job by a real engine there."""

import queue
import secrets
import statistics
import time
from collections.abc import Callable

from wina_core.engine.client.client import EngineClient
from wina_core.engine.protocol import Done, Event, Failed, InspectJob, Ready, Submit
from wina_core.errors import WinaError
from wina_core.machines.ask import Conversation
from wina_core.machines.machine import Machine
from wina_core.machines.messages import Echo, Echoed, MachineFacts, Nothing
from wina_core.machines.ssh import printable, ssh_command
from wina_core.records import Environment
from wina_core.records.base import Record
from wina_core.specs import ModelSource

_ROUND_TRIPS = 9
_BYTES = 4 * 2**20
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
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    client = EngineClient(events.put, ssh_command(machine, "engine"))
    environment: Environment | None = None
    end = time.monotonic() + _JOB_SECONDS
    try:
        client.send(Submit(job_id="check", job=InspectJob(model=ModelSource(location="demo"))))
        while (left := end - time.monotonic()) > 0:
            match events.get(timeout=left):
                case Ready() as ready:
                    environment = ready.environment
                case Failed() as failed:
                    raise WinaError(f"{machine.name}: {printable(failed.error)}")
                case Done() if environment is not None:
                    return environment
    except queue.Empty:
        pass
    finally:
        client.stop()
    raise WinaError(f'The engine on the machine "{machine.name}" did not finish its job; check the load there.')
