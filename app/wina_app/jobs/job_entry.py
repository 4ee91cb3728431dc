"""One job of the window, with its outcome in words."""

from dataclasses import dataclass, field
from pathlib import Path

from wina_app.jobs import clock
from wina_app.style.number_format import plural, size
from wina_core.jobs import Assigned, Job, ResultValue
from wina_core.jobs.hosted import HostedJob, ServeJob
from wina_core.jobs.job_state import JobState
from wina_core.records import GgufRecord, ModelSummary, SweepReport


@dataclass(frozen=True, kw_only=True)
class JobEntry(JobState):
    """One job, its progress, and its outcome in words. Times are those of `clock`."""

    id: str
    title: str
    job: Job | HostedJob
    submitted: float = field(default_factory=clock.now)
    expected_seconds: float | None = None
    """Expected total duration; None while unknown."""
    machines: tuple[str, ...] = ()
    """Machines whose engines may compute it, as in `Submit`."""
    engines: tuple[Assigned, ...] = ()
    """Engines that work on it, where there are several."""

    @property
    def serves(self) -> bool:
        """True for a server: no engine computes it, it has no end of its own, and it cannot be paused."""
        return isinstance(self.job, ServeJob)

    @property
    def is_elsewhere(self) -> bool:
        """True for a server and another program's job: no engine of this window has it, and it cannot be paused."""
        return isinstance(self.job, HostedJob)

    @property
    def is_interactive(self) -> bool:
        """True if the user waits for it in front of the screen."""
        return self.job.interactive

    @property
    def can_retry(self) -> bool:
        # The Playground completes prompts and serves models again itself.
        return self.phase in ("failed", "cancelled") and self.job.kind not in ("generate", "serve", "other")

    @property
    def seconds(self) -> float:
        """Seconds since it started, without pauses."""
        return self.seconds_at(clock.now())

    @property
    def remaining_seconds(self) -> float | None:
        """Remaining seconds by the engine's estimate, counted down since, or as expected; None while unknown, and while
        it is cancelled."""
        if self.phase == "cancelling":
            return None
        if self.eta_seconds is not None:
            return max(0.0, self.eta_seconds - (clock.now() - self.eta_at))
        if self.expected_seconds is None or not self.active:
            return None
        return max(0.0, self.expected_seconds - self.seconds)

    @property
    def failure(self) -> str:
        """Its error, with the number of failed runs if there are several; empty without an error."""
        if self.error and len(self.failures) > 1:
            runs = plural(len(self.failures), "runs", "run")
            return f"{self.error} ({runs} failed, the last one with this.)"
        return self.error

    @property
    def summary(self) -> str:
        """Its outcome in one line; empty before its end."""
        if self.active:
            return ""
        texts = [self.failure] if self.failure else []
        if self.phase == "done":
            texts += filter(None, [self.metric if self.serves else _outcome(self.result)])
        if self.phase == "cancelled":
            texts.append("Cancelled")
        if self.runs_finished:
            texts.append(f"{plural(self.runs_finished, 'runs', 'run')} done")
        if self.units_stored:
            texts.append(f"{plural(self.units_stored, 'results', 'result')} stored")
        return "  ·  ".join(texts)


def _outcome(result: ResultValue | None) -> str:
    match result:
        case ModelSummary():
            return f"Loaded, {size(result.memory_bytes)} in memory"
        case SweepReport():
            return f"{plural(result.measured, 'points', 'point')} measured"
        case GgufRecord():
            return gguf_text(result)
        case _:
            return ""


def gguf_text(record: GgufRecord) -> str:
    """Return the name and size of a file, and its perplexity in both programs."""
    texts = [f"{Path(record.file).name}, {size(record.bytes)}"]
    if record.perplexity is None:
        texts.append("not checked in llama.cpp: the optional extra peers is not installed")
    else:
        pair = record.perplexity
        perplexity, llama_cpp = pair.transformers, pair.llama_cpp
        texts.append(f"perplexity {perplexity:.4g} in transformers, {llama_cpp:.4g} in llama.cpp")
        if not pair.same_tokens:
            texts.append("llama.cpp splits text into other tokens")
    return "; ".join(texts)
