"""What is said of a job: its state in a word, how far it is, and how all of them together are."""

import time

from wina_app.jobs.job_entry import JobEntry, Priority
from wina_app.jobs.job_list import JobList
from wina_app.jobs.job_queue import remaining_seconds
from wina_app.style.number_format import duration, size
from wina_app.style.translation import tr
from wina_core.engine.protocol import Job

WORDS = {
    "queued": tr("Queued"),
    "running": tr("Running"),
    "pausing": tr("Pausing"),
    "paused": tr("Paused"),
    "cancelling": tr("Cancelling"),
    "done": tr("Done"),
    "failed": tr("Failed"),
    "cancelled": tr("Cancelled"),
}
PRIORITY_WORDS: dict[Priority, str] = {
    "first": tr("First"),
    "high": tr("High"),
    "normal": tr("Normal"),
    "low": tr("Low"),
}
_PAGES = {
    "inspect": "model",
    "cost": "model",
    "rotate": "rotation",
    "calibrate": "sparsity",
    "allocate": "sparsity",
    "inspect_gate": "sparsity",
    "evaluate": "results",
    "estimate": "studies",
    "latency": "latency",
    "decode": "latency",
    "generate": "playground",
}


def progress_text(entry: JobEntry) -> str:
    """How far a job is, in words and units."""
    parts = []
    if entry.active and entry.unit:
        parts.append(_amount(entry))
    if entry.eta_seconds is not None and entry.state == "running":
        parts.append(tr("{time} left", time=duration(entry.remaining_seconds or 0.0)))
    elif entry.active and entry.expected_seconds is not None:
        parts.append(tr("about {time}", time=duration(entry.expected_seconds)))
    if entry.ended is not None:
        parts.append(tr("took {time}", time=duration(entry.seconds)))
        parts.append(tr("ended {clock}", clock=time.strftime("%H:%M:%S", time.localtime(entry.ended))))
    if entry.units_stored and entry.ended is not None:
        parts.append(tr("{results} stored", results=tr("{n} results", "{n} result", entry.units_stored)))
    if entry.runs_failed:
        parts.append(tr("{runs} failed", runs=tr("{n} runs", "{n} run", entry.runs_failed)))
    return "  ·  ".join(parts)


def remark(entry: JobEntry) -> str:
    """What there is to say below a job's title."""
    if entry.error:
        return entry.failure
    if not entry.active:
        return entry.summary if entry.result is not None else ""
    parts = [entry.metric] if entry.metric else []
    if entry.engines:
        parts.insert(0, tr("engine {places}", places=", ".join(map(str, entry.engines))))
    if entry.waiting and entry.priority != "normal":
        parts.append(tr("priority: {priority}", priority=PRIORITY_WORDS[entry.priority].lower()))
    return "  ·  ".join(parts)


def queue_text(jobs: JobList) -> str:
    """All that has not ended, in a line: how many run and wait, and how long that takes; empty when there is none."""
    active = jobs.active
    waiting = sum(entry.waiting for entry in active)
    parts = []
    if begun := len(active) - waiting:
        parts.append(tr("{count} running", count=begun))
    if waiting:
        parts.append(tr("{count} waiting", count=waiting))
    seconds, complete = remaining_seconds(active, len(jobs.engines))
    if active and seconds:
        time_left = duration(seconds)
        parts.append(
            tr("about {time} left", time=time_left) if complete else tr("at least {time} left", time=time_left)
        )
    return "  ·  ".join(parts)


def engines_text(jobs: JobList) -> str:
    """What each of several engines does, a line each; empty where there is one."""
    lines = []
    for place, use in sorted(jobs.engines.items()):
        name = tr("Engine {place}", place=place)
        if use.hardware:
            name = tr("Engine {place} ({hardware})", place=place, hardware=use.hardware)
        doing = jobs[use.job].title if use.job is not None and use.job in jobs else tr("nothing to do")
        lines.append(f"{name}: {doing}")
    return "\n".join(lines)


def page_of(job: Job) -> str:
    """The key of the page that shows what comes of a job."""
    return _PAGES.get(job.kind, "model")


def _amount(entry: JobEntry) -> str:
    if entry.unit == "bytes":
        done, total, unit = size(entry.done), size(entry.total or 0), ""
    else:
        done = f"{entry.done:,.1f}" if entry.done % 1 else f"{entry.done:,.0f}"
        total, unit = f"{entry.total or 0:,.0f}", f" {entry.unit}"
    return (done if entry.total is None else tr("{done} of {total}", done=done, total=total)) + unit
