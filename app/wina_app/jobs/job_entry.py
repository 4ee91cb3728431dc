"""One job of the window: its state, progress and outcome."""

from dataclasses import dataclass, field
from typing import Literal

from wina_app.jobs import clock
from wina_app.jobs.gguf_text import gguf_text
from wina_app.style.number_format import duration, size
from wina_app.style.translation import tr
from wina_core.engine.client.job_queue import is_interactive
from wina_core.jobs import Assigned, Job, Priority, ResultValue
from wina_core.jobs.hosted import FetchJob, HostedJob
from wina_core.jobs.serving import ServeJob
from wina_core.records import (
    EstimateRecord,
    GgufRecord,
    ModelSummary,
    RefinementStep,
    SweepReport,
)

JobState = Literal["queued", "running", "pausing", "paused", "cancelling", "done", "failed", "cancelled"]
CHANGE_SECONDS = 20.0
"""Time for which the reason of a changed estimate is shown."""
ENDED: tuple[JobState, ...] = ("done", "failed", "cancelled")


@dataclass
class JobEntry:
    """One job and its progress."""

    id: str
    title: str
    job: Job | HostedJob
    priority: Priority = "normal"
    state: JobState = "queued"
    done: float = 0.0
    total: float | None = None
    unit: str = ""
    eta_seconds: float | None = None
    """The engine's last estimate, made at `eta_at`."""
    eta_at: float = 0.0
    eta_change: str = ""
    """The reason why the estimate last changed a lot, reported at `eta_changed_at`."""
    eta_changed_at: float = 0.0
    expected_seconds: float | None = None
    """Expected total duration; None while unknown."""
    metric: str = ""
    waits: str = ""
    """The reason why it waits although no job is ahead of it, in the engine's words."""
    submitted: float = field(default_factory=clock.now)
    started: float | None = None
    ended: float | None = None
    held_since: float | None = None
    """Start of the current pause; None while not paused."""
    held_before: float = 0.0
    """Seconds of earlier pauses since it started."""
    machines: tuple[str, ...] = ()
    """Machines whose engines may compute it, as in `Submit`."""
    engines: tuple[Assigned, ...] = ()
    """Engines that work on it, where there are several."""
    runs_finished: int = 0
    runs_failed: int = 0
    units_stored: int = 0
    running: frozenset[str] = frozenset()
    """Hashes of the runs that are being computed."""
    failures: dict[str, str] = field(default_factory=dict)
    """Errors of the runs that failed, by hash."""
    points: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Hashes of the points that a sweep has measured, by `Environment.key`."""
    refinement: list[RefinementStep] = field(default_factory=list)
    """Steps of a rotation's refinement so far."""
    error: str = ""
    detail: str = ""
    result: ResultValue | None = None

    @property
    def active(self) -> bool:
        """True until it ends."""
        return self.state not in ENDED

    @property
    def waiting(self) -> bool:
        """True until it begins; a waiting job can be moved in the queue."""
        return self.active and self.started is None

    @property
    def begun(self) -> bool:
        """True from its beginning to its end."""
        return self.active and self.started is not None

    @property
    def is_paused(self) -> bool:
        """True if it can be resumed, False if it can be paused."""
        return self.state in ("pausing", "paused")

    @property
    def serves(self) -> bool:
        """True for a server: no engine computes it, it has no end of its own, and it cannot be paused."""
        return isinstance(self.job, ServeJob)

    @property
    def is_elsewhere(self) -> bool:
        """True for a server, a copy, an array job in a queue and another program's job: no engine of this window has
        it, and it cannot be paused."""
        return isinstance(self.job, HostedJob)

    @property
    def is_interactive(self) -> bool:
        """True if the user waits for it in front of the screen; a server and a copy push no job away either."""
        if isinstance(self.job, HostedJob):
            return isinstance(self.job, ServeJob | FetchJob)
        return is_interactive(self.job)

    @property
    def recent_change(self) -> str:
        """The reason why the estimate of the remaining time has changed a lot; empty a while after."""
        return self.eta_change if clock.now() - self.eta_changed_at < CHANGE_SECONDS else ""

    @property
    def can_retry(self) -> bool:
        """True if it ended early and can be completed; the Playground completes prompts and serves models again."""
        return self.state in ("failed", "cancelled") and self.job.kind not in ("generate", "serve", "array", "other")

    @property
    def seconds(self) -> float:
        """Seconds since it started, without pauses."""
        if self.started is None:
            return 0.0
        until = self.held_since or self.ended or clock.now()
        return max(0.0, until - self.started - self.held_before)

    @property
    def remaining_seconds(self) -> float | None:
        """Remaining seconds by the engine's estimate, counted down since, or as expected; None while unknown, and while
        it is cancelled."""
        if self.state == "cancelling":
            return None
        if self.eta_seconds is not None:
            return max(0.0, self.eta_seconds - (clock.now() - self.eta_at))
        if self.expected_seconds is None or not self.active:
            return None
        return max(0.0, self.expected_seconds - self.seconds)

    @property
    def failure(self) -> str:
        """Its error, with the number of failed runs if there are several; empty without an error."""
        if self.error and self.runs_failed > 1:
            runs = tr("{n} runs", "{n} run", self.runs_failed)
            return tr("{error} ({runs} failed, the last one with this.)", error=self.error, runs=runs)
        return self.error

    @property
    def fraction(self) -> float | None:
        """Completed share, 0 to 1; None while the total is unknown."""
        if self.state == "done":
            return 1.0
        return None if not self.total else min(1.0, self.done / self.total)

    @property
    def summary(self) -> str:
        """Its outcome in one line; empty before its end."""
        if self.active:
            return ""
        parts = [self.failure] if self.failure else []
        if self.state == "done":
            parts += filter(None, [self.metric if self.serves else _outcome(self.result)])
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
        case GgufRecord():
            return gguf_text(result)
        case EstimateRecord():
            return tr("About {time} to compute", time=duration(result.seconds + result.preparing_seconds))
        case _:
            return ""
