"""Texts about jobs: states, progress, and the whole queue."""

import time

from wina_app.jobs.job_entry import JobEntry
from wina_app.jobs.job_list import JobList
from wina_app.style.number_format import duration, size
from wina_app.style.translation import tr
from wina_core.engine.protocol import Job, Priority

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
    """Describe the progress of a job in words and units."""
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
    """Return the line below a job's title."""
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
    """Sum up running and waiting jobs and their remaining time in a line; empty when there are none."""
    active = jobs.active
    waiting = sum(entry.waiting for entry in active)
    parts = []
    if begun := len(active) - waiting:
        parts.append(tr("{count} running", count=begun))
    if waiting:
        parts.append(tr("{count} waiting", count=waiting))
    known = [entry.remaining_seconds for entry in active]
    if seconds := sum(filter(None, known)):
        time_left = duration(seconds / max(1, len(jobs.engines)))
        words = tr("at least {time} left", time=time_left) if None in known else tr("about {time} left", time=time_left)
        parts.append(words)
    return "  ·  ".join(parts)


def engines_text(jobs: JobList) -> str:
    """Describe the work of each of several engines, a line each; empty where there is one."""
    lines = []
    for place, use in sorted(jobs.engines.items()):
        name = tr("Engine {place}", place=place)
        if use.hardware:
            name = tr("Engine {place} ({hardware})", place=place, hardware=use.hardware)
        doing = jobs[use.job].title if use.job is not None and use.job in jobs else tr("idle")
        lines.append(f"{name}: {doing}")
    return "\n".join(lines)


def page_of(job: Job) -> str:
    """Return the key of the page that shows a job's result."""
    return _PAGES.get(job.kind, "model")


def _amount(entry: JobEntry) -> str:
    if entry.unit == "bytes":
        done, total, unit = size(entry.done), size(entry.total or 0), ""
    else:
        done = f"{entry.done:,.1f}" if entry.done % 1 else f"{entry.done:,.0f}"
        total, unit = f"{entry.total or 0:,.0f}", f" {entry.unit}"
    return (done if entry.total is None else tr("{done} of {total}", done=done, total=total)) + unit
