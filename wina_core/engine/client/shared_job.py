"""A job in the pool's queue: its runs shared among engines, the state of each part, and what becomes of a dead one."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import ceil

from wina_core.engine.client.engine_end import MOST_ENGINES, describe_failure, describe_retry
from wina_core.jobs import (
    Done,
    EvaluateJob,
    Event,
    Failed,
    Job,
    Log,
    Measured,
    Partial,
    PendingRun,
    Progress,
    RunFailed,
    RunFinished,
    RunStarted,
)
from wina_core.jobs.job_specs import Group, by_model
from wina_core.jobs.job_state import JobState
from wina_core.jobs.progress import MeasurementTimes, Steady, Throttle
from wina_core.specs import COST
from wina_core.specs.machine import LOCAL


class Shares:
    """Runs that no engine has yet, grouped by rotated model, which an engine has to make before it measures.

    An engine goes on with the model that it holds, else begins one that no engine has had, else joins where most runs
    wait. It takes at most half of its fair share of all that wait, so that pieces become smaller towards the end and no
    engine is left alone with it; a single engine takes a group whole. tests/benchmarks/grid_simulation.py compares.
    """

    def __init__(self, runs: Iterable[PendingRun]) -> None:
        self._groups: dict[Group, list[PendingRun]] = {}
        self.put_back(runs)
        self._new = list(self._groups)
        """Groups of which no engine has had any."""

    def __bool__(self) -> bool:
        return bool(self._groups)

    def put_back(self, runs: Iterable[PendingRun]) -> None:
        """Add runs to those that wait."""
        for group, own in by_model(runs).items():
            self._groups.setdefault(group, []).extend(own)

    def take(self, held: Group | None, engines: int) -> tuple[PendingRun, ...]:
        """Take the next runs for one of some engines, those of the model that it holds if any; () when none wait."""
        if not self._groups:
            return ()
        if held is not None and held in self._groups:
            group = held
        else:
            group = self._new[0] if self._new else max(self._groups, key=lambda each: len(self._groups[each]))
        if group in self._new:
            self._new.remove(group)
        runs = self._groups[group]
        waiting = sum(map(len, self._groups.values()))
        size = len(runs) if engines == 1 else ceil(waiting / (2 * engines))
        self._groups[group] = runs[size:]
        if not self._groups[group]:
            del self._groups[group]
        return tuple(runs[:size])


@dataclass(eq=False)
class Part:
    """One engine's share of a job."""

    id: str
    whole: "SharedJob"
    runs: tuple[PendingRun, ...]
    """Runs of an EvaluateJob that is shared; empty for any other job."""
    progress: float = 0.0
    """Measurements done, that under way in part."""
    run: str | None = None
    """The run that is being computed."""
    arrived: set[str] = field(default_factory=set)
    """Its units that have arrived."""
    ended: set[str] = field(default_factory=set)
    """Runs that were computed, or failed."""
    since: float = field(default_factory=time.monotonic)
    """Time of its last result, at first of its beginning."""
    loaded: bool = False
    """True once its engine has the model that it works on."""
    held: bool = False
    released: bool = False
    """True once it is to end early, to make room for another job."""
    gives_up: bool = False
    """True if it loses the measurement in flight then."""

    @property
    def units(self) -> int:
        """Measurements of the runs that have ended, and those of the current one that have arrived."""
        return sum(len(run.units) for run in self.runs if run.spec.content_hash() in self.ended) + len(self.arrived)

    def note(self, event: Event) -> None:
        """Keep track of the results, and of whether the engine has loaded the model."""
        job = self.whole
        if job.times is not None:
            job.times.take(event)
        match event:
            case RunStarted():
                self.begin(event.run)
            case Partial():
                self._on_result()
                self.loaded |= event.unit.unit != COST  # which is counted from the config alone
                self.arrived.add(event.unit.unit)
            case Measured():
                self._on_result()
                self.loaded = True
            case Progress():
                self.loaded |= event.stage not in ("", "loading")
            case RunFinished():
                self.end(event.run)
            case RunFailed():
                self._on_result()
                self.end(event.run)

    def _on_result(self) -> None:
        """Count a result of any kind."""
        self.since, self.whole.gave_up = time.monotonic(), False

    def begin(self, run: str | None) -> None:
        """Set the current run, None for none."""
        self.run, self.arrived = run, set()

    def end(self, run: str) -> None:
        """Count a run as ended."""
        self.ended.add(run)
        self.begin(None)

    @property
    def current(self) -> list[PendingRun]:
        """The current run without the units that have arrived; empty if all have, or if there is none."""
        runs = [run for run in self.runs if run.spec.content_hash() == self.run]
        missing = [(run, tuple(unit for unit in run.units if unit not in self.arrived)) for run in runs]
        return [run.model_copy(update={"units": units}) for run, units in missing if units]

    @property
    def rest(self) -> list[PendingRun]:
        """The runs that have not ended. The current one is last: it may end its next engine, too."""
        begun = {*self.ended, self.run}
        return [*(run for run in self.runs if run.spec.content_hash() not in begun), *self.current]


@dataclass(eq=False)
class SharedJob:
    """A job in the pool's queue."""

    id: str
    job: Job
    shares: Shares | None = None
    """Runs that no engine has yet; None for a job that goes to one engine as it is."""
    times: MeasurementTimes | None = None
    """Times of its measurements, where it has runs."""
    machines: tuple[str, ...] = (LOCAL,)
    """Machines whose engines may compute it."""
    opening: bool = False
    """True while the engines of some of them are not known; an engine that is would take too many of its runs."""
    state: JobState = field(default_factory=JobState)
    """Its state after the events that were reported of it, in seconds of the monotonic clock."""
    parts: list[Part] = field(default_factory=list)
    """Parts that engines work on now."""
    begun: bool = False
    """True once an engine was given something of it."""
    cut: bool = False
    """True if the cancellation left something out."""
    gave_up: bool = False
    """True once a measurement in flight was given up, until the next result."""
    failure: Failed | None = None
    """Failure of a part that reached no run, or of the one part of a job that is not shared."""
    unreached: list[str] = field(default_factory=list)
    """Runs of such parts."""
    engines_ended: dict[str, int] = field(default_factory=dict)
    """Number of engines that ended while they computed a run, by its hash."""
    units: int = 0
    """Measurements of ended parts."""
    steady: Steady = field(default_factory=Steady)
    throttle: Throttle = field(default_factory=Throttle)

    @property
    def waiting(self) -> bool:
        """True if an engine could begin some of it."""
        return (
            not self.state.is_cancelled
            and not self.opening
            and (bool(self.shares) if self.shares is not None else not self.begun)
        )

    def take_back(self, part: Part, *, whole: bool) -> None:
        """Take back what is left of a part that ended early; `whole` if it ended by itself."""
        if self.shares is not None:
            self.shares.put_back(part.rest)
        self.begun = bool(self.parts) or (self.shares is None and whole)

    def progress(self, now: float, doing: Progress) -> Progress | None:
        """Return the progress of all parts together at the time `now`, after that of one; None too soon after the last
        one."""
        assert isinstance(self.job, EvaluateJob)  # no other is shared
        assert self.times is not None
        done = self.units + sum(part.progress for part in self.parts)
        total = float(sum(len(run.units) for run in self.job.runs))
        now = self.state.clock(now)
        eta = self.times.left(done, [part.run for part in self.parts])
        changed = "" if eta is None else self.steady.change(now, eta, doing.stage or "this step")
        if not (self.throttle.passes(now, done, total) or changed):
            return None
        return Progress(
            job_id=self.id,
            done=done,
            total=total,
            unit="measurements",
            eta_seconds=eta,
            metric=doing.metric,
            changed=changed,
        )


def reap(part: Part, failed: Failed, shares: Shares) -> list[Event]:
    """Hand what a dead engine left to the next free engines; fail the run that has ended too many of them."""
    job = part.whole
    if failed.not_begun and part.rest:
        part.begin(part.rest[0].spec.content_hash())  # it was being prepared
    if part.run is None and not part.ended:  # no other engine would reach a run either
        job.failure = failed
        job.unreached += [pending.spec.content_hash() for pending in part.runs]
        part.ended |= set(job.unreached)
        return []
    events = list(_count_end(part, part.run, failed)) if part.run is not None and not job.state.is_cancelled else []
    job.cut |= job.state.is_cancelled and bool(part.rest)
    shares.put_back(part.rest)
    return events


def _count_end(part: Part, run: str, failed: Failed) -> Iterator[Event]:
    """Count the end of an engine against the run that it computed."""
    job = part.whole
    ended = job.engines_ended[run] = job.engines_ended.get(run, 0) + 1
    if not part.current:  # it ended between the last measurement and the word that all have arrived
        yield RunFinished(job_id=job.id, run=run)
        part.end(run)
    elif ended == MOST_ENGINES:
        yield RunFailed(job_id=job.id, run=run, error=describe_failure(failed), detail=failed.detail)
        part.end(run)
    else:
        yield Log(level="warning", text=describe_retry(failed, ended), job_id=job.id)


def last_events(job: SharedJob) -> Iterator[Event]:
    """Yield the events that end a job."""
    failure = job.failure
    if failure is not None and not (job.shares is not None and job.state.reached_runs):
        yield failure.model_copy(update={"job_id": job.id})
        return
    if failure is not None:
        for run in job.unreached:
            yield RunFailed(job_id=job.id, run=run, error=failure.error, detail=failure.detail)
    yield Done(job_id=job.id, cancelled=job.cut)
