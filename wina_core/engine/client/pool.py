"""Pool of engines: the way of a job from its Submit to its Done or Failed, over any number of engines.

A request goes through `send` to the pool's thread. `_submit` puts the job into the queue (`job_queue`), `_hand_out`
gives every free engine (a `Worker`) its next work, and `_begin` sends that to the engine's `client`. The events of the
engine come back through `_on_message`, with the job's id instead of the assignment's, and go to the pool's `on_event`,
where the program stores them. `_end_assignment` takes back what an engine did not compute, and hands out again.

Each engine computes one job at a time. The runs of an EvaluateJob are shared among the engines, and look like one job;
any other job goes to the first free engine. Jobs begin in the order of the queue, the next one as soon as the one
before has no runs left to hand out.

A light engine beside the others computes what a user waits for while they are busy. It starts with the first batch job,
so that its libraries are loaded by the time it is needed, and ends when nobody has needed its model for a while.

Where memory does not allow it, an evaluation makes room with its next result and continues after. While a sweep is
timed, no light engine computes or starts: a sweep makes room after its current point, and waits while the light engine
computes.

Engines on other machines are opened at the first job for their machine. They and this computer's, as the job names
them, share its runs alike.
"""

import itertools
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from wina_core.engine.client.client import EngineClient
from wina_core.engine.client.end_texts import MOST_ENGINES
from wina_core.engine.client.job_queue import (
    Assignment,
    JobQueue,
    MakeClient,
    OnEvent,
    OpenMachine,
    QueuedJob,
    UnassignedRuns,
    Worker,
    assignments,
    last_events,
    no_machines,
    reap,
    yielding_work,
)
from wina_core.engine.client.resources import (
    HasRoom,
    engine_count,
    engine_environments,
    has_room,
    light_environment,
    with_lower_priority,
)
from wina_core.engine.client.rest import without_points
from wina_core.errors import WinaError
from wina_core.jobs import (
    Assigned,
    Cancel,
    CompletionFinished,
    Done,
    EvaluateJob,
    Event,
    Failed,
    Held,
    Job,
    Log,
    Measured,
    Move,
    Partial,
    Pause,
    PendingRun,
    Prioritize,
    Progress,
    Queued,
    Ready,
    Request,
    Resume,
    RunFailed,
    RunStarted,
    Shutdown,
    Started,
    Submit,
)
from wina_core.jobs.job_specs import group_of
from wina_core.jobs.job_state import JobState
from wina_core.jobs.progress import MeasurementTimes
from wina_core.specs import ModelSource
from wina_core.specs.machine import LOCAL

TICK_SECONDS = 3.0
"""Interval at which an idle pool looks whether to start or end its light engine."""
IDLE_SECONDS = 300.0
"""Time without a job of its own after which the light engine ends, with the model that it holds."""


class EnginePool:
    """Queue of jobs, computed in one engine for each of some environments.

    One thread, the pool's own, handles requests and the engines' events in the order in which they come. It also calls
    `on_event`, so that this is never called twice at a time. Every submitted job ends with exactly one Done or Failed.

    An engine that dies fails the job that it computes, and gives back one that it had not begun. An EvaluateJob
    continues in the next free engine, or in a new one, with the measurements that are missing; only a run that has
    ended MOST_ENGINES engines fails. A paused job holds its engines until a later job needs one: then it gives up the
    measurement in flight there, or for other kinds of jobs the stage, and waits in the queue until it is resumed. No
    measurement that has arrived is repeated.
    """

    def __init__(
        self,
        on_event: OnEvent,
        environments: Sequence[Mapping[str, str]] = ({},),
        client: Callable[[OnEvent, Mapping[str, str]], EngineClient] | None = None,
        light: Mapping[str, str] | None = None,
        room: HasRoom = has_room,
        machines: OpenMachine = no_machines,
    ) -> None:
        """`client` makes the client of one engine from the receiver of its events and its environment variables.

        `light` is the environment of the light engine, None for a pool without one; `room` says whether memory allows
        it for a job beside models that are being loaded. `machines` opens other machines, on a thread of its own.
        """
        self._on_event = on_event
        self._room = room
        self._open_machine = machines
        self._actions: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        """What runs on the pool's thread, one after the other."""
        self._closing = False
        self._jobs = JobQueue()
        self._numbers = itertools.count(1)
        self._workers: list[Worker] = []

        def maker(environment: Mapping[str, str]) -> MakeClient:
            if client is None:
                return lambda receiver: EngineClient(receiver, environment=environment)
            return lambda receiver: client(receiver, environment)

        for environment in environments:
            self._add(maker(environment))
        self._light = None if light is None else self._add(maker(light), light=True)
        self._next_try = 0.0
        """Time from which memory is looked at again, for a start of the light engine ahead of its first job."""
        self._thread = threading.Thread(target=self._work, name="engine pool", daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int | None:
        return next((pid for worker in self._workers if (pid := worker.client.pid) is not None), None)

    def start(self) -> None:
        """Start the first engine before the first job; the others start with their first work."""
        self._post(self._workers[0].client.start)

    def send(self, request: Request) -> None:
        """Submit, move, cancel, pause or resume a job; returns at once, except for Shutdown, which is `stop`."""
        if isinstance(request, Shutdown):
            self.stop()
        else:
            self._post(partial(self._handle, request))

    def stop(self) -> None:
        """End all engines at once, each as `EngineClient.stop` does; their jobs end as cancelled."""
        self._post(self._shut_down)
        if self._thread is not threading.current_thread():
            self._thread.join()

    # ---- the pool's thread ---------------------------------------------------------------------------------------

    def _post(self, action: Callable[[], None]) -> None:
        self._actions.put(action)

    def _work(self) -> None:
        while not (self._closing and self._actions.empty()):
            try:
                action = self._actions.get(timeout=TICK_SECONDS)
            except queue.Empty:
                action = self._tend_light
            for step in (action, self._tend_light):
                try:
                    step()
                except Exception:  # one defect must not cost the jobs that follow
                    logging.getLogger(__name__).exception("The engine pool failed to handle a request or an event")

    def _report(self, event: Event) -> None:
        """Follow an event, and hand it to the receiver, whose defects must cost no job."""
        job = self._jobs.get(getattr(event, "job_id", None) or "")
        if job is not None:
            job.state = job.state.apply(event, time.monotonic())
        try:
            self._on_event(event)
        except Exception:
            logging.getLogger(__name__).exception("An event could not be handled: %r", event)

    def _shut_down(self) -> None:
        self._closing = True
        self._light = None  # it must not start any more
        for job in self._jobs:
            self._cancel(job, notify=False)
        # On a thread for each engine: one that does not answer takes all of its grace.
        stops = [threading.Thread(target=worker.client.stop) for worker in self._workers]
        for stop in stops:
            stop.start()
        for stop in stops:
            stop.join()

    # ---- engines -------------------------------------------------------------------------------------------------

    def _add(self, make: MakeClient, *, light: bool = False, machine: str = LOCAL) -> Worker:
        # By its index: the client may send events while it is made, before there is a worker.
        index = len(self._workers)
        client = make(lambda event: self._post(lambda: self._on_message(self._workers[index], event)))
        self._workers.append(Worker(index + 1, client, light=light, machine=machine))
        return self._workers[-1]

    def _serving(self, job: QueuedJob) -> list[Worker]:
        return [worker for worker in self._workers if worker.machine in job.machines]

    def _working_on(self, job: QueuedJob) -> list[tuple[Worker, Assignment]]:
        pairs = [(worker, worker.assignment) for worker in self._workers]
        return [(worker, assignment) for worker, assignment in pairs if assignment and assignment.job is job]

    def _connect(self, job: QueuedJob, names: Iterable[str]) -> None:
        """Open machines for a job, on a thread: a Ray cluster takes seconds to count its engines, or never answers."""

        def connect() -> None:
            makers: dict[str, Sequence[MakeClient]] = {}
            error = ""
            try:
                for name in names:
                    makers[name] = self._open_machine(name)
            except WinaError as refusal:
                error = str(refusal)
            self._post(partial(self._on_opened, job, makers, error))

        threading.Thread(target=connect, name="machines", daemon=True).start()

    def _on_opened(self, job: QueuedJob, makers: Mapping[str, Sequence[MakeClient]], error: str) -> None:
        """Begin a job whose machines are open; fail it with an `error`."""
        new = makers.keys() - {worker.machine for worker in self._workers}  # two jobs may have opened the same one
        for machine in sorted(new):
            for make in makers[machine]:
                self._add(make, machine=machine)
        job.opening = False
        # The job may have been cancelled, and its id used again, while the machines were opened.
        if error and self._jobs.get(job.id) is job:
            self._jobs.remove(job)
            self._report(Failed(job_id=job.id, error=error))
        self._hand_out()

    # ---- the light engine ----------------------------------------------------------------------------------------

    @property
    def _is_timing(self) -> bool:
        """True while a sweep is timed, which other work would disturb."""
        return any(assignment.job.spec.timed and not assignment.held for assignment in assignments(self._workers))

    @property
    def _loading(self) -> list[ModelSource | None]:
        """Models that engines may yet take memory for: of all work from which no result has come."""
        return [worker.model for worker in self._workers if worker.assignment and not worker.assignment.loaded]

    def _light_engine_for(self, job: Job) -> Worker | None:
        """Return the light engine if it could begin a job."""
        light = self._light
        if light is None or not light.free or not job.interactive or self._is_timing:
            return None
        return light if light.holds(job) or self._room(job, self._loading) else None

    def _tend_light(self) -> None:
        """Start the light engine beside a batch job; end it where a sweep is timed, and to give idle memory back."""
        light, now = self._light, time.monotonic()
        if light is None or not light.free:
            return
        if light.client.pid is not None:
            if self._is_timing or (light.model is not None and now - light.idle_since >= IDLE_SECONDS):
                self._end_light(light)
            return
        has_batch_work = any(not assignment.job.spec.interactive for assignment in assignments(self._workers))
        if has_batch_work and not self._is_timing and now >= self._next_try:
            self._next_try = now + TICK_SECONDS
            if self._room(None, self._loading):
                light.client.start()

    def _end_light(self, light: Worker) -> None:
        """Stop the light engine, on a thread of its own, as this takes seconds."""
        # Until it has stopped, `free` must be false: a job sent to it now would be cancelled.
        light.ending, light.model = True, None

        def ended() -> None:
            light.ending = False
            self._hand_out()  # jobs may have arrived meanwhile

        def stop() -> None:
            light.client.stop()
            self._post(ended)

        threading.Thread(target=stop, name="end of the light engine", daemon=True).start()

    # ---- requests ------------------------------------------------------------------------------------------------

    def _handle(self, request: Submit | Move | Prioritize | Cancel | Pause | Resume) -> None:
        job = self._jobs.get(request.job_id)
        if isinstance(request, Submit):
            self._submit(request)
        elif job is not None:
            match request:
                case Move() if not job.has_begun:
                    self._report(self._jobs.move(job, request.before))
                case Prioritize() if not job.has_begun:
                    self._report(self._jobs.prioritize(job, request.priority))
                case Cancel():
                    self._cancel(job)
                case Pause():
                    self._pause(job)
                case Resume():
                    self._resume(job)

    def _submit(self, submit: Submit) -> None:
        job, job_id = submit.job, submit.job_id
        if self._jobs.get(job_id) is not None:
            self._report(Log(level="error", text="A job with this id is queued already.", job_id=job_id))
            return
        machines = submit.machines or (LOCAL,)
        unassigned = times = None
        if isinstance(job, EvaluateJob) and job.runs:
            unassigned, times = UnassignedRuns(job.runs), MeasurementTimes(job)
        state = JobState(priority=submit.priority or ("first" if job.interactive else "normal"))
        queued = QueuedJob(job_id, job, unassigned, times, machines, state=state)
        self._report(self._jobs.add(queued))
        if missing := set(machines) - {worker.machine for worker in self._workers}:
            queued.opening = True
            self._explain(queued, f"connects to {', '.join(sorted(missing))}")
            self._connect(queued, missing)
        else:
            self._hand_out()

    def _cancel(self, job: QueuedJob, *, notify: bool = True) -> None:
        """Drop the rest of a job and, where `notify`, ask its engines to stop."""
        if job.state.is_cancelled:
            return
        job.cut |= job.waiting or job.opening  # before its state changes: a cancelled job waits for nothing
        job.state = job.state.cancelling()
        # Shutting down ends the engines anyway, so that they need no request then.
        for worker, assignment in self._working_on(job) if notify else ():
            worker.client.send(Cancel(job_id=assignment.id))
        self._end_if_over(job)  # one that no engine has; any other ends with the last of its assignments

    def _pause(self, job: QueuedJob) -> None:
        if not job.state.is_paused and not job.state.is_cancelled:
            job.state = job.state.pausing()
            for worker, assignment in self._working_on(job):
                worker.client.send(Pause(job_id=assignment.id))
            self._report_held(job)

    def _resume(self, job: QueuedJob) -> None:
        if not job.state.is_paused:
            return
        for worker, assignment in self._working_on(job):
            worker.client.send(Resume(job_id=assignment.id))
            assignment.held = False
        self._report(Held(job_id=job.id, held=False))
        self._hand_out()

    def _report_held(self, job: QueuedJob) -> None:
        if job.state.phase == "pausing" and all(assignment.held for assignment in job.assignments):
            self._report(Held(job_id=job.id, held=True))

    # ---- handing out ---------------------------------------------------------------------------------------------

    def _hand_out(self) -> None:
        """Give every free engine its next work, while there is any, and make room for what waits for an engine."""
        while (start := self._next()) is not None:
            self._begin(*start)
        for job in self._jobs:
            if job.waiting and not job.state.is_paused:
                self._make_room(job)

    def _next(self) -> tuple[QueuedJob, Worker] | None:
        """Return the first job of which an engine could begin something, and that engine."""
        # Interactive jobs first: one that gave up its engine may be ahead in the queue, and would take it back.
        for job in sorted(self._jobs, key=lambda job: not job.spec.interactive):
            if not job.waiting or job.state.is_paused:
                continue
            # If possible one that holds an interactive job's model.
            free = [worker for worker in self._serving(job) if worker.free and not worker.light]
            free.sort(key=lambda worker: job.spec.interactive and not worker.holds(job.spec))
            worker = free[0] if free else None
            light = self._light if LOCAL in job.machines else None
            if worker is not None and job.spec.timed and light is not None and not light.free:
                self._explain(job, "other work would disturb the timings; waits for the light engine")
                return None
            if worker is None and light is not None:
                worker = self._light_engine_for(job.spec)
            if worker is not None:
                return job, worker
        return None

    def _make_room(self, job: QueuedJob) -> None:
        """Let a paused job, or for an interactive one other work, give up an engine; report why the job waits."""
        serving = self._serving(job)
        work = assignments(serving)
        if any(assignment.released for assignment in work):  # an engine is given up already
            return
        for worker in serving:
            if worker.assignment is not None and worker.assignment.held and (not worker.light or job.spec.interactive):
                worker.assignment.released = True
                worker.client.send(Cancel(job_id=worker.assignment.id))
                return
        # An interactive job that is computed ends soon.
        if not job.spec.interactive or any(assignment.job.spec.interactive for assignment in work):
            return
        assignment = yielding_work(serving, job.spec)
        if assignment is None:
            kinds = ", ".join(sorted({assignment.job.spec.kind for assignment in work}))
            self._explain(job, f"memory allows no second engine; waits for the end of: {kinds}" if kinds else "")
            return
        assignment.released = True  # it is cancelled with its next result
        if assignment.job.spec.timed:
            self._explain(job, "other work would disturb the timings; waits for the end of the current point")
        else:
            self._explain(job, "waits for the end of the current measurement")

    def _explain(self, job: QueuedJob, reason: str) -> None:
        if reason != job.state.waits:
            self._report(self._jobs.place(job, reason))

    def _begin(self, job: QueuedJob, worker: Worker) -> None:
        todo, runs = job.spec, tuple[PendingRun, ...]()
        if job.unassigned is not None:
            engines = sum(not engine.light for engine in self._serving(job))
            runs = job.unassigned.take(worker.group, engines)
            # An engine knows its own runs alone, so that the pool estimates the time left over all engines.
            todo = job.spec.model_copy(update={"runs": runs, "stored": {}})
            worker.group = group_of(runs[0])
        # An id of its own for each assignment: late events of an earlier one on the same engine are not taken for it.
        assignment = Assignment(f"{job.id}/{next(self._numbers)}", job, runs)
        assignment.loaded = worker.holds(todo)
        worker.assignment, worker.model = assignment, todo.first_model
        job.assignments.append(assignment)
        job.has_begun = True
        if job.state.waits:
            self._report(self._jobs.place(job))
        self._report_assigned(worker)
        worker.client.send(Submit(job_id=assignment.id, job=todo))
        worker.pid = worker.client.pid

    def _report_assigned(self, worker: Worker) -> None:
        if len(self._workers) > 1:
            job_id = worker.assignment.job.id if worker.assignment else None
            event = Assigned(
                engine=worker.number, light=worker.light, machine=worker.machine, hardware=worker.hardware, job=job_id
            )
            self._report(event)

    # ---- events --------------------------------------------------------------------------------------------------

    def _on_message(self, worker: Worker, event: Event) -> None:
        assignment = worker.assignment
        if isinstance(event, Ready):
            worker.hardware, worker.environment = event.environment.hardware, event.environment
            # The store takes its environment for this computer's results.
            if not worker.light and worker.machine == LOCAL:
                self._report(event)
            self._report_assigned(worker)
            self._hand_out()
            return
        if isinstance(event, Assigned | Queued):  # the pool's own
            return
        if assignment is None or event.job_id != assignment.id:
            if isinstance(event, Log):
                self._report(event.model_copy(update={"job_id": None}))
                self._hand_out()  # the engine may have become available
            return
        job = assignment.job
        match event:
            case Started():
                if job.state.started is not None:
                    return
            case Held():
                assignment.held = event.held and job.state.is_paused
                if assignment.held and assignment.released:  # its measurement would end only after the pause
                    worker.client.send(Cancel(job_id=assignment.id))
                self._report_held(job)
                self._hand_out()
                return
            case Progress() if job.unassigned is not None:
                assignment.progress = event.done
                if (progress := job.progress(time.monotonic(), event)) is not None:
                    self._report(progress)
                return
            case Done() | Failed():
                self._end_assignment(worker, assignment, event)
                return
        assignment.note(event)
        changes: dict[str, object] = {"job_id": job.id}
        if isinstance(event, RunStarted | CompletionFinished) and worker.machine != LOCAL:
            # The store takes the last Ready's environment for a result without one, and Ready is reported of this
            # computer alone.
            changes["environment"] = worker.environment
        self._report(event.model_copy(update=changes))
        if assignment.released and isinstance(event, Partial | Measured | RunFailed):
            worker.client.send(Cancel(job_id=assignment.id))

    def _end_assignment(self, worker: Worker, assignment: Assignment, event: Done | Failed) -> None:
        job = assignment.job
        worker.assignment = None
        worker.idle_since = time.monotonic()
        is_lost = isinstance(event, Failed) and event.not_begun
        worker.lost = worker.lost + 1 if is_lost else 0
        # A Failed may come from the end of the process: its successor holds no model.
        if not isinstance(event, Done):
            worker.group = worker.model = None
        job.assignments.remove(assignment)
        if isinstance(event, Done) and assignment.released and not job.state.is_cancelled:
            self._take_back(job, assignment, finished=not event.cancelled)
        elif is_lost and worker.lost < MOST_ENGINES and not job.state.is_cancelled:
            self._take_back(job, assignment, finished=False)
        elif isinstance(event, Failed) and (other_machines := _other_machines(worker, assignment, event)):
            job.machines = other_machines
            job.take_back(assignment, finished=False)
            text = f"{event.error} The job continues on {', '.join(other_machines)} alone."
            self._report(Log(level="warning", text=text, job_id=job.id))
        elif isinstance(event, Done):
            job.cut |= event.cancelled or bool(assignment.rest)
        elif job.unassigned is None:
            job.failure = event
        else:
            for ended in reap(assignment, event, job.unassigned):
                if job.times is not None:
                    job.times.take(ended)
                self._report(ended)
        # Only now: `reap` may end the run that the engine computed.
        job.units += assignment.units
        self._report_held(job)
        self._end_if_over(job)
        self._hand_out()
        if worker.assignment is None:
            self._report_assigned(worker)

    def _take_back(self, job: QueuedJob, assignment: Assignment, *, finished: bool) -> None:
        """Queue the rest of an assignment that was to end early; `finished` if it had reached its end by then."""
        for event in assignment.end_arrived():
            self._report(event)
        job.take_back(assignment, finished=finished)
        job.spec = without_points(job.spec, job.state.points)
        if job.state.is_paused and job.waiting and not job.has_begun:
            self._report(Held(job_id=job.id, held=True, released=True))

    def _end_if_over(self, job: QueuedJob) -> None:
        if job.assignments or job.waiting:
            return
        self._jobs.remove(job)
        for event in last_events(job):
            self._report(event)


def _other_machines(worker: Worker, assignment: Assignment, failed: Failed) -> tuple[str, ...]:
    """Return the job's other machines where the engine of this one ended before it reached anything; else none."""
    job = assignment.job
    reached = assignment.run is not None or bool(assignment.ended) or worker.environment is not None
    if job.state.is_cancelled or not failed.engine_end or reached:
        return ()
    return tuple(machine for machine in job.machines if machine != worker.machine)


def open_engines(
    on_event: OnEvent, engines: int = 0, *, light: bool = False, machines: OpenMachine = no_machines
) -> EnginePool:
    """Return a pool of engines on this machine; 0 makes one for each visible CUDA device, at least one.

    With `light`, another one beside them computes what a user waits for. `machines` opens other machines.
    """
    environments = engine_environments(engines or engine_count())
    if not light:
        return EnginePool(on_event, environments, machines=machines)
    environments = tuple(map(with_lower_priority, environments))
    return EnginePool(on_event, environments, light=light_environment(), machines=machines)
