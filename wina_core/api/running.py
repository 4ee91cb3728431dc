"""Running a job, in this process or in engines, with its results recorded as the window records them."""

import os
import queue
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import TYPE_CHECKING

from wina_core.api.progress import TerminalReporter, duration, terminal_reporter
from wina_core.compute.importing import without_collections
from wina_core.engine.client.pool import EnginePool, open_engines
from wina_core.engine.client.workers import OpenMachine
from wina_core.errors import Cancelled, Terminated, WinaError, unforeseen
from wina_core.jobs import (
    Cancel,
    Done,
    EvaluateJob,
    Event,
    Failed,
    Job,
    Log,
    Progress,
    Ready,
    Submit,
)
from wina_core.jobs.job_state import JobState
from wina_core.jobs.planning import MissingProduct, memory_needs, missing_products, stored_seconds
from wina_core.jobs.progress import MeasurementTimes
from wina_core.remote.machine_client import open_place
from wina_core.remote.ray_client import ray_clients
from wina_core.specs.machine import LOCAL, RayCluster
from wina_core.store import Backlog, Store

if TYPE_CHECKING:  # torch takes seconds to import
    from wina_core.compute.session.model_session import Session

JOB_ID = "local"
Reporting = Callable[[], AbstractContextManager[TerminalReporter]]
"""Maker of the reporter of a job."""
_POLL_SECONDS = 0.2
"""Interval of checking for Ctrl-C while engines compute."""


def run_recorded(
    job: Job,
    store: Store,
    observe: Callable[[Event], object] = lambda _: None,
    *,
    machines: tuple[str, ...] = (),
    engines: int | None = None,
    ray: RayCluster | None = None,
    session: "Session | None" = None,
    reporting: Reporting = terminal_reporter,
) -> JobState:
    """Run a job in this process with progress on stderr, and store every result as it comes; return its last state.

    `observe` gets all events. A job for other machines, for a Ray cluster or for several engines runs there instead;
    0 engines are one for each GPU, or all that fit on Ray. `session` has models that are loaded already; by default a
    new one is used.

    Raises the errors of `run_job`, after the store has recorded the end of the job. What the store refuses for now, as
    on a full disk, waits in a Backlog while the job continues; what still waits at its end is a WinaError.
    """
    if machines or ray is not None or engines not in (None, 1):
        engines = 1 if engines is None and ray is None else engines or 0
        return run_recorded_in_pool(job, store, engines, observe, machines=machines, ray=ray, reporting=reporting)
    with reporting() as reporter:  # before the imports below, which take seconds, so that Ctrl-C is theirs too
        with without_collections():
            from wina_core.compute.session.environment import environment, kernels_notice
            from wina_core.compute.session.model_session import Session
            from wina_core.engine.server.run_job import run_job

        recorder = _JobRecorder(store, job, reporter)
        recorder.record(Ready(pid=os.getpid(), environment=environment()))
        if isinstance(job, EvaluateJob):
            with suppress(WinaError):  # a database that is away: the time left is known later
                stored = store.unit_seconds([run.spec for run in job.runs], environment().hardware)
                job = job.model_copy(update={"stored": stored})
        if notice := kernels_notice():
            reporter.log("warning", notice)
        reporter.at_check = recorder.retry
        times = MeasurementTimes(job) if isinstance(job, EvaluateJob) else None
        if times is None:
            reporter.expect(stored_seconds(job))
        else:
            reporter.time_left = lambda done: times.left(done, [times.run])

        def emit(event: Event) -> None:
            observe(event)
            if times is not None:
                times.take(event)
            if isinstance(event, Progress):
                reporter.follow(event)
            recorder.record(event)
            if recorder.refused is not None:  # nothing that follows could be stored either
                raise Cancelled

        try:
            run_job(job, session or Session(), emit, reporter, JOB_ID)
        except Cancelled as error:
            recorder.end(Done(job_id=JOB_ID, cancelled=not isinstance(error, Terminated)), error)  # else interrupted
            raise
        except BaseException as error:
            message = str(error) if isinstance(error, WinaError) else unforeseen(error)
            recorder.end(Failed(job_id=JOB_ID, error=message), error)
            raise
        recorder.end(Done(job_id=JOB_ID))
        return recorder.state


def run_recorded_in_pool(
    job: Job,
    store: Store,
    engines: int,
    observe: Callable[[Event], object] = lambda _: None,
    *,
    machines: tuple[str, ...] = (),
    ray: RayCluster | None = None,
    reporting: Reporting = terminal_reporter,
) -> JobState:
    """Run a job like `run_recorded`, in a number of engines at once; 0 is one for each GPU, or all that fit on Ray.

    An error of the whole job is a WinaError, with its details on stderr.
    """
    open_machine: OpenMachine = open_place
    if ray is not None:
        # To the pool, the cluster is one machine, which has all of the engines.
        cluster = ray.model_copy(update={"engines": engines})
        machines, open_machine, engines = (ray.name,), lambda _: ray_clients(cluster), 1
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    with reporting() as reporter:
        if machines:
            reporter.start(machines)
        recorder = _JobRecorder(store, job, reporter)
        client = open_engines(events.put, engines, machines=open_machine)
        try:
            client.send(Submit(job_id=JOB_ID, job=job, machines=machines))
            end = _follow(client, events, recorder, reporter, observe)
        finally:
            client.stop()
        stopped = reporter.stopped
        if isinstance(stopped, Terminated):  # the system or a closed terminal ended the program, not the user
            end = Done(job_id=JOB_ID)  # its runs are interrupted, not cancelled
        recorder.end(end, stopped)
    if stopped is not None:
        raise stopped
    if isinstance(end, Failed):
        raise WinaError(end.error)
    return recorder.state


def _follow(
    client: EnginePool,
    events: "queue.SimpleQueue[Event]",
    recorder: "_JobRecorder",
    reporter: TerminalReporter,
    observe: Callable[[Event], object],
) -> Done | Failed:
    """Record and show events until the job ends; cancel it on a signal and when the store refuses a result."""
    cancelled = False
    while True:
        if (reporter.stopped or recorder.refused) and not cancelled:
            client.send(Cancel(job_id=JOB_ID))
            cancelled = True
        try:
            event = events.get(timeout=_POLL_SECONDS)
        except queue.Empty:
            recorder.retry()
            continue
        observe(event)
        match event:
            case Done():
                return event
            case Failed():
                if event.detail and event.detail.strip() not in event.error:
                    reporter.log("error", event.detail)
                return event
            case Progress():
                reporter.follow(event)
            case Log():
                if event.level != "debug":  # an engine's log file has the output of its libraries
                    reporter.log(event.level, event.text)
            case _:
                recorder.record(event)


class _JobRecorder:
    """Recorder of a job's results in the store, and of its state."""

    def __init__(self, store: Store, job: Job, reporter: TerminalReporter) -> None:
        self._backlog = Backlog(store)
        self._backlog.record(Submit(job_id=JOB_ID, job=job))
        self._reporter = reporter
        self._waits = False
        self.state = JobState()
        self.refused: WinaError | None = None
        """A result can never be stored, or no more results can wait."""

    def record(self, event: Event) -> None:
        """Store the result of an event, or let it wait."""
        if self.refused is not None:
            return
        self._try(partial(self._backlog.record, event))
        self.state = self.state.apply(event, time.monotonic())

    def retry(self) -> None:
        """Store what waits, at intervals."""
        self._try(self._backlog.retry)

    def end(self, event: Done | Failed, cause: BaseException | None = None) -> None:
        """Store the end of the job, which is early where it has a `cause`.

        Raises WinaError for what is not stored then, with the file that keeps it; logs it if there is more to raise.
        """
        end = event if self.refused is None else Failed(job_id=JOB_ID, error=str(self.refused))
        self._try(partial(self._backlog.record, end))
        self.state = self.state.apply(end, time.monotonic())
        left = self._backlog.close()
        self._report()
        sentences = " ".join(dict.fromkeys(filter(None, (left, str(self.refused or "")))))
        if sentences and (self.refused or (cause is None and isinstance(event, Done))):
            raise WinaError(sentences)
        if sentences:
            self._reporter.log("error", sentences)

    def _try(self, storing: Callable[[], None]) -> None:
        try:
            storing()
        except WinaError as error:
            self.refused = self.refused or error
        self._report()

    def _report(self) -> None:
        """Log once that results wait and why, and once that they are stored."""
        waits = bool(self._backlog.refusal)
        if waits and not self._waits:
            self._reporter.log("warning", f"Results wait in memory until they can be stored. {self._backlog.refusal}")
        elif self._waits and not waits:
            self._reporter.log("warning", "All results that waited are stored now.")
        self._waits = waits


def announce_memory(job: Job, machines: tuple[str, ...] = ()) -> None:
    """Print the models that memory does not hold, and what they take instead; nothing for a job of other machines."""
    if machines and LOCAL not in machines:
        return
    for need in memory_needs(job):
        print(need.text, file=sys.stderr)


def announce_products(job: Job, machines: tuple[str, ...] = ()) -> tuple[MissingProduct, ...]:
    """Print models that memory does not hold and products that a job computes first; return these products.

    Nothing is known of a job of other machines alone.
    """
    announce_memory(job, machines)
    missing = () if machines and LOCAL not in machines else tuple(missing_products(job))
    if missing:
        print(f"Not on disk, computed first: {'; '.join(map(_product_text, missing))}.", file=sys.stderr)
    return missing


def _product_text(product: MissingProduct) -> str:
    remarks = []
    if product.seconds is not None:
        remarks.append(f"took {duration(product.seconds)} before")
    if product.begun:
        remarks.append("continues where it was interrupted")
    return f"{product.kind} {product.label}" + (f" ({', '.join(remarks)})" if remarks else "")
