"""Pool of engines: the queue of jobs, and the work of each engine.

Each engine computes one job at a time. An EvaluateJob is computed in parts, one at an engine, which together look like
one job; any other job goes to the first free engine. Jobs begin in the order of the queue, the next one as soon as the
one before has no runs left to hand out.
"""

import itertools
import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from wina_core.engine.client.client import EngineClient
from wina_core.engine.client.devices import engine_count, engine_environments
from wina_core.engine.client.engine_end import MOST_ENGINES, describe_failure, describe_retry
from wina_core.engine.client.job_queue import JobQueue, usual_priority
from wina_core.engine.protocol import (
    Assigned,
    Attached,
    Cancel,
    Detached,
    Done,
    EvaluateJob,
    Event,
    Failed,
    Held,
    Log,
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
    RunFinished,
    RunStarted,
    Shutdown,
    Started,
    Submit,
)
from wina_core.engine.protocol.run_sharing import Group, Part, SharedJob, Shares, group_of

OnEvent = Callable[[Event], None]


@dataclass(eq=False)
class _Worker:
    """An engine and its work."""

    place: int
    """Number of the engine, from 1."""
    client: EngineClient
    hardware: str = ""
    part: Part | None = None
    group: Group | None = None
    """The rotated model that it holds: that of the runs that it was given last."""


class EnginePool:
    """Queue of jobs, computed in one engine for each of some environments.

    One thread, the pool's own, handles requests and the engines' events in the order in which they come. It also calls
    `on_event`, so that this is never called twice at a time. Every submitted job ends with exactly one Done or Failed.

    An engine that dies fails the job that it computes. An EvaluateJob continues in the next free engine, or in a new
    one, with the measurements that are missing; only a run that has ended MOST_ENGINES engines fails. A paused job
    holds all engines that work on it, and no later job begins; a waiting job that is paused is passed over.
    """

    def __init__(
        self,
        on_event: OnEvent,
        environments: Sequence[Mapping[str, str]] = ({},),
        client: Callable[[OnEvent, Mapping[str, str]], EngineClient] | None = None,
    ) -> None:
        """`client` makes the client of one engine from the receiver of its events and its environment variables."""
        make = client or (lambda to, environment: EngineClient(to, environment=environment))
        self._on_event = on_event
        self._inbox: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._posting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._jobs = JobQueue()
        self._numbers = itertools.count(1)
        self._workers = [
            _Worker(place + 1, make(partial(self._from_engine, place), environment))
            for place, environment in enumerate(environments)
        ]

    @property
    def pid(self) -> int | None:
        """Process id of the first engine that runs; None while there is none."""
        return next((pid for worker in self._workers if (pid := worker.client.pid) is not None), None)

    def start(self) -> None:
        """Start the first engine before the first job; the others start with their first work."""
        self._post(self._workers[0].client.start)

    def send(self, request: Request) -> None:
        """Submit, move, cancel, pause or resume a job; returns at once, except for Shutdown, which is `stop`."""
        if isinstance(request, Shutdown):
            self.stop()
        else:
            self._post(partial(self._take, request))

    def stop(self) -> None:
        """End all engines at once, each as `EngineClient.stop` does; their jobs end as cancelled."""
        thread = self._thread
        if thread is None:
            return
        self._post(self._shut_down)
        if thread is not threading.current_thread():
            thread.join()

    # ---- the pool's thread ---------------------------------------------------------------------------------------

    def _post(self, action: Callable[[], None]) -> None:
        with self._posting:
            self._inbox.put(action)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="engine pool", daemon=True)
                self._thread.start()

    def _from_engine(self, place: int, event: Event) -> None:
        self._post(lambda: self._on_message(self._workers[place], event))

    def _work(self) -> None:
        """Run what is posted until the engines have been stopped."""
        while True:
            action = self._inbox.get()
            try:
                action()
            except Exception:  # one defect must not cost the jobs that follow
                logging.getLogger(__name__).exception("The engine pool failed to handle a request or an event")
            with self._posting:
                if self._stopping and self._inbox.empty():
                    self._thread, self._stopping = None, False
                    return

    def _report(self, event: Event) -> None:
        """Hand an event to the receiver, whose defects must cost no job."""
        try:
            self._on_event(event)
        except Exception:
            logging.getLogger(__name__).exception("An event could not be handled: %r", event)

    def _shut_down(self) -> None:
        for job in self._jobs:
            self._cancel(job, notify=False)
        stops = [threading.Thread(target=worker.client.stop) for worker in self._workers]
        for stop in stops:
            stop.start()
        for stop in stops:
            stop.join()
        self._stopping = True  # once the engines' last events have been handled

    # ---- requests ------------------------------------------------------------------------------------------------

    def _take(self, request: Submit | Move | Prioritize | Cancel | Pause | Resume) -> None:
        job = self._jobs.get(request.job_id)
        if isinstance(request, Submit):
            self._submit(request)
        elif job is not None:
            match request:
                case Move() if not job.begun:
                    self._report(self._jobs.move(job, request.before))
                case Prioritize() if not job.begun:
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
        shares = None
        if isinstance(job, EvaluateJob) and job.runs:
            shares = Shares(job.runs, len(self._workers))
        self._report(self._jobs.add(SharedJob(job_id, job, submit.priority or usual_priority(job), shares)))
        self._hand_out()

    def _cancel(self, job: SharedJob, *, notify: bool = True) -> None:
        """Drop the rest of a job and, where `notify`, ask its engines to stop."""
        if job.cancelled:
            return
        job.cut |= job.waiting
        job.cancelled = True
        for worker, part in self._working_on(job) if notify else ():
            worker.client.send(Cancel(job_id=part.id))
        self._end_if_over(job)

    def _pause(self, job: SharedJob) -> None:
        if not job.paused:
            job.paused = True
            for worker, part in self._working_on(job):
                worker.client.send(Pause(job_id=part.id))
            self._report_held(job)

    def _resume(self, job: SharedJob) -> None:
        if not job.paused:
            return
        job.paused = False
        for worker, part in self._working_on(job):
            worker.client.send(Resume(job_id=part.id))
            part.held = False
        if job.held:
            job.held = False
            job.held_seconds += time.monotonic() - job.held_since
        self._report(Held(job_id=job.id, held=False))
        self._hand_out()

    def _working_on(self, job: SharedJob) -> list[tuple[_Worker, Part]]:
        return [
            (worker, worker.part) for worker in self._workers if worker.part is not None and worker.part.whole is job
        ]

    def _report_held(self, job: SharedJob) -> None:
        """Report a job as held once all engines that work on it hold."""
        if job.paused and not job.held and all(part.held for part in job.parts):
            job.held, job.held_since = True, time.monotonic()
            self._report(Held(job_id=job.id, held=True))

    # ---- handing out ---------------------------------------------------------------------------------------------

    def _hand_out(self) -> None:
        """Give every free engine its next work, while there is any."""
        for worker in self._workers:
            if worker.part is None and (job := self._next()) is not None:
                self._begin(job, worker)

    def _next(self) -> SharedJob | None:
        """Return the first job of which an engine could begin something."""
        in_the_way = False
        for job in self._jobs:
            if job.paused:
                in_the_way |= job.begun
            elif job.waiting and (job.begun or not in_the_way):
                return job
        return None

    def _begin(self, job: SharedJob, worker: _Worker) -> None:
        todo, runs = job.job, tuple[PendingRun, ...]()
        if job.shares is not None:
            runs = job.shares.take(worker.group)
            todo = job.job.model_copy(update={"runs": runs})
            worker.group = group_of(runs[0])
        worker.part = Part(f"{job.id}/{next(self._numbers)}", job, runs)
        job.parts.append(worker.part)
        job.begun = True
        self._report_assigned(worker)
        worker.client.send(Submit(job_id=worker.part.id, job=todo))

    def _report_assigned(self, worker: _Worker) -> None:
        if len(self._workers) > 1:
            job = worker.part.whole.id if worker.part else None
            self._report(Assigned(engine=worker.place, hardware=worker.hardware, job=job))

    # ---- events --------------------------------------------------------------------------------------------------

    def _on_message(self, worker: _Worker, event: Event) -> None:
        part = worker.part
        if isinstance(event, Ready):
            worker.hardware = event.environment.hardware
            self._report(event)
            self._report_assigned(worker)
            return
        if isinstance(event, Assigned | Queued | Attached | Detached):  # the pool's own, and the job host's
            return
        if part is None or event.job_id != part.id:
            if isinstance(event, Log):
                self._report(event.model_copy(update={"job_id": None}))
            return
        job = part.whole
        match event:
            case Started():
                if job.started:
                    return
                job.started = True
            case Held():
                part.held = event.held and job.paused
                self._report_held(job)
                return
            case Progress() if job.shares is not None:
                part.progress = event.done
                self._progress(job, event.metric)
                return
            case Done() | Failed():
                self._end_part(worker, part, event)
                return
            case RunStarted():
                part.begin(event.run)
                job.any_run = True
            case Partial():
                part.arrived.add(event.unit.unit)
            case RunFinished() | RunFailed():
                part.end(event.run)
        self._report(event.model_copy(update={"job_id": job.id}))

    def _progress(self, job: SharedJob, metric: str) -> None:
        assert isinstance(job.job, EvaluateJob)  # no other is shared
        done = job.units + sum(part.progress for part in job.parts)
        total = sum(len(run.units) for run in job.job.runs)
        now = time.monotonic()
        eta = job.eta.update(now - job.held_seconds, done, total)
        if job.throttle.passes(now, done, total):
            unit = "measurements"
            self._report(Progress(job_id=job.id, done=done, total=total, unit=unit, eta_seconds=eta, metric=metric))

    def _end_part(self, worker: _Worker, part: Part, event: Done | Failed) -> None:
        job = part.whole
        worker.part = None
        worker.group = worker.group if isinstance(event, Done) else None  # the engine may be a new one
        job.parts.remove(part)
        if isinstance(event, Done):
            job.cut |= event.cancelled
        elif job.shares is None:
            job.failure = event
        else:
            self._reap(part, event, job.shares)
        job.units += part.units
        self._report_held(job)
        self._end_if_over(job)
        self._hand_out()
        if worker.part is None:
            self._report_assigned(worker)

    def _reap(self, part: Part, failed: Failed, shares: Shares) -> None:
        """Hand what a dead engine left to the next free engines; fail the run that has ended too many of them."""
        job = part.whole
        if part.run is None and not part.ended:  # no other engine would reach a run either
            job.failure = failed
            job.unreached += [pending.spec.content_hash() for pending in part.runs]
            part.ended |= set(job.unreached)
            return
        if part.run is not None and not job.cancelled:
            self._count_end(part, part.run, failed)
        job.cut |= job.cancelled and bool(part.rest)
        shares.put_back(part.rest)

    def _count_end(self, part: Part, run: str, failed: Failed) -> None:
        """Count the end of an engine against the run that it computed."""
        job = part.whole
        ended = job.engines_ended[run] = job.engines_ended.get(run, 0) + 1
        if not part.current:  # it ended between the last measurement and the word that all have arrived
            self._report(RunFinished(job_id=job.id, run=run))
            part.end(run)
        elif ended == MOST_ENGINES:
            self._report(RunFailed(job_id=job.id, run=run, error=describe_failure(failed), detail=failed.detail))
            part.end(run)
        else:
            self._report(Log(level="warning", text=describe_retry(failed, ended), job_id=job.id))

    def _end_if_over(self, job: SharedJob) -> None:
        if job.parts or job.waiting:
            return
        self._jobs.remove(job)
        failure = job.failure
        if failure is not None and not (job.shares is not None and job.any_run):
            self._report(failure.model_copy(update={"job_id": job.id}))
            return
        if failure is not None:
            for run in job.unreached:
                self._report(RunFailed(job_id=job.id, run=run, error=failure.error, detail=failure.detail))
        self._report(Done(job_id=job.id, cancelled=job.cut))


def open_engines(on_event: OnEvent, engines: int = 0) -> EnginePool:
    """Return a pool of engines on this machine; 0 makes one for each visible CUDA device, at least one."""
    return EnginePool(on_event, engine_environments(engines or engine_count()))
