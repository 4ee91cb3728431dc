"""The jobs of this window, queued, running and ended: bookkeeping from the engine's events, nothing else."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from PySide6.QtCore import QObject, Signal

from wina_core.engine.protocol import (
    Accepted,
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
    ResultValue,
    RunFailed,
    RunFinished,
)

JobState = Literal["queued", "running", "pausing", "paused", "cancelling", "done", "failed", "cancelled"]
ENDED: tuple[JobState, ...] = ("done", "failed", "cancelled")


@dataclass
class JobEntry:
    """One job and how far it is."""

    id: str
    title: str
    job: Job
    state: JobState = "queued"
    done: float = 0.0
    total: float | None = None
    unit: str = ""
    eta_seconds: float | None = None
    metric: str = ""
    submitted: float = field(default_factory=time.time)
    started: float | None = None
    ended: float | None = None
    held_since: float | None = None
    """Since when it is held; None while it is not."""
    held_before: float = 0.0
    """Seconds that it was held since it started, before `held_since`."""
    runs_finished: int = 0
    runs_failed: int = 0
    units_stored: int = 0
    error: str = ""
    detail: str = ""
    result: ResultValue | None = None

    @property
    def active(self) -> bool:
        """Not ended yet."""
        return self.state not in ENDED

    @property
    def seconds(self) -> float:
        """How long it has been worked on, the time that it was held left out."""
        if self.started is None:
            return 0.0
        until = self.held_since or self.ended or time.time()
        return max(0.0, until - self.started - self.held_before)

    @property
    def failure(self) -> str:
        """Its error and, where that is one run's, how many runs failed; empty while there is none."""
        more = f" ({self.runs_failed} runs failed, the last one with this.)" if self.runs_failed > 1 else ""
        return f"{self.error}{more}" if self.error else ""

    @property
    def fraction(self) -> float | None:
        """Share that is done, 0 to 1; None while the total is unknown."""
        if self.state == "done":
            return 1.0
        return None if not self.total else min(1.0, self.done / self.total)


class JobList(QObject):
    """All jobs in order of submission. Signals carry the job's id."""

    added = Signal(str)
    changed = Signal(str)
    ended = Signal(str)
    """Once per job, after its last `changed`."""
    removed = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self._entries: dict[str, JobEntry] = {}

    def __iter__(self) -> Iterator[JobEntry]:
        return iter(list(self._entries.values()))

    def __getitem__(self, job_id: str) -> JobEntry:
        return self._entries[job_id]

    @property
    def active(self) -> list[JobEntry]:
        """Those that have not ended."""
        return [entry for entry in self if entry.active]

    @property
    def queued_runs(self) -> list[PendingRun]:
        """What jobs that have not ended compute."""
        jobs = [entry.job for entry in self.active]
        return [run for job in jobs if isinstance(job, EvaluateJob) for run in job.runs]

    def add(self, job_id: str, title: str, job: Job) -> None:
        """A job was submitted."""
        self._entries[job_id] = JobEntry(job_id, title, job)
        self.added.emit(job_id)

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

    def clear_ended(self) -> None:
        """Forget the jobs that have ended."""
        for entry in self:
            if not entry.active:
                del self._entries[entry.id]
                self.removed.emit(entry.id)

    def apply(self, event: Event) -> None:
        """Follow an event of the engine; those about no job of this list are passed over."""
        entry = self._entries.get(getattr(event, "job_id", None) or "")
        if entry is None or not entry.active:
            return
        match event:
            case Accepted(started=True):
                entry.started = time.time()
                if entry.state == "queued":
                    entry.state = "running"
            case Held():
                self._hold(entry, event.held)
            case Progress():
                entry.done, entry.total, entry.unit = event.done, event.total, event.unit
                entry.eta_seconds, entry.metric = event.eta_seconds, event.metric
            case Partial() | Measured():
                entry.units_stored += 1
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


def run_hashes(runs: Iterable[PendingRun]) -> frozenset[str]:
    """Of many runs these take long: not for the main thread."""
    return frozenset(run.spec.content_hash() for run in runs)
