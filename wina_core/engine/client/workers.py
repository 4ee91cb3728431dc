"""The engines of a pool, each with its work, and the choice of one for a job.

This computer's are there from the start, those of another machine from the first job for it. The light engine beside
them (`LightEngine`) is one more worker, with a life of its own.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from wina_core.engine.client.client import EngineClient
from wina_core.engine.client.job_queue import Assignment, QueuedJob
from wina_core.engine.client.resources import HasRoom
from wina_core.errors import WinaError
from wina_core.jobs import EvaluateJob, Event, Job
from wina_core.jobs.job_specs import Group
from wina_core.records import Environment
from wina_core.specs import ModelSource
from wina_core.specs.machine import LOCAL

SHORT_SECONDS = 30.0
"""Age of a measurement in flight up to which an evaluation gives it up for an interactive job."""


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

    def assign(self, assignment: Assignment, job: Job) -> None:
        """Note the next work, with the job as this engine computes it."""
        assignment.loaded = self.holds(job)
        self.assignment, self.model = assignment, job.first_model


def assignments(workers: Iterable[Worker]) -> list[Assignment]:
    return [worker.assignment for worker in workers if worker.assignment is not None]


def free_batch_worker(workers: Iterable[Worker], job: Job) -> Worker | None:
    """Return the first free engine for any job, if possible one that holds an interactive job's model."""
    free = [worker for worker in workers if worker.free and not worker.light]
    if job.interactive:
        free.sort(key=lambda worker: not worker.holds(job))
    return free[0] if free else None


def held_worker(workers: Iterable[Worker], job: Job) -> Worker | None:
    """Return an engine whose paused work could make room for a job."""
    for worker in workers:
        if (not worker.light or job.interactive) and worker.assignment is not None and worker.assignment.held:
            return worker
    return None


def timed_work(workers: Iterable[Worker]) -> bool:
    return any(assignment.job.spec.timed and not assignment.held for assignment in assignments(workers))


def loading_models(workers: Iterable[Worker]) -> list[ModelSource | None]:
    """Return the models that engines may yet take memory for: of all work from which no result has come."""
    return [worker.model for worker in workers if worker.assignment is not None and not worker.assignment.loaded]


def yielding_worker(workers: Iterable[Worker], job: Job) -> Worker | None:
    """Return an engine whose evaluation or sweep could make room for an interactive job.

    Evaluations are preferred to sweeps, and engines that hold the job's model to others.
    """
    able = []
    for worker in workers:
        assignment = worker.assignment
        if assignment is None:
            continue
        if isinstance(assignment.job.spec, EvaluateJob) or assignment.job.spec.timed:
            able.append((assignment.job.spec.timed, not worker.holds(job), worker))
    # Without the worker, which has no order.
    return min(able, key=lambda candidate: candidate[:2])[2] if able else None


def give_up(assignment: Assignment, now: float) -> bool:
    """Decide whether an assignment loses its measurement in flight: an evaluation's short one, once for each result.

    A stream of interactive jobs therefore delays an evaluation, but never stops it.
    """
    job = assignment.job
    gives_up = isinstance(job.spec, EvaluateJob) and not job.gave_up and now - assignment.since < SHORT_SECONDS
    job.gave_up |= gives_up
    return gives_up


def waiting_reason(assignment: Assignment, now: float, *, at_once: bool) -> str:
    """Return why an interactive job waits for an assignment that makes room, `at_once` or with its next result."""
    job = assignment.job
    if job.spec.timed:
        return "other work would disturb the timings; waits for the end of the current point"
    if at_once:
        return "waits until the evaluation has made room"
    usual = None if job.times is None else job.times.usual(assignment.run)
    left = None if usual is None else usual - (now - assignment.since)
    about = "" if left is None or left <= 0.0 else f", about {_rounded(left)}"
    return f"waits for the end of the current measurement{about}"


def _rounded(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100.0 else f"{seconds / 60.0:.0f} min"


def busy_reason(workers: Iterable[Worker]) -> str:
    """Return why an interactive job waits for work that cannot make room; empty without any work."""
    kinds = {assignment.job.spec.kind for assignment in assignments(workers)}
    return f"memory allows no second engine; waits for the end of: {', '.join(sorted(kinds))}" if kinds else ""


OnEvent = Callable[[Event], None]
MakeClient = Callable[[OnEvent], EngineClient]
"""Maker of one engine's client from the receiver of its events."""
OpenMachine = Callable[[str], Sequence[MakeClient]]
"""Makers of a machine's engines by its name; raises WinaError for one that is not known or not reached."""


def no_machines(name: str) -> Sequence[MakeClient]:
    """Raise WinaError: this pool has the engines of this computer alone."""
    raise WinaError(f"This program computes on this computer alone, and not on {name}.")


class Workers:
    """The engines of a pool. Apart from `pid`, all is used on the pool's thread."""

    def __init__(
        self,
        make: Callable[[OnEvent, Mapping[str, str]], EngineClient],
        environments: Iterable[Mapping[str, str]],
        light: Mapping[str, str] | None,
        on_event: Callable[[Worker, Event], None],
        post: Callable[[Callable[[], None]], None],
        machines: OpenMachine,
    ) -> None:
        """`make` makes the engines of this computer; `post` runs an action on the pool's thread."""
        self._on_event = on_event
        self._post = post
        self._machines = machines
        self._all: list[Worker] = []

        def local(environment: Mapping[str, str]) -> MakeClient:
            return lambda receiver: make(receiver, environment)

        for environment in environments:
            self._add(local(environment))
        self.light = None if light is None else self._add(local(light), light=True)

    def __iter__(self) -> Iterator[Worker]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    @property
    def pid(self) -> int | None:
        return next((pid for worker in self._all if (pid := worker.client.pid) is not None), None)

    def serving(self, job: QueuedJob) -> list[Worker]:
        return [worker for worker in self._all if worker.machine in job.machines]

    def working_on(self, job: QueuedJob) -> list[tuple[Worker, Assignment]]:
        pairs = [(worker, worker.assignment) for worker in self._all]
        return [(worker, assignment) for worker, assignment in pairs if assignment and assignment.job is job]

    def missing(self, machines: Iterable[str]) -> set[str]:
        return set(machines) - {worker.machine for worker in self._all}

    def open(self, machines: Iterable[str], opened: Callable[[str], None]) -> None:
        """Add the engines of machines, then call `opened` with the error, which is empty without one."""
        # On a thread of its own: a Ray cluster takes seconds to count its engines, or does not answer.
        threading.Thread(target=self._find, args=(machines, opened), name="machines", daemon=True).start()

    def stop(self) -> None:
        """End all engines at once."""
        # On a thread for each engine: one that does not answer takes all of its grace.
        stops = [threading.Thread(target=worker.client.stop) for worker in self._all]
        for stop in stops:
            stop.start()
        for stop in stops:
            stop.join()

    def _find(self, machines: Iterable[str], opened: Callable[[str], None]) -> None:
        makers: dict[str, Sequence[MakeClient]] = {}
        error = ""
        try:
            for machine in machines:
                makers[machine] = self._machines(machine)
        except WinaError as refusal:
            error = str(refusal)
        self._post(partial(self._add_machines, makers, opened, error))

    def _add_machines(
        self, makers: Mapping[str, Sequence[MakeClient]], opened: Callable[[str], None], error: str
    ) -> None:
        new = self.missing(makers)  # two jobs may have opened the same one
        for machine, machine_makers in makers.items():
            for make in machine_makers if machine in new else ():
                self._add(make, machine=machine)
        opened(error)

    def _add(self, make: MakeClient, *, light: bool = False, machine: str = LOCAL) -> Worker:
        # By its index: the client may send events while it is made, before there is a worker.
        index = len(self._all)
        client = make(lambda event: self._post(lambda: self._on_event(self._all[index], event)))
        self._all.append(Worker(index + 1, client, light=light, machine=machine))
        return self._all[-1]


# ---- the engine beside the others for interactive jobs ---------------------------------------------------------------

TICK_SECONDS = 3.0
"""Interval at which an idle pool looks whether to start or end its light engine."""
IDLE_SECONDS = 300.0
"""Time without a job of its own after which the light engine ends, with the model that it holds."""
AHEAD_SECONDS = 3.0
"""Time that a batch job has run before the light engine starts ahead of its first job: short ones need none."""


class LightEngine:
    """The light engine of a pool: started with batch work, ended when nobody needs the model that it holds.

    While a sweep is timed it neither starts nor computes, as it would disturb the timings.
    """

    def __init__(
        self,
        worker: Worker,
        workers: Workers,
        room: HasRoom,
        post: Callable[[Callable[[], None]], None],
        hand_out: Callable[[], None],
    ) -> None:
        """`post` runs an action on the pool's thread, on which all methods are called; `hand_out` gives out jobs."""
        self._worker = worker
        self._workers = workers
        self._room = room
        self._post = post
        self._hand_out = hand_out
        self._next_try = 0.0
        """Time from which memory is looked at again, for a start ahead of its first job."""

    def engine_for(self, job: Job) -> Worker | None:
        """Return the engine if it could begin a job."""
        light = self._worker
        if not light.free or not job.interactive or timed_work(self._workers):
            return None
        return light if light.holds(job) or self._room(job, loading_models(self._workers)) else None

    def disturbs(self, job: Job) -> bool:
        return job.timed and not self._worker.free

    def tick(self, now: float) -> None:
        """Start soon after a batch job has begun; end where a sweep is timed, and to give idle memory back."""
        light = self._worker
        if not light.free:
            return
        timed = timed_work(self._workers)
        if light.client.pid is not None:
            if timed or (light.model is not None and now - light.idle_since >= IDLE_SECONDS):
                self._end()
        elif not timed and now >= self._next_try and self._has_batch_work(now):
            self._next_try = now + AHEAD_SECONDS
            if self._room(None, loading_models(self._workers)):
                light.client.start()

    def _has_batch_work(self, now: float) -> bool:
        jobs = (assignment.job for assignment in assignments(self._workers))
        started = (job.state.started for job in jobs if not job.spec.interactive)
        return any(start is not None and now - start >= AHEAD_SECONDS for start in started)

    def _end(self) -> None:
        """Stop the engine, on a thread of its own, as this takes seconds."""
        light = self._worker
        # Until it has stopped, `free` must be false: a job sent to it now would be cancelled.
        light.ending, light.model = True, None

        def ended() -> None:
            light.ending = False
            self._hand_out()  # jobs may have arrived meanwhile

        def stop() -> None:
            light.client.stop()
            self._post(ended)

        threading.Thread(target=stop, name="end of the light engine", daemon=True).start()
