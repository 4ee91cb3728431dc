"""The jobs of this window, queued, running and ended: bookkeeping from the engine's events, nothing else."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from PySide6.QtCore import QObject, Signal

from wina_app.jobs.job_entry import ENDED, JobEntry, JobState, Priority
from wina_app.jobs.job_queue import fitting_priority, goes_before, in_order
from wina_core.engine.protocol import (
    Accepted,
    Assigned,
    Done,
    EvaluateJob,
    Event,
    Failed,
    Held,
    Job,
    Measured,
    Partial,
    PendingRun,
    Progress,
    Result,
    RunFailed,
    RunFinished,
)
from wina_core.engine.protocol.queue_order import put_ahead

__all__ = ["ENDED", "JobEntry", "JobList", "JobState", "run_hashes"]


@dataclass(frozen=True)
class EngineUse:
    """What one of several engines does."""

    hardware: str
    """What it computes on; empty until it has told."""
    job: str | None
    """The job's id; None while it has nothing to do."""


class JobList(QObject):
    """All jobs. Signals carry the job's id."""

    added = Signal(str)
    requeued = Signal(str)
    """One that had ended is to be done again, under its id."""
    changed = Signal(str)
    ended = Signal(str)
    """Every time that a job ends, after its last `changed`."""
    removed = Signal(str)
    arranged = Signal()
    """There are others, or they are in another order."""

    def __init__(self) -> None:
        super().__init__()
        self._entries: dict[str, JobEntry] = {}
        self.engines: dict[int, EngineUse] = {}
        """By their places, from 1; empty where there is only one engine."""

    def __iter__(self) -> Iterator[JobEntry]:
        return iter(list(self._entries.values()))

    def __getitem__(self, job_id: str) -> JobEntry:
        return self._entries[job_id]

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._entries

    @property
    def ordered(self) -> list[JobEntry]:
        """In the order in which they run, then those that have ended, the latest first."""
        return in_order(self._entries.values())

    @property
    def active(self) -> list[JobEntry]:
        """Those that have not ended, in the order in which they run."""
        return [entry for entry in self.ordered if entry.active]

    @property
    def queued_runs(self) -> list[PendingRun]:
        """What jobs that have not ended compute."""
        jobs = [entry.job for entry in self.active]
        return [run for job in jobs if isinstance(job, EvaluateJob) for run in job.runs]

    # ---- the queue -----------------------------------------------------------------------------------------------

    def add(self, job_id: str, title: str, job: Job, priority: Priority = "normal") -> tuple[str, ...]:
        """A job was submitted; returns what it goes ahead of."""
        ahead_of = self._place(JobEntry(job_id, title, job, priority))
        self.added.emit(job_id)
        self.arranged.emit()
        return ahead_of

    def requeue(self, job_id: str, job: Job) -> tuple[str, ...]:
        """Do one that has ended again, or what is left of it; returns what it goes ahead of."""
        old = self._entries[job_id]
        entry = JobEntry(job_id, old.title, job, old.priority, expected_seconds=old.expected_seconds)
        ahead_of = self._place(replace(entry, points=old.points))
        self.requeued.emit(job_id)
        self.changed.emit(job_id)
        self.arranged.emit()
        return ahead_of

    def prioritize(self, job_id: str, priority: Priority) -> tuple[str, ...]:
        """Place one that waits behind all others of this priority; returns what it goes ahead of."""
        entry = self._entries[job_id]
        entry.priority = priority
        ahead_of = self._place(entry)
        self.changed.emit(job_id)
        self.arranged.emit()
        return ahead_of

    def move(self, job_id: str, before: str | None) -> tuple[str, ...]:
        """Place one that waits ahead of another one that does, or at the end; returns what it goes ahead of.

        It takes the priority that the place asks for.
        """
        entry = self._entries[job_id]
        others = [other for other in self.ordered if other.waiting and other is not entry]
        ids = [other.id for other in others]
        place = ids.index(before) if before in ids else len(ids)
        ahead_of = tuple(ids[place:])
        entry.priority = fitting_priority(
            entry.priority, others[place - 1] if place else None, others[place] if ahead_of else None
        )
        put_ahead(self._entries, job_id, entry, ahead_of)
        self.changed.emit(job_id)
        self.arranged.emit()
        return ahead_of

    def _place(self, entry: JobEntry) -> tuple[str, ...]:
        others = [other for other in self._entries.values() if other.id != entry.id]
        ahead_of = goes_before(others, entry.priority)
        put_ahead(self._entries, entry.id, entry, ahead_of)
        return ahead_of

    def clear_ended(self) -> None:
        """Forget the jobs that have ended."""
        for entry in self:
            if not entry.active:
                del self._entries[entry.id]
                self.removed.emit(entry.id)
        self.arranged.emit()

    def forget(self, job_id: str) -> None:
        """Forget one that has ended, if it is still here."""
        if job_id in self._entries and not self._entries[job_id].active:
            del self._entries[job_id]
            self.removed.emit(job_id)
            self.arranged.emit()

    # ---- what was asked for --------------------------------------------------------------------------------------

    def pausing(self, job_id: str) -> None:
        """Its pause was asked for; Held tells when it has come to it."""
        entry = self._entries[job_id]
        if entry.state in ("queued", "running"):
            entry.state = "pausing"
            self.changed.emit(job_id)

    def cancelling(self, job_id: str) -> None:
        """Its cancellation was asked for."""
        entry = self._entries[job_id]
        if entry.active:
            entry.state = "cancelling"
            self.changed.emit(job_id)

    def expect(self, job_id: str, seconds: float) -> None:
        """What it should take is known."""
        if job_id in self._entries:
            self._entries[job_id].expected_seconds = seconds
            self.changed.emit(job_id)

    def complete(self, job_id: str) -> None:
        """Nothing of one that had ended early is missing by now."""
        entry = self._entries[job_id]
        entry.state, entry.error, entry.detail, entry.runs_failed = "done", "", "", 0
        self.changed.emit(job_id)

    # ---- what the engine says ------------------------------------------------------------------------------------

    def apply(self, event: Event) -> None:
        """Follow an event of the engine; those about no job of this list are passed over."""
        if isinstance(event, Assigned):
            self._assign(event)
            return
        entry = self._entries.get(getattr(event, "job_id", None) or "")
        if entry is None or not entry.active:
            return
        match event:
            case Accepted(started=True):
                entry.started = time.time()
                if entry.state == "queued":
                    entry.state = "running"
                self.arranged.emit()
            case Held():
                self._hold(entry, event.held)
            case Progress():
                entry.done, entry.total, entry.unit = event.done, event.total, event.unit
                entry.eta_seconds, entry.eta_at, entry.metric = event.eta_seconds, time.time(), event.metric
            case Partial():
                entry.units_stored += 1
            case Measured():
                entry.units_stored += 1
                key, point = event.record.environment.key, event.record.point.content_hash()
                entry.points[key] = (*entry.points.get(key, ()), point)
            case RunFinished():
                entry.runs_finished += 1
            case RunFailed():
                entry.runs_failed += 1
                entry.error, entry.detail = event.error, event.detail
            case Result():
                entry.result = event.value
            case Failed():
                entry.error, entry.detail = event.error, event.detail
                self._end(entry, "failed")
                return
            case Done():
                self._end(entry, "cancelled" if event.cancelled else "failed" if entry.runs_failed else "done")
                return
        self.changed.emit(entry.id)

    def _assign(self, event: Assigned) -> None:
        before = self.engines.get(event.engine)
        self.engines[event.engine] = EngineUse(event.hardware, event.job)
        for job_id in {before.job if before else None, event.job}:
            if job_id in self._entries:
                places = (place for place, use in sorted(self.engines.items()) if use.job == job_id)
                self._entries[job_id].engines = tuple(places)
                self.changed.emit(job_id)

    def _hold(self, entry: JobEntry, held: bool) -> None:
        now = time.time()
        if held:
            entry.held_since, entry.eta_seconds = now, None
        elif entry.held_since is not None:
            entry.held_before += now - max(entry.held_since, entry.started or now)
            entry.held_since = None
        if entry.state != "cancelling":
            entry.state = "paused" if held else "running" if entry.started else "queued"

    def _end(self, entry: JobEntry, state: JobState) -> None:
        if entry.held_since is not None:
            self._hold(entry, held=False)
        entry.state, entry.ended, entry.eta_seconds = state, time.time(), None
        self.changed.emit(entry.id)
        self.ended.emit(entry.id)
        self.arranged.emit()


def run_hashes(runs: Iterable[PendingRun]) -> frozenset[str]:
    """Of many runs these take long: not for the main thread."""
    return frozenset(run.spec.content_hash() for run in runs)
