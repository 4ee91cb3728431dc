"""One job of this window, and what there is to know of it."""

import time
from dataclasses import dataclass, field
from typing import Literal

from wina_app.style.number_format import duration, size
from wina_app.style.translation import tr
from wina_core.engine.protocol import Job, ResultValue
from wina_core.records import EstimateRecord, ModelSummary, SweepReport

JobState = Literal["queued", "running", "pausing", "paused", "cancelling", "done", "failed", "cancelled"]
ENDED: tuple[JobState, ...] = ("done", "failed", "cancelled")

Priority = Literal["first", "high", "normal", "low"]
PRIORITIES: tuple[Priority, ...] = ("first", "high", "normal", "low")


@dataclass
class JobEntry:
    """One job and how far it is."""

    id: str
    title: str
    job: Job
    priority: Priority = "normal"
    state: JobState = "queued"
    done: float = 0.0
    total: float | None = None
    unit: str = ""
    eta_seconds: float | None = None
    """What the engine said last, at `eta_at`."""
    eta_at: float = 0.0
    expected_seconds: float | None = None
    """What it should take from its beginning; None while nobody knows."""
    metric: str = ""
    submitted: float = field(default_factory=time.time)
    started: float | None = None
    ended: float | None = None
    held_since: float | None = None
    """Since when it is held; None while it is not."""
    held_before: float = 0.0
    """Seconds that it was held since it started, before `held_since`."""
    engines: tuple[int, ...] = ()
    """The places of those that work on it, where there are several engines."""
    runs_finished: int = 0
    runs_failed: int = 0
    units_stored: int = 0
    points: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """`Environment.key`: hashes of the points that a sweep has measured."""
    error: str = ""
    detail: str = ""
    result: ResultValue | None = None

    @property
    def active(self) -> bool:
        """Not ended yet."""
        return self.state not in ENDED

    @property
    def waiting(self) -> bool:
        """Not begun yet; such a job can be moved in the queue."""
        return self.active and self.started is None

    @property
    def is_paused(self) -> bool:
        """Whether resuming is what can be asked of it, rather than pausing."""
        return self.state in ("pausing", "paused")

    @property
    def can_retry(self) -> bool:
        """Whether it ended without having done all that it was to do, and doing it now would be of use: an answer is
        asked for again on the Playground."""
        return self.state in ("failed", "cancelled") and self.job.kind != "generate"

    @property
    def seconds(self) -> float:
        """How long it has been worked on, the time that it was held left out."""
        if self.started is None:
            return 0.0
        until = self.held_since or self.ended or time.time()
        return max(0.0, until - self.started - self.held_before)

    @property
    def remaining_seconds(self) -> float | None:
        """What is left: as the engine estimates, counted down since, or as expected; None while nobody knows."""
        if self.eta_seconds is not None:
            return max(0.0, self.eta_seconds - (time.time() - self.eta_at))
        if self.expected_seconds is None or not self.active:
            return None
        return max(0.0, self.expected_seconds - self.seconds)

    @property
    def failure(self) -> str:
        """Its error and, where that is one run's, how many runs failed; empty while there is none."""
        if self.error and self.runs_failed > 1:
            runs = tr("{n} runs", "{n} run", self.runs_failed)
            return tr("{error} ({runs} failed, the last one with this.)", error=self.error, runs=runs)
        return self.error

    @property
    def fraction(self) -> float | None:
        """Share that is done, 0 to 1; None while the total is unknown."""
        if self.state == "done":
            return 1.0
        return None if not self.total else min(1.0, self.done / self.total)

    @property
    def summary(self) -> str:
        """What came of it, in one line; empty before its end."""
        if self.active:
            return ""
        parts = [self.failure] if self.failure else []
        if self.state == "done":
            parts += filter(None, [_outcome(self.result)])
        if self.state == "cancelled":
            parts.append(tr("Cancelled"))
        if self.runs_finished:
            parts.append(tr("{runs} done", runs=tr("{n} runs", "{n} run", self.runs_finished)))
        if self.units_stored:
            parts.append(tr("{results} stored", results=tr("{n} results", "{n} result", self.units_stored)))
        if self.started is not None:
            parts.append(tr("took {time}", time=duration(self.seconds)))
        return "  ·  ".join(parts)


def _outcome(result: ResultValue | None) -> str:
    match result:
        case ModelSummary():
            return tr("Loaded, {memory} in memory", memory=size(result.memory_bytes))
        case SweepReport():
            return tr("{points} measured", points=tr("{n} points", "{n} point", result.measured))
        case EstimateRecord():
            return tr("About {time} to compute", time=duration(result.seconds))
        case _:
            return ""
