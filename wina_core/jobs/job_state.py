"""State of a job, folded from the events about it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, Self

from wina_core.jobs.events import (
    Done,
    Event,
    Failed,
    Held,
    Measured,
    Partial,
    Priority,
    Progress,
    Queued,
    Refined,
    Result,
    ResultValue,
    RunFailed,
    RunFinished,
    RunStarted,
    Started,
)
from wina_core.records import RefinementStep

JobPhase = Literal["queued", "running", "pausing", "paused", "cancelling", "done", "failed", "cancelled"]
ENDED: tuple[JobPhase, ...] = ("done", "failed", "cancelled")


@dataclass(frozen=True, kw_only=True)
class JobState:
    """State of one job; `apply` returns the one after an event. Times are seconds of one clock of the caller."""

    phase: JobPhase = "queued"
    priority: Priority = "normal"
    waits: str = ""
    """The reason why it waits although no job is ahead of it, in the engine's words."""
    done: float = 0.0
    total: float | None = None
    """None while unknown."""
    unit: str = ""
    """Unit of `done` and `total`."""
    metric: str = ""
    """Current work in words, with its latest figure."""
    eta_seconds: float | None = None
    """The engine's last estimate of the remaining time, made at `eta_at`; None while unknown."""
    eta_at: float = 0.0
    started: float | None = None
    """None while no engine has it."""
    ended: float | None = None
    held_since: float | None = None
    """Start of the current pause; None while not paused."""
    held_seconds: float = 0.0
    """Seconds of all earlier pauses."""
    held_seconds_at_start: float = 0.0
    """Those of them before it started."""
    runs_finished: int = 0
    running: frozenset[str] = frozenset()
    """Hashes of the runs that are being computed."""
    failures: Mapping[str, RunFailed] = field(default_factory=dict)
    """The runs that failed, by hash."""
    units_stored: int = 0
    """Measurements and points that have arrived."""
    points: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Hashes of the points that a sweep has measured, by `Environment.key`."""
    refinement: tuple[RefinementStep, ...] = ()
    """Steps of a rotation's refinement so far."""
    error: str = ""
    """Error of the job, else of the run that failed last."""
    detail: str = ""
    result: ResultValue | None = None

    @property
    def active(self) -> bool:
        return self.phase not in ENDED

    @property
    def waiting(self) -> bool:
        return self.active and self.started is None

    @property
    def begun(self) -> bool:
        return self.active and self.started is not None

    @property
    def is_paused(self) -> bool:
        """True if it can be resumed, False if it can be paused."""
        return self.phase in ("pausing", "paused")

    @property
    def is_cancelled(self) -> bool:
        """True once its cancellation was requested, until its end."""
        return self.phase == "cancelling"

    @property
    def reached_runs(self) -> bool:
        return bool(self.running or self.runs_finished or self.failures)

    @property
    def fraction(self) -> float | None:
        """Completed share, 0 to 1; None while the total is unknown."""
        if self.phase == "done":
            return 1.0
        return None if not self.total else min(1.0, self.done / self.total)

    def clock(self, now: float) -> float:
        """Return the time `now` of the caller's clock on one that stands still while the job is paused."""
        return (now if self.held_since is None else self.held_since) - self.held_seconds

    def seconds_at(self, now: float) -> float:
        """Return the seconds from its start to its end, or to the time `now`, without pauses; 0 before its start."""
        if self.started is None:
            return 0.0
        until = now if self.ended is None else self.ended
        # `clock` subtracts all pauses, also those before the start.
        return max(0.0, self.clock(until) - self.started + self.held_seconds_at_start)

    def pausing(self) -> Self:
        """Return the state once a pause is requested; Held confirms it, as it does the end of a pause."""
        return replace(self, phase="pausing") if self.phase in ("queued", "running") else self

    def cancelling(self) -> Self:
        return replace(self, phase="cancelling") if self.active else self

    def completed(self) -> Self:
        """Return the state of a job that ended early once nothing of it is missing any more."""
        return replace(self, phase="done", error="", detail="", failures={})

    def apply(self, event: Event, now: float) -> Self:
        """Return the state after an event about this job at the time `now`; nothing changes a job that has ended."""
        if not self.active:  # a late event of an engine that was ended changes nothing
            return self
        match event:
            case Queued():
                return replace(self, priority=event.priority, waits=event.reason)
            case Started():
                # A pause or cancellation that was requested before the start outlasts it.
                phase = "running" if self.phase == "queued" else self.phase
                return replace(self, phase=phase, started=now, held_seconds_at_start=self.held_seconds, waits="")
            case Held():
                return self._hold(event, now)
            case Progress():
                return replace(
                    self,
                    done=event.done,
                    total=event.total,
                    unit=event.unit,
                    metric=event.label,
                    eta_seconds=event.eta_seconds,
                    eta_at=now,
                )
            case Refined():
                return replace(self, refinement=(*self.refinement, event.step))
            case Partial():
                return replace(self, units_stored=self.units_stored + 1)
            case Measured():
                key, point = event.record.environment.key, event.record.point.content_hash()
                points = {**self.points, key: (*self.points.get(key, ()), point)}
                return replace(self, units_stored=self.units_stored + 1, points=points)
            case RunStarted():
                return replace(self, running=self.running | {event.run})
            case RunFinished():
                return replace(self, runs_finished=self.runs_finished + 1, running=self.running - {event.run})
            case RunFailed():
                failures = {**self.failures, event.run: event}
                running = self.running - {event.run}
                return replace(self, running=running, failures=failures, error=event.error, detail=event.detail)
            case Result():
                return replace(self, result=event.value)
            case Failed():
                return replace(self._end("failed", now), error=event.error, detail=event.detail)
            case Done():
                # An evaluation continues after a run that failed, so that its end may be a failure.
                return self._end("cancelled" if event.cancelled else "failed" if self.failures else "done", now)
            case _:
                return self

    def _hold(self, event: Held, now: float) -> Self:
        started = None if event.released else self.started  # released: it waits for an engine once it is resumed
        phase: JobPhase = "paused" if event.held else "queued" if started is None else "running"
        # A cancellation that is under way outlasts the Held of an earlier pause.
        after = replace(self, phase=self.phase if self.phase == "cancelling" else phase, started=started)
        if not event.held:
            return after._unhold(now)
        return after if after.held_since is not None else replace(after, held_since=now, eta_seconds=None)

    def _unhold(self, now: float) -> Self:
        if self.held_since is None:
            return self
        return replace(self, held_since=None, held_seconds=self.held_seconds + now - self.held_since)

    def _end(self, phase: JobPhase, now: float) -> Self:
        return replace(self._unhold(now), phase=phase, ended=now, eta_seconds=None, running=frozenset())
