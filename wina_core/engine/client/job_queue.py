"""The queue of an `EnginePool`: its jobs, its engines, and what each was given.

A job with runs is a `QueuedJob` whose runs wait as `UnassignedRuns`; an engine gets some of them as an `Assignment`.
What an engine that died leaves goes back to the others (`reap`). The `JobQueue` orders the jobs by priority, then as
they came or were moved. A batch job that has begun runs to its end, unless it is paused or has to make room for another
job (see `pool`).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import ceil

from wina_core.engine.client.client import EngineClient
from wina_core.engine.client.end_texts import MOST_ENGINES, describe_failure, describe_retry
from wina_core.errors import WinaError
from wina_core.jobs import (
    PRIORITIES,
    Done,
    EvaluateJob,
    Event,
    Failed,
    Job,
    Log,
    Measured,
    Partial,
    PendingRun,
    Priority,
    Progress,
    Queued,
    RunFailed,
    RunFinished,
    RunStarted,
)
from wina_core.jobs.job_specs import Group, by_model
from wina_core.jobs.job_state import JobState
from wina_core.jobs.progress import MeasurementTimes, Throttle
from wina_core.records import Environment
from wina_core.specs import COST, ModelSource
from wina_core.specs.machine import LOCAL


class UnassignedRuns:
    """Runs that no engine has yet, grouped by rotated model, which an engine has to make before it measures.

    An engine continues with the model that it holds, else begins one that no engine has had, else joins where most runs
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
        for group, group_runs in by_model(runs).items():
            self._groups.setdefault(group, []).extend(group_runs)

    def take(self, held: Group | None, engines: int) -> tuple[PendingRun, ...]:
        """Take the next runs for one of some engines, those of the model that it holds if any; () when none wait."""
        if not self._groups:
            return ()
        if held is not None and held in self._groups:
            group = held
        else:
            group = self._new[0] if self._new else max(self._groups, key=lambda candidate: len(self._groups[candidate]))
        if group in self._new:
            self._new.remove(group)
        runs = self._groups[group]
        waiting = sum(map(len, self._groups.values()))
        # As in factoring (Hummel, Schonberg and Flynn, 1992), with a new size for each piece.
        size = len(runs) if engines == 1 else ceil(waiting / (2 * engines))
        self._groups[group] = runs[size:]
        if not self._groups[group]:
            del self._groups[group]
        return tuple(runs[:size])


@dataclass(eq=False)
class Assignment:
    """The work that one engine was given of a job."""

    id: str
    job: "QueuedJob"
    runs: tuple[PendingRun, ...]
    """Runs of an EvaluateJob that is shared; empty for any other job."""
    progress: float = 0.0
    """Measurements done, a fraction of the current one included."""
    run: str | None = None
    """The run that is being computed."""
    arrived: set[str] = field(default_factory=set)
    """Its units that have arrived."""
    ended: set[str] = field(default_factory=set)
    """Runs that were computed, or failed."""
    loaded: bool = False
    """True once its engine has the model that it works on."""
    held: bool = False
    released: bool = False
    """True once it is to end early, to make room for another job."""

    @property
    def units(self) -> int:
        """Measurements of the runs that have ended, and those of the current one that have arrived."""
        return sum(len(run.units) for run in self.runs if run.spec.content_hash() in self.ended) + len(self.arrived)

    def note(self, event: Event) -> None:
        """Keep track of the results, and of whether the engine has loaded the model."""
        job = self.job
        if job.times is not None:
            job.times.take(event)
        match event:
            case RunStarted():
                self.begin(event.run)
            case Partial():
                self.loaded |= event.unit.unit != COST  # costs are counted from the config, without the model
                self.arrived.add(event.unit.unit)
            case Measured():
                self.loaded = True
            case Progress():
                self.loaded |= event.stage not in ("", "loading")
            case RunFinished() | RunFailed():
                self.end(event.run)

    def begin(self, run: str | None) -> None:
        self.run, self.arrived = run, set()

    def end(self, run: str) -> None:
        self.ended.add(run)
        self.begin(None)

    def end_arrived(self) -> Iterator[RunFinished]:
        """End the current run if all of its units have arrived, but not its RunFinished, which is yielded."""
        if self.run is not None and not self.current:
            yield RunFinished(job_id=self.job.id, run=self.run)
            self.end(self.run)

    @property
    def current(self) -> list[PendingRun]:
        """The current run without the units that have arrived; empty if all have, or without a current run."""
        runs = [run for run in self.runs if run.spec.content_hash() == self.run]
        missing = [(run, tuple(unit for unit in run.units if unit not in self.arrived)) for run in runs]
        return [run.model_copy(update={"units": units}) for run, units in missing if units]

    @property
    def rest(self) -> list[PendingRun]:
        """The runs that have not ended, the current one last."""
        excluded = {*self.ended, self.run}
        # The current one may end its next engine, too: the others are measured before.
        return [*(run for run in self.runs if run.spec.content_hash() not in excluded), *self.current]


@dataclass(eq=False)
class QueuedJob:
    """A job in the pool's queue."""

    id: str
    spec: Job
    unassigned: UnassignedRuns | None = None
    """Runs that no engine has yet; None for a job that goes to one engine as it is."""
    times: MeasurementTimes | None = None
    """Times of its measurements, where it has runs."""
    machines: tuple[str, ...] = (LOCAL,)
    """Machines whose engines may compute it."""
    opening: bool = False
    """True while the engines of some of them are unknown: the known ones would take too many of its runs."""
    state: JobState = field(default_factory=JobState)
    """Its state after the events that were reported of it, in seconds of the monotonic clock."""
    assignments: list[Assignment] = field(default_factory=list)
    """Assignments that engines work on now."""
    has_begun: bool = False
    """True once an engine was given something of it."""
    cut: bool = False
    """True if the cancellation left something out."""
    failure: Failed | None = None
    """Failure of an assignment that reached no run, or of the only one of a job that is not shared."""
    unreached: list[str] = field(default_factory=list)
    """Runs of the assignments that reached none."""
    engines_ended: dict[str, int] = field(default_factory=dict)
    """Number of engines that ended while they computed a run, by its hash."""
    units: int = 0
    """Measurements of ended assignments."""
    throttle: Throttle = field(default_factory=Throttle)

    @property
    def waiting(self) -> bool:
        """True if an engine could begin some of it."""
        return (
            not self.state.is_cancelled
            and not self.opening
            and (bool(self.unassigned) if self.unassigned is not None else not self.has_begun)
        )

    def take_back(self, assignment: Assignment, *, finished: bool) -> None:
        """Take back the rest of an assignment that was to end early; `finished` if it had reached its end by then."""
        if self.unassigned is not None:
            self.unassigned.put_back(assignment.rest)
        self.has_begun = bool(self.assignments) or (self.unassigned is None and finished)

    def progress(self, now: float, doing: Progress) -> Progress | None:
        """Return the progress of all assignments together at the time `now`, after that of one of them.

        None where the last one was sent less than an interval before.
        """
        assert isinstance(self.spec, EvaluateJob)  # no other is shared
        assert self.times is not None
        done = self.units + sum(assignment.progress for assignment in self.assignments)
        total = float(sum(len(run.units) for run in self.spec.runs))
        if not self.throttle.passes(now, done, total):
            return None
        return Progress(
            job_id=self.id,
            done=done,
            total=total,
            unit="measurements",
            eta_seconds=self.times.left(done, len(self.assignments)),
            metric=doing.metric,
        )


def reap(assignment: Assignment, failed: Failed, unassigned: UnassignedRuns) -> list[Event]:
    """Hand what a dead engine left to the next free engines; fail the run that has ended too many of them."""
    job = assignment.job
    if assignment.run is None and not assignment.ended:  # another engine would reach no run either
        job.failure = failed
        job.unreached += [pending.spec.content_hash() for pending in assignment.runs]
        assignment.ended |= set(job.unreached)
        return []
    events = (
        list(_count_end(assignment, assignment.run, failed))
        if assignment.run is not None and not job.state.is_cancelled
        else []
    )
    job.cut |= job.state.is_cancelled and bool(assignment.rest)
    unassigned.put_back(assignment.rest)
    return events


def _count_end(assignment: Assignment, run: str, failed: Failed) -> Iterator[Event]:
    """Count the end of an engine against the run that it computed."""
    job = assignment.job
    ended = job.engines_ended[run] = job.engines_ended.get(run, 0) + 1
    if not assignment.current:
        yield from assignment.end_arrived()
    elif ended == MOST_ENGINES:
        yield RunFailed(job_id=job.id, run=run, error=describe_failure(failed), detail=failed.detail)
        assignment.end(run)
    else:
        yield Log(level="warning", text=describe_retry(failed, ended), job_id=job.id)


def last_events(job: QueuedJob) -> Iterator[Event]:
    """Yield the events that end a job."""
    failure = job.failure
    if failure is not None and not (job.unassigned is not None and job.state.reached_runs):
        yield failure.model_copy(update={"job_id": job.id})
        return
    if failure is not None:
        for run in job.unreached:
            yield RunFailed(job_id=job.id, run=run, error=failure.error, detail=failure.detail)
    yield Done(job_id=job.id, cancelled=job.cut)


# ---- engines ---------------------------------------------------------------------------------------------------------

OnEvent = Callable[[Event], None]
MakeClient = Callable[[OnEvent], EngineClient]
"""Maker of one engine's client from the receiver of its events."""
OpenMachine = Callable[[str], Sequence[MakeClient]]
"""Makers of a machine's engines by its name; raises WinaError for one that is not known or not reached."""


def no_machines(name: str) -> Sequence[MakeClient]:
    """Raise WinaError: this pool has the engines of this computer alone."""
    raise WinaError(f"This program computes on this computer alone, and not on {name}.")


@dataclass(eq=False)
class Worker:
    """An engine and its work."""

    number: int
    """Number of the engine, from 1."""
    client: EngineClient
    light: bool = False
    """True for the one beside the others that computes only what a user waits for."""
    machine: str = LOCAL
    """Name of the machine that it runs on."""
    hardware: str = ""
    environment: Environment | None = None
    """Its libraries and hardware; None until it is ready."""
    assignment: Assignment | None = None
    """Its present work; None while it is idle."""
    group: Group | None = None
    """The rotated model that it holds: that of its last runs."""
    model: ModelSource | None = None
    """The model of its last job."""
    pid: int | None = None
    """The process that computed its last job: another one has no model in memory."""
    idle_since: float = 0.0
    lost: int = 0
    """Processes in a row that were lost before they began the job that they were given."""
    ending: bool = False
    """True while the light one is stopped because nobody needed it for a while."""

    @property
    def free(self) -> bool:
        return self.assignment is None and not self.ending and self.client.available

    def holds(self, job: Job) -> bool:
        """Return whether its last job was on the model of this one, in the same process."""
        model = job.first_model
        return model is not None and model == self.model and self.pid == self.client.pid


def assignments(workers: Iterable[Worker]) -> list[Assignment]:
    return [worker.assignment for worker in workers if worker.assignment is not None]


def yielding_work(workers: Iterable[Worker], job: Job) -> Assignment | None:
    """Return the evaluation or sweep that makes room for an interactive job.

    Evaluations are preferred to sweeps, and engines that hold the job's model to others.
    """
    able = [
        (worker.assignment.job.spec.timed, not worker.holds(job), worker.number, worker.assignment)
        for worker in workers
        if worker.assignment
        and (isinstance(worker.assignment.job.spec, EvaluateJob) or worker.assignment.job.spec.timed)
    ]
    return min(able, key=lambda candidate: candidate[:3])[3] if able else None


# ---- the order of the jobs ------------------------------------------------------------------------------------------


class JobQueue:
    """All jobs that have not ended, those that have begun included."""

    def __init__(self) -> None:
        self._jobs: dict[str, QueuedJob] = {}

    def __iter__(self) -> Iterator[QueuedJob]:
        # A copy: the pool ends and moves jobs within such loops.
        return iter(list(self._jobs.values()))

    def get(self, job_id: str) -> QueuedJob | None:
        return self._jobs.get(job_id)

    def remove(self, job: QueuedJob) -> None:
        del self._jobs[job.id]

    def add(self, job: QueuedJob) -> Queued:
        """Place a job ahead of all with a lower priority, waiting or begun."""
        lower = PRIORITIES[_rank(job.state.priority) + 1 :]
        first = next((other for other in self if other is not job and other.state.priority in lower), None)
        return self._insert(job, first)

    def prioritize(self, job: QueuedJob, priority: Priority) -> Queued:
        """Place a job behind all others of a priority."""
        job.state = replace(job.state, priority=priority)
        return self.add(job)

    def move(self, job: QueuedJob, before: str | None) -> Queued:
        """Place a job before a waiting one, at the end for None, and first where the other has begun meanwhile.

        Its priority changes no more than the order by priority requires.
        """
        waiting = [other for other in self if other is not job and not other.has_begun]
        indices = (index for index, other in enumerate(waiting) if other.id == before)
        index = len(waiting) if before is None else next(indices, 0)
        least = _rank(waiting[index - 1].state.priority) if index else 0
        most = _rank(waiting[index].state.priority) if index < len(waiting) else len(PRIORITIES) - 1
        priority = PRIORITIES[min(max(_rank(job.state.priority), least), most)]
        job.state = replace(job.state, priority=priority)
        return self._insert(job, waiting[index] if index < len(waiting) else None)

    def place(self, job: QueuedJob, reason: str = "") -> Queued:
        """Return the place of a job as an event, with the reason for waiting there."""
        ids = list(self._jobs)
        before = next(iter(ids[ids.index(job.id) + 1 :]), None)
        return Queued(job_id=job.id, priority=job.state.priority, before=before, reason=reason)

    def _insert(self, job: QueuedJob, before: QueuedJob | None) -> Queued:
        order = [other for other in self if other is not job]
        order.insert(order.index(before) if before else len(order), job)
        self._jobs = {other.id: other for other in order}
        return self.place(job)


def _rank(priority: Priority) -> int:
    return PRIORITIES.index(priority)
