"""The job list: a view of the engines' queue and of what its jobs report, with the jobs that have ended."""

from collections.abc import Iterable, Iterator

from PySide6.QtCore import QObject, Signal

from wina_app.jobs import clock
from wina_app.jobs.job_entry import ENDED, JobEntry, JobState
from wina_core.jobs import (
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
    Queued,
    Refined,
    Result,
    RunFailed,
    RunFinished,
    RunStarted,
    Started,
)
from wina_core.jobs.hosted import HostedJob

__all__ = ["ENDED", "JobEntry", "JobList", "JobState", "run_hashes"]

MOST_ENDED = 200
"""Ended jobs that are listed; the oldest are forgotten, so that a window that is open for weeks does not grow."""


class JobList(QObject):
    """All jobs of this window. Signals carry the job's id."""

    added = Signal(str)
    requeued = Signal(str)
    """A job that had ended is queued again, under its id."""
    changed = Signal(str)
    ended = Signal(str)
    """A job has ended; sent after its last `changed`."""
    removed = Signal(str)
    arranged = Signal()
    """Jobs were added, removed or put in another order."""

    def __init__(self) -> None:
        super().__init__()
        self._entries: dict[str, JobEntry] = {}
        self.engines: dict[int, Assigned] = {}
        """The work of each engine, by its place from 1; empty where there is only one engine."""

    def __iter__(self) -> Iterator[JobEntry]:
        return iter(list(self._entries.values()))

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
        begun = sorted(
            (entry for entry in entries if entry.begun), key=lambda entry: (entry.is_interactive, entry.started or 0.0)
        )
        ended = sorted((entry for entry in entries if not entry.active), key=_ended_place)
        return [*begun, *(entry for entry in entries if entry.waiting), *ended]

    @property
    def active(self) -> list[JobEntry]:
        """Jobs of the engines that have not ended, those that run first."""
        return [entry for entry in self.ordered if entry.active and not entry.is_elsewhere]

    @property
    def queued_runs(self) -> list[PendingRun]:
        """Runs of all jobs that have not ended."""
        jobs = [entry.job for entry in self.active]
        return [run for job in jobs if isinstance(job, EvaluateJob) for run in job.runs]

    # ---- the queue -----------------------------------------------------------------------------------------------

    def add(self, job_id: str, title: str, job: Job | HostedJob, machines: tuple[str, ...] = ()) -> None:
        """Add a job that is submitted, hosted or in a queue; a Queued event places it."""
        self._entries[job_id] = JobEntry(job_id, title, job, machines=machines)
        self.added.emit(job_id)
        self.arranged.emit()

    def requeue(self, job_id: str, job: Job | HostedJob) -> None:
        """Replace a job that has ended by a new attempt at it, or at its rest."""
        old = self._entries.pop(job_id)
        self._entries[job_id] = JobEntry(
            *(job_id, old.title, job, old.priority),
            machines=old.machines,
            expected_seconds=old.expected_seconds,
            points=old.points,
        )
        self.requeued.emit(job_id)
        self.changed.emit(job_id)
        self.arranged.emit()

    def clear_ended(self) -> None:
        """Forget the jobs that have ended."""
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
        entry = self._entries[job_id]
        if entry.state in ("queued", "running"):
            entry.state = "pausing"
            self.changed.emit(job_id)

    def cancelling(self, job_id: str) -> None:
        """Show that the cancellation is requested."""
        entry = self._entries[job_id]
        if entry.active:
            entry.state = "cancelling"
            self.changed.emit(job_id)

    def expect(self, job_id: str, seconds: float) -> None:
        """Set the expected duration of a job."""
        if job_id in self._entries:
            self._entries[job_id].expected_seconds = seconds
            self.changed.emit(job_id)

    def complete(self, job_id: str) -> None:
        """Mark a job that had ended early as done: nothing of it is missing by now."""
        entry = self._entries[job_id]
        entry.state, entry.error, entry.detail, entry.runs_failed = "done", "", "", 0
        self.changed.emit(job_id)

    # ---- events --------------------------------------------------------------------------------------------------

    def apply(self, event: Event) -> None:
        """Follow an event of the engines; events about no job of this list are passed over."""
        if isinstance(event, Assigned):
            self._assign(event)
            return
        entry = self._entries.get(getattr(event, "job_id", None) or "")
        if entry is None or not entry.active:
            return
        match event:
            case Queued():
                self._place(entry, event)
            case Started():
                entry.started, entry.waits = clock.now(), ""
                if entry.state == "queued":
                    entry.state = "running"
                self.arranged.emit()
            case Held():
                if event.released:  # it waits for an engine once it is resumed
                    entry.started, entry.held_before = None, 0.0
                self._hold(entry, event.held)
            case Progress():
                entry.done, entry.total, entry.unit = event.done, event.total, event.unit
                entry.eta_seconds, entry.eta_at, entry.metric = event.eta_seconds, clock.now(), event.label
                if event.changed:
                    entry.eta_change, entry.eta_changed_at = event.changed, clock.now()
            case Refined():
                entry.refinement.append(event.step)
            case Partial():
                entry.units_stored += 1
            case Measured():
                entry.units_stored += 1
                key, point = event.record.environment.key, event.record.point.content_hash()
                entry.points[key] = (*entry.points.get(key, ()), point)
            case RunStarted():
                entry.running |= {event.run}
                entry.failures.pop(event.run, None)
            case RunFinished():
                entry.runs_finished += 1
                entry.running -= {event.run}
            case RunFailed():
                entry.runs_failed += 1
                entry.running -= {event.run}
                entry.failures[event.run] = event.error
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

    def _place(self, entry: JobEntry, event: Queued) -> None:
        """Put a job right before the one that follows it in the queue, else at the end."""
        entry.priority, entry.waits = event.priority, event.reason
        order = [other for other in self if other is not entry]
        places = (place for place, other in enumerate(order) if other.id == event.before)
        order.insert(next(places, len(order)), entry)
        self._entries = {other.id: other for other in order}
        self.arranged.emit()

    def _assign(self, event: Assigned) -> None:
        before = self.engines.get(event.engine)
        self.engines[event.engine] = event
        for job_id in {before.job if before else None, event.job}:
            if job_id in self._entries:
                uses = (use for _, use in sorted(self.engines.items()) if use.job == job_id)
                self._entries[job_id].engines = tuple(uses)
                self.changed.emit(job_id)

    def _hold(self, entry: JobEntry, held: bool) -> None:
        now = clock.now()
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
        entry.state, entry.ended, entry.eta_seconds = state, clock.now(), None
        entry.running = frozenset()
        self.changed.emit(entry.id)
        self.ended.emit(entry.id)
        ended = [other for other in self if not other.active]
        for old in sorted(ended, key=lambda other: other.ended or 0.0)[:-MOST_ENDED]:
            del self._entries[old.id]
            self.removed.emit(old.id)
        self.arranged.emit()


def _ended_place(entry: JobEntry) -> tuple[bool, float]:
    return entry.is_interactive and entry.state != "failed", -(entry.ended or 0.0)


def run_hashes(runs: Iterable[PendingRun]) -> frozenset[str]:
    """Return the content hashes of runs; too slow for the main thread where there are many."""
    return frozenset(run.spec.content_hash() for run in runs)
