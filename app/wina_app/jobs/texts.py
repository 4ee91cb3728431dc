"""Texts about jobs: states, progress, and the whole queue."""

import time
from collections.abc import Iterable, Sequence
from typing import get_args

from wina_app.jobs.job_entry import JobEntry
from wina_app.jobs.job_list import JobList
from wina_app.style.number_format import duration, plural, size
from wina_core.jobs import Assigned, Job
from wina_core.jobs.hosted import HostedJob, OtherProgramsJob
from wina_core.jobs.job_state import JobPhase
from wina_core.specs.machine import LOCAL

STATE_WORDS = tuple(phase.capitalize() for phase in get_args(JobPhase))
_PAGES = {
    "inspect": "model",
    "cost": "model",
    "rotate": "rotation",
    "calibrate": "sparsity",
    "allocate": "sparsity",
    "joint": "sparsity",
    "inspect_gate": "sparsity",
    "evaluate": "results",
    "latency": "latency",
    "decode": "latency",
    "generate": "playground",
    "export_model": "sparsity",
    "export_gguf": "rotation",
    "serve": "playground",
    "fetch": "model",
}


def state_word(entry: JobEntry) -> str:
    return "Stopping" if entry.serves and entry.phase == "cancelling" else entry.phase.capitalize()


def progress_text(entry: JobEntry) -> str:
    """Describe the progress of a job in words and units."""
    texts = []
    if entry.active and entry.unit:
        texts.append(_amount(entry))
    if time_left := _remaining(entry):
        texts.append(time_left)
    if entry.ended is not None:
        texts.append(f"took {duration(entry.seconds)}")
        texts.append(f"ended {time.strftime('%H:%M:%S', time.localtime(entry.ended))}")
    if entry.units_stored and entry.ended is not None:
        texts.append(f"{plural(entry.units_stored, 'results', 'result')} stored")
    if len(entry.failures):
        texts.append(f"{plural(len(entry.failures), 'runs', 'run')} failed")
    return "  ·  ".join(texts)


def brief_progress(entry: JobEntry) -> str:
    """Describe the progress of a job in percent, with its remaining time or its duration, or what a server answers."""
    if entry.ended is not None:
        return f"took {duration(entry.seconds)}"
    if entry.serves:
        return entry.metric
    done = "" if entry.fraction is None else f"{100 * entry.fraction:.0f} %"
    return "  ·  ".join(filter(None, (done, _remaining(entry))))


def _remaining(entry: JobEntry) -> str:
    if entry.eta_seconds is not None and entry.phase == "running":
        return f"{duration(entry.remaining_seconds or 0.0)} left"
    if entry.active and entry.phase != "cancelling" and entry.expected_seconds is not None:
        return f"about {duration(entry.expected_seconds)}"
    return ""


def waiting_text(entry: JobEntry, behind: str = "") -> str:
    """Return why a job does not advance, for its page: `behind` is the title of the job that it waits for."""
    match entry.phase:
        case "queued":
            if entry.waits:
                return entry.waits[:1].upper() + entry.waits[1:]
            return f"Waiting for: {behind}" if behind else "Waiting for the engine"
        case "pausing":
            return "Pausing after the current batch"
        case "paused":
            return "Paused; other jobs continue"
        case "cancelling":
            return "Cancelling after the current batch"
        case _:
            return ""


def page_text(entry: JobEntry, behind: str = "") -> str:
    return "  ·  ".join(filter(None, (waiting_text(entry, behind), progress_text(entry), entry.metric)))


def remark(entry: JobEntry) -> str:
    """Return the line below a job's title."""
    if entry.error:
        return entry.failure
    if not entry.active:
        return entry.summary if entry.result is not None or entry.serves else ""
    texts = [entry.metric] if entry.metric else []
    if location := place_text(entry):
        texts.insert(0, location)
    if entry.waits:
        texts.append(entry.waits)
    if entry.waiting and entry.priority != "normal":
        texts.append(f"priority: {entry.priority}")
    return "  ·  ".join(texts)


def place_text(entry: JobEntry) -> str:
    """Return where a job runs, or may run; empty for this computer's only engine."""
    machines = dict.fromkeys(use.machine for use in entry.engines)
    if machines:
        return ", ".join(_engines_on(machine, entry.engines) for machine in machines)
    return f"on {machines_text(entry.machines)}" if entry.machines else ""


def _engines_on(machine: str, engines: Iterable[Assigned]) -> str:
    numbers = ", ".join(str(use.engine) for use in engines if use.machine == machine)
    if machine == LOCAL:
        return f"engine {numbers}"
    return f"engine {numbers} on {machine}"


def machines_text(machines: Sequence[str]) -> str:
    """Return the names of machines; an empty sequence is this computer."""
    return ", ".join("this computer" if machine == LOCAL else machine for machine in machines or (LOCAL,))


def queue_text(jobs: JobList) -> str:
    """Sum up running and waiting jobs and their remaining time in a line; empty when there are none."""
    active = jobs.active
    paused = sum(entry.is_paused for entry in active)
    waiting = sum(entry.waiting and not entry.is_paused for entry in active)
    texts = []
    if running := len(active) - waiting - paused:
        texts.append(f"{running} running")
    if paused:
        texts.append(f"{paused} paused")
    if waiting:
        texts.append(f"{waiting} waiting")
    # Paused and cancelled jobs do not count, nor interactive ones of unknown duration, which are short.
    counted = [entry for entry in active if not entry.is_paused and entry.phase != "cancelling"]
    seconds = [(entry.remaining_seconds, entry.is_interactive) for entry in counted]
    engines = sum(not use.light for use in jobs.engines.values())
    if left := sum(time or 0.0 for time, _ in seconds) / max(1, engines):
        complete = all(time is not None or interactive for time, interactive in seconds)
        texts.append(f"{'about' if complete else 'at least'} {duration(left)} left")
    return "  ·  ".join(texts)


def engines_text(jobs: JobList) -> str:
    """Describe the work of each of several engines, a line each; empty where there is one."""
    lines = []
    for number, use in sorted(jobs.engines.items()):
        name = "Light engine" if use.light else f"Engine {number}"
        where = [] if use.machine == LOCAL else [use.machine]
        if (where := [*where, *filter(None, [use.hardware])]) and not use.light:
            name = f"Engine {number} ({', '.join(where)})"
        doing = jobs[use.job].title if use.job is not None and use.job in jobs else "idle"
        lines.append(f"{name}: {doing}")
    return "\n".join(lines)


def page_of(job: Job | HostedJob) -> str:
    return _PAGES.get(job.computes if isinstance(job, OtherProgramsJob) else job.kind, "model")


def _amount(entry: JobEntry) -> str:
    if entry.unit == "bytes":
        done, total, unit = size(entry.done), size(entry.total or 0), ""
    else:
        done = f"{entry.done:,.1f}" if entry.done % 1 else f"{entry.done:,.0f}"
        total, unit = f"{entry.total or 0:,.0f}", f" {entry.unit}"
    return (done if entry.total is None else f"{done} of {total}") + unit
