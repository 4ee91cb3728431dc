"""Running a job, in this process or in engines, with its results recorded as the window records them."""

import os
import queue
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING

from wina_core.api.progress import TerminalReporter, duration, terminal_reporter
from wina_core.compute.importing import without_collections
from wina_core.engine.client.pool import EnginePool, open_engines
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
from wina_core.jobs.planning import MissingProduct, memory_needs, missing_products
from wina_core.jobs.progress import MeasurementTimes
from wina_core.remote.machine_client import open_place
from wina_core.specs.machine import LOCAL
from wina_core.store import Recorders, Store

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
    session: "Session | None" = None,
    reporting: Reporting = terminal_reporter,
) -> JobState:
    """Run a job in this process with progress on stderr, and store every result as it comes; return its last state.

    `observe` gets all events. A job for other machines or for several engines runs there instead; 0 engines are one for
    each GPU. `session` has models that are loaded already; by default a new one is used.

    Raises the errors of `run_job`, after the store has recorded the end of the job. If the store refuses a result, as
    on a full disk, the job stops with its WinaError; the same job continues from what is stored.
    """
    if machines or engines not in (None, 1):
        engines = 1 if engines is None else engines
        return run_recorded_in_pool(job, store, engines, observe, machines=machines, reporting=reporting)
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
        times = MeasurementTimes(job) if isinstance(job, EvaluateJob) else None
        if times is not None:
            reporter.time_left = times.left

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
    reporting: Reporting = terminal_reporter,
) -> JobState:
    """Run a job like `run_recorded`, in a number of engines at once; 0 is one for each GPU.

    An error of the whole job is a WinaError, with its details on stderr.
    """
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    with reporting() as reporter:
        if machines:
            reporter.start(machines)
        recorder = _JobRecorder(store, job, reporter)
        client = open_engines(events.put, engines, machines=open_place)
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
        self._recorders = Recorders(store)
        self._recorders.record(Submit(job_id=JOB_ID, job=job))
        self._reporter = reporter
        self.state = JobState()
        self.refused: WinaError | None = None
        """Refusal of a result, after which nothing more is stored."""

    def record(self, event: Event) -> None:
        """Store the result of an event, unless an earlier one was refused."""
        if self.refused is not None:
            return
        try:
            self._recorders.record(event)
        except WinaError as error:
            self.refused = WinaError(f"{error} The same command continues with what is not stored.")
        self.state = self.state.apply(event, time.monotonic())

    def end(self, event: Done | Failed, cause: BaseException | None = None) -> None:
        """Store the end of the job, which is early where it has a `cause`.

        Raises the refusal of a result, and that of the end; logs the latter if there is an error to raise.
        """
        is_stopped = self.refused is not None
        if not is_stopped:
            self.record(event)
        else:
            end = Failed(job_id=JOB_ID, error=str(self.refused))
            with suppress(WinaError):  # the database refuses that too: the next start marks its runs as interrupted
                self._recorders.record(end)
            self.state = self.state.apply(end, time.monotonic())
        if self.refused and (is_stopped or (cause is None and isinstance(event, Done))):
            raise self.refused
        if self.refused:
            self._reporter.log("error", str(self.refused))


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
