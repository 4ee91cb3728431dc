"""The order in which jobs begin: by priority, then as they came or were dragged. Pure.

What begins next is decided here; a job that has begun goes on to its end. To stop an evaluation for another job would
mean to take its gates off the model, and to load and rotate that again afterwards, which costs more than most of the
jobs that would go between; cancelling and retrying computes only what is missing. Where several engines share one job
out, what goes first gets the next engine that has finished its share.
"""

from collections.abc import Iterable, Sequence

from wina_app.jobs.job_entry import PRIORITIES, JobEntry, Priority
from wina_core.engine.protocol import Job

_BATCH = {"evaluate", "latency", "decode", "rotate", "calibrate", "allocate"}
"""What is started to be looked at later. Somebody waits before the screen for everything else."""


def usual_priority(job: Job) -> Priority:
    """That of a job for which nothing else was asked."""
    return "normal" if job.kind in _BATCH else "first"


def rank(priority: Priority) -> int:
    """0 is what goes first."""
    return PRIORITIES.index(priority)


def goes_before(entries: Iterable[JobEntry], priority: Priority) -> tuple[str, ...]:
    """Ids of the jobs that have not ended and that one of this priority goes ahead of."""
    lower = PRIORITIES[rank(priority) + 1 :]
    return tuple(entry.id for entry in entries if entry.priority in lower and entry.active)


def in_order(entries: Iterable[JobEntry]) -> list[JobEntry]:
    """What runs, in the order in which it began; what waits, in that of `entries`; what ended, the latest first."""
    begun, waiting, ended = list[JobEntry](), list[JobEntry](), list[JobEntry]()
    for entry in entries:
        (ended if not entry.active else waiting if entry.waiting else begun).append(entry)
    begun.sort(key=lambda entry: entry.started or 0.0)
    ended.sort(key=lambda entry: -(entry.ended or 0.0))
    return [*begun, *waiting, *ended]


def fitting_priority(priority: Priority, before: JobEntry | None, behind: JobEntry | None) -> Priority:
    """The priority of a job that is placed between two others, changed no more than it takes to keep the order."""
    least = 0 if before is None else rank(before.priority)
    most = len(PRIORITIES) - 1 if behind is None else rank(behind.priority)
    return PRIORITIES[min(max(rank(priority), least), most)]


def remaining_seconds(entries: Sequence[JobEntry], engines: int = 1) -> tuple[float, bool]:
    """What all that has not ended should take by so many engines, and whether that is known of every job."""
    known = [entry.remaining_seconds for entry in entries if entry.active]
    return sum(filter(None, known)) / max(1, engines), None not in known
