"""Several engines behind the interface of one. Light: no Qt, no torch.

An EvaluateJob is done in parts, one at an engine, which together look like one job; any other job goes to the first
engine that is free. Jobs begin in their order, and the next one does once the one before has no runs left to hand out.
"""

import itertools
import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from wina_core.engine.client.client import EngineClient
from wina_core.engine.client.devices import engine_count, engine_environments
from wina_core.engine.client.run_sharing import Group, Part, SharedJob, Shares, group_of
from wina_core.engine.protocol import (
    Accepted,
    Assigned,
    Cancel,
    Done,
    EvaluateJob,
    Event,
    Failed,
    Held,
    Log,
    Move,
    Pause,
    PendingRun,
    Progress,
    Ready,
    Request,
    Resume,
    RunFailed,
    RunFinished,
    RunStarted,
    Shutdown,
    Submit,
)
from wina_core.engine.protocol.queue_order import put_ahead

OnEvent = Callable[[Event], None]


class Client(Protocol):
    """What drives one engine, or several as if they were one."""

    @property
    def pid(self) -> int | None:
        """Of the engine process, of the first one where there are several; None while there is none."""

    def start(self) -> None:
        """Start the engine now rather than with the first job."""

    def send(self, request: Request) -> None:
        """Submit, move, cancel, pause or resume a job."""

    def stop(self) -> None:
        """End the engine and its jobs; returns once it is gone."""


def open_engines(on_event: OnEvent, engines: int = 0) -> Client:
    """A client of so many engines on this machine, 0 standing for one for each CUDA device that is visible."""
    count = engines or engine_count()
    return EngineClient(on_event) if count == 1 else EnginePool(on_event, engine_environments(count))


@dataclass
class _Worker:
    """An engine and what it does."""

    place: int
    """From 1."""
    client: Client
    hardware: str = ""
    part: Part | None = None
    group: Group | None = None
    """Of the runs that it did last, whose model it holds."""


class EnginePool:
    """Has the interface of `EngineClient`, over one engine for each of some environments.

    One thread, the pool's own, sees to everything in the order in which it happens: requests, and the engines' events.
    It also calls `on_event`, so that this is never called twice at a time.

    A run whose engine dies fails, and the runs behind it go to whichever engine is free. A job that is paused holds
    all engines that work on it, and lets no later one begin.
    """

    def __init__(
        self,
        on_event: OnEvent,
        environments: Sequence[Mapping[str, str]],
        client: Callable[[OnEvent, Mapping[str, str]], Client] | None = None,
    ) -> None:
        """`client` makes the client of one engine, given where its events go and its environment variables."""
        make = client or (lambda to, environment: EngineClient(to, environment=environment))
        self._on_event = on_event
        self._inbox: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._posting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._jobs: dict[str, SharedJob] = {}
        self._numbers = itertools.count(1)
        self._workers = [
            _Worker(place + 1, make(partial(self._from_engine, place), environment))
            for place, environment in enumerate(environments)
        ]

    @property
    def pid(self) -> int | None:
        """Process id of the first engine that there is."""
        return next((pid for worker in self._workers if (pid := worker.client.pid) is not None), None)

    def start(self) -> None:
        """Start the first engine; the others start with their first work."""
        self._post(self._workers[0].client.start)

    def send(self, request: Request) -> None:
        """As `EngineClient.send`; returns at once, except for Shutdown, which is `stop`."""
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
        self._post(lambda: self._hear(self._workers[place], event))

    def _work(self) -> None:
        """See to what is posted until the engines have been stopped."""
        while True:
            action = self._inbox.get()
            try:
                action()
            except Exception:  # one defect must not cost the jobs that follow
                logging.getLogger(__name__).exception("The engines' pool could not do something")
            with self._posting:
                if self._stopping and self._inbox.empty():
                    self._thread, self._stopping = None, False
                    return

    def _shut_down(self) -> None:
        for job in list(self._jobs.values()):
            self._cancel(job, tell=False)
        stops = [threading.Thread(target=worker.client.stop) for worker in self._workers]
        for stop in stops:
            stop.start()
        for stop in stops:
            stop.join()
        self._stopping = True  # once what the engines said at their end has been seen to

    # ---- requests ------------------------------------------------------------------------------------------------

    def _take(self, request: Submit | Move | Cancel | Pause | Resume) -> None:
        if isinstance(request, Submit):
            self._submit(request)
        elif (job := self._jobs.get(request.job_id)) is not None:
            match request:
                case Move():
                    put_ahead(self._jobs, job.id, job, request.ahead_of)
                case Cancel():
                    self._cancel(job)
                case Pause():
                    self._pause(job)
                case Resume():
                    self._resume(job)

    def _submit(self, submit: Submit) -> None:
        job, job_id = submit.job, submit.job_id
        if job_id in self._jobs:
            self._on_event(Log(level="error", text="A job with this id is there already.", job_id=job_id))
            return
        shares = None
        if isinstance(job, EvaluateJob) and len(job.runs) > 1:
            shares = Shares(job.runs, len(self._workers))
        put_ahead(self._jobs, job_id, SharedJob(job_id, job, shares), submit.ahead_of)
        self._on_event(Accepted(job_id=job_id))
        self._hand_out()

    def _cancel(self, job: SharedJob, *, tell: bool = True) -> None:
        """Drop what is left of a job and, where `tell`, ask its engines to stop."""
        if job.cancelled:
            return
        job.cut |= job.waiting
        job.cancelled = True
        for worker, part in self._working_on(job) if tell else ():
            worker.client.send(Cancel(job_id=part.id))
        self._end_if_over(job)

    def _pause(self, job: SharedJob) -> None:
        if not job.paused:
            job.paused = True
            for worker, part in self._working_on(job):
                worker.client.send(Pause(job_id=part.id))
            self._tell_held(job)

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
        self._on_event(Held(job_id=job.id, held=False))
        self._hand_out()

    def _working_on(self, job: SharedJob) -> list[tuple[_Worker, Part]]:
        return [
            (worker, worker.part) for worker in self._workers if worker.part is not None and worker.part.whole is job
        ]

    def _tell_held(self, job: SharedJob) -> None:
        """A job is held once all engines that work on it have come to it."""
        if job.paused and not job.held and all(part.held for part in job.parts):
            job.held, job.held_since = True, time.monotonic()
            self._on_event(Held(job_id=job.id, held=True))

    # ---- handing out ---------------------------------------------------------------------------------------------

    def _hand_out(self) -> None:
        """Give every free engine the next thing to do, while there is any."""
        for worker in self._workers:
            if worker.part is None and (job := self._next()) is not None:
                self._begin(job, worker)

    def _next(self) -> SharedJob | None:
        """The first job that an engine could do something of."""
        in_the_way = False
        for job in self._jobs.values():
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
        if not job.begun:
            job.begun = True
            self._on_event(Accepted(job_id=job.id, started=True))
        self._tell_assigned(worker)
        worker.client.send(Submit(job_id=worker.part.id, job=todo))

    def _tell_assigned(self, worker: _Worker) -> None:
        job = worker.part.whole.id if worker.part else None
        self._on_event(Assigned(engine=worker.place, hardware=worker.hardware, job=job))

    # ---- events --------------------------------------------------------------------------------------------------

    def _hear(self, worker: _Worker, event: Event) -> None:
        part = worker.part
        if isinstance(event, Ready):
            worker.hardware = event.environment.hardware
            self._on_event(event)
            self._tell_assigned(worker)
            return
        if isinstance(event, Assigned):  # an engine has none of its own
            return
        if part is None or event.job_id != part.id:
            if isinstance(event, Log):
                self._on_event(event.model_copy(update={"job_id": None}))
            return
        job = part.whole
        match event:
            case Accepted():
                return  # told when it was handed out
            case Held():
                part.held = event.held and job.paused
                self._tell_held(job)
                return
            case Progress() if job.shares is not None:
                part.progress = event.done
                self._progress(job, event.metric)
                return
            case Done() | Failed():
                self._end_part(worker, part, event)
                return
            case RunStarted():
                part.run, job.any_run = event.run, True
            case RunFinished() | RunFailed():
                part.run = None
                part.ended.add(event.run)
        self._on_event(event.model_copy(update={"job_id": job.id}))

    def _progress(self, job: SharedJob, metric: str) -> None:
        assert isinstance(job.job, EvaluateJob)  # no other is shared out
        done = job.units + sum(part.progress for part in job.parts)
        total = sum(len(run.units) for run in job.job.runs)
        now = time.monotonic()
        eta = job.eta.update(now - job.held_seconds, done, total)
        if job.throttle.passes(now, done, total):
            unit = "measurements"
            self._on_event(Progress(job_id=job.id, done=done, total=total, unit=unit, eta_seconds=eta, metric=metric))

    def _end_part(self, worker: _Worker, part: Part, event: Done | Failed) -> None:
        job = part.whole
        worker.part = None
        job.parts.remove(part)
        if isinstance(event, Done):
            job.cut |= event.cancelled
        elif job.shares is None:
            job.failure = event
        else:
            self._mourn(part, event, job.shares)
        job.units += part.units
        self._tell_held(job)
        self._end_if_over(job)
        self._hand_out()
        if worker.part is None:
            self._tell_assigned(worker)

    def _mourn(self, part: Part, failed: Failed, shares: Shares) -> None:
        """The engine of a part ended under it: the run that it computed fails, the ones behind go to other engines."""
        job, run = part.whole, failed.run or part.run
        if run is None and not part.ended:  # it would not come to another engine's runs either
            job.failure = failed
            job.unreached += [pending.spec.content_hash() for pending in part.runs]
            part.ended |= set(job.unreached)
            return
        if run is not None:
            part.ended.add(run)
            self._on_event(RunFailed(job_id=job.id, run=run, error=failed.error, detail=failed.detail))
        shares.put_back(pending for pending in part.runs if pending.spec.content_hash() not in part.ended)

    def _end_if_over(self, job: SharedJob) -> None:
        if job.parts or job.waiting:
            return
        del self._jobs[job.id]
        if job.failure is not None and not job.any_run:
            self._on_event(job.failure.model_copy(update={"job_id": job.id}))
            return
        if job.failure is not None:
            for run in job.unreached:
                failed = RunFailed(job_id=job.id, run=run, error=job.failure.error, detail=job.failure.detail)
                self._on_event(failed)
        self._on_event(Done(job_id=job.id, cancelled=job.cut))
