"""The job list: a view of the engines' queue and of what its jobs report, with the jobs that have ended."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from PySide6.QtCore import QObject, Signal

from wina_app.jobs import clock
from wina_app.jobs.job_entry import JobEntry
from wina_core.jobs import Assigned, Done, EvaluateJob, Event, Failed, Job, PendingRun, Queued, Started
from wina_core.jobs.hosted import HostedJob

MAX_ENDED_JOBS = 200
"""Ended jobs that are listed; the oldest are forgotten, so that a window that is open for weeks does not grow."""


class JobList(QObject):
    """All jobs of this window. Signals carry the job's id."""

    added = Signal(str)
    requeued = Signal(str)
    """A job that had ended is queued again, under its id."""
    changed = Signal(str)
    ended = Signal(str)
    """A job has ended; sent after the `changed` of its end."""
    removed = Signal(str)
    arranged = Signal()
    """Jobs were added, removed or put in another order."""

    def __init__(self) -> None:
        super().__init__()
        self._entries: dict[str, JobEntry] = {}
        self.engines: dict[int, Assigned] = {}
        """The work of each engine, by its place from 1; empty where there is only one engine."""

    def __iter__(self) -> Iterator[JobEntry]:
        return iter(list(self._entries.values()))  # a copy: callers remove entries meanwhile

    def __getitem__(self, job_id: str) -> JobEntry:
        return self._entries[job_id]

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._entries

    @property
    def ordered(self) -> list[JobEntry]:
        """Jobs that run, as they began; those that wait, as they will begin; those that ended, the latest first.

        Of each, interactive jobs come last, unless they failed: they must not push away what computes for hours.
        """
        entries = list(self)
        running = sorted(
            (entry for entry in entries if entry.begun), key=lambda entry: (entry.is_interactive, entry.started or 0.0)
        )
        ended = sorted((entry for entry in entries if not entry.active), key=_ended_place)
        return [*running, *(entry for entry in entries if entry.waiting), *ended]

    @property
    def active(self) -> list[JobEntry]:
        """Jobs of the engines that have not ended, those that run first."""
        return [entry for entry in self.ordered if entry.active and not entry.is_elsewhere]

    @property
    def queued_runs(self) -> list[PendingRun]:
        jobs = [entry.job for entry in self.active]
        return [run for job in jobs if isinstance(job, EvaluateJob) for run in job.runs]

    # ---- the queue -----------------------------------------------------------------------------------------------

    def add(self, job_id: str, title: str, job: Job | HostedJob, machines: tuple[str, ...] = ()) -> None:
        """Add a job that is submitted, hosted or in a queue; a Queued event places it."""
        self._entries[job_id] = JobEntry(id=job_id, title=title, job=job, machines=machines)
        self.added.emit(job_id)
        self.arranged.emit()

    def requeue(self, job_id: str, job: Job | HostedJob) -> None:
        """Replace a job that has ended by a new attempt at it, or at its rest."""
        old = self._entries.pop(job_id)
        self._entries[job_id] = JobEntry(
            id=job_id,
            title=old.title,
            job=job,
            priority=old.priority,
            machines=old.machines,
            expected_seconds=old.expected_seconds,
            points=old.points,
        )
        self.requeued.emit(job_id)
        self.changed.emit(job_id)
        self.arranged.emit()

    def clear_ended(self) -> None:
        for entry in self:
            if not entry.active:
                del self._entries[entry.id]
                self.removed.emit(entry.id)
        self.arranged.emit()

    def forget(self, job_id: str) -> None:
        """Forget a job that has ended, if it is still listed."""
        if job_id in self._entries and not self._entries[job_id].active:
            del self._entries[job_id]
            self.removed.emit(job_id)
            self.arranged.emit()

    # ---- requests ------------------------------------------------------------------------------------------------

    def pausing(self, job_id: str) -> None:
        """Show that a pause is requested; Held confirms it."""
        self._change(self._entries[job_id].pausing())

    def cancelling(self, job_id: str) -> None:
        self._change(self._entries[job_id].cancelling())

    def expect(self, job_id: str, seconds: float) -> None:
        if job_id in self._entries:
            self._change(replace(self._entries[job_id], expected_seconds=seconds))

    def complete(self, job_id: str) -> None:
        """Mark a job that had ended early as done: nothing of it is missing by now."""
        self._change(self._entries[job_id].completed())

    def forget_result(self, job_id: str) -> None:
        """Drop the result of a job, which its page has."""
        self._change(replace(self._entries[job_id], result=None))

    # ---- events --------------------------------------------------------------------------------------------------

    def apply(self, event: Event) -> None:
        """Follow an event of the engines; events about no job of this list are passed over."""
        if isinstance(event, Assigned):
            self._assign(event)
            return
        entry = self._entries.get(getattr(event, "job_id", None) or "")
        if entry is None or not entry.active:
            return
        self._entries[entry.id] = entry.apply(event, clock.now())
        if isinstance(event, Queued):
            self._place(entry.id, event.before)
        if isinstance(event, Queued | Started):
            self.arranged.emit()
        self.changed.emit(entry.id)
        if isinstance(event, Failed | Done):
            self._on_ended(entry.id)

    def _change(self, entry: JobEntry) -> None:
        if entry is not self._entries[entry.id]:
            self._entries[entry.id] = entry
            self.changed.emit(entry.id)

    def _place(self, job_id: str, before: str | None) -> None:
        """Put a job right before the one that follows it in the queue, else at the end."""
        order = [other for other in self._entries if other != job_id]
        order.insert(order.index(before) if before in order else len(order), job_id)
        self._entries = {other: self._entries[other] for other in order}

    def _assign(self, event: Assigned) -> None:
        before = self.engines.get(event.engine)
        self.engines[event.engine] = event
        for job_id in {before.job if before else None, event.job}:
            if job_id in self._entries:
                uses = (use for _, use in sorted(self.engines.items()) if use.job == job_id)
                self._change(replace(self._entries[job_id], engines=tuple(uses)))

    def _on_ended(self, job_id: str) -> None:
        self.ended.emit(job_id)
        ended = [other for other in self if not other.active]
        for old in sorted(ended, key=lambda other: other.ended or 0.0)[:-MAX_ENDED_JOBS]:
            del self._entries[old.id]
            self.removed.emit(old.id)
        self.arranged.emit()


def _ended_place(entry: JobEntry) -> tuple[bool, float]:
    return entry.is_interactive and entry.phase != "failed", -(entry.ended or 0.0)


def run_hashes(runs: Iterable[PendingRun]) -> frozenset[str]:
    """Return the content hashes of runs; too slow for the main thread where there are many."""
    return frozenset(run.spec.content_hash() for run in runs)
