"""Running a job, in this process or in engines, with its results recorded as the window records them."""

import os
import queue
from contextlib import suppress
from dataclasses import dataclass

from wina_core.cli.terminal import TerminalReporter, terminal_reporter
from wina_core.engine.client.pool import EnginePool, open_engines
from wina_core.engine.protocol import (
    Cancel,
    Done,
    Event,
    Failed,
    Job,
    Log,
    Progress,
    Result,
    ResultValue,
    RunFailed,
    Submit,
)
from wina_core.errors import Cancelled, Terminated, WinaError, unforeseen
from wina_core.records import Environment
from wina_core.store import Recorder, Store

JOB_ID = "local"
_LOOK_SECONDS = 0.2
"""Interval of checking for Ctrl-C while engines compute."""


@dataclass
class JobOutcome:
    """Results of a job that are not in the store."""

    value: ResultValue | None
    failures: tuple[RunFailed, ...]


def run_recorded(job: Job, store: Store) -> JobOutcome:
    """Run a job in this process with progress on stderr, and store every result as it comes.

    Raises the errors of `run_job`, after the store has recorded the end of the job; and at once an error of the store,
    such as a full disk, since later results would be lost too.
    """
    os.environ.setdefault("TQDM_DISABLE", "1")  # one progress bar is enough
    with terminal_reporter() as reporter:  # before the imports below, which take seconds, so that Ctrl-C is theirs too
        from wina_core.compute.session.environment import environment
        from wina_core.compute.session.model_session import Session
        from wina_core.engine.server.run_job import run_job

        kept = _Kept(store, job, environment())

        def emit(event: Event) -> None:
            kept.take(event)
            if kept.refused is not None:
                raise Cancelled

        try:
            run_job(job, Session(), emit, reporter, JOB_ID)
        except Cancelled as error:
            kept.end(Done(job_id=JOB_ID, cancelled=not isinstance(error, Terminated)))  # else interrupted
            raise
        except BaseException as error:
            message = str(error) if isinstance(error, WinaError) else unforeseen(error)
            kept.end(Failed(job_id=JOB_ID, error=message))
            raise
        kept.end(Done(job_id=JOB_ID))
        return kept.outcome


def run_recorded_in_pool(job: Job, store: Store, engines: int) -> JobOutcome:
    """Run a job like `run_recorded`, in a number of engines at once; 0 is one for each GPU.

    An error of the whole job is a WinaError, with its details on stderr.
    """
    kept = _Kept(store, job)
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    with terminal_reporter() as reporter:
        client = open_engines(events.put, engines)
        try:
            client.send(Submit(job_id=JOB_ID, job=job))
            end = _follow(client, events, kept, reporter)
        finally:
            client.stop()
        stopped = reporter.stopped
        if isinstance(stopped, Terminated):
            end = Done(job_id=JOB_ID)  # its runs are interrupted, not cancelled
        kept.end(end)
    if stopped is not None:
        raise stopped
    if isinstance(end, Failed):
        raise WinaError(end.error)
    return kept.outcome


def _follow(
    client: EnginePool, events: "queue.SimpleQueue[Event]", kept: "_Kept", reporter: TerminalReporter
) -> Done | Failed:
    """Record and show events until the job ends; cancel it on a signal and when the store refuses a result."""
    cancelled = False
    while True:
        if (reporter.stopped or kept.refused) and not cancelled:
            client.send(Cancel(job_id=JOB_ID))
            cancelled = True
        try:
            event = events.get(timeout=_LOOK_SECONDS)
        except queue.Empty:
            continue
        match event:
            case Done():
                return event
            case Failed():
                if event.detail:
                    reporter.log("error", event.detail)
                return event
            case Progress():
                reporter.progress(event.done, event.total, event.unit, event.metric)
            case Log():
                if event.level != "debug":  # an engine's log file has the output of its libraries
                    reporter.log(event.level, event.text)
            case _:
                kept.take(event)


class _Kept:
    """Recorder of a job's results in the store and in a JobOutcome, until the store refuses one."""

    def __init__(self, store: Store, job: Job, environment: Environment | None = None) -> None:
        self._recorder = Recorder(store, job, environment)
        self.outcome = JobOutcome(None, ())
        self.refused: WinaError | None = None

    def take(self, event: Event) -> None:
        """Store the result of an event."""
        if self.refused is not None:
            return
        try:
            self._recorder.record(event)
        except WinaError as error:
            self.refused = error
            return
        if isinstance(event, Result):
            self.outcome.value = event.value
        elif isinstance(event, RunFailed):
            self.outcome.failures += (event,)

    def end(self, event: Done | Failed) -> None:
        """Store the end of the job. Raises the error of the store, now or before."""
        if self.refused is None:
            self._recorder.record(event)
            return
        with suppress(WinaError):
            self._recorder.record(Failed(job_id=JOB_ID, error=str(self.refused)))
        raise self.refused
