"""Doing a job, here or in engines, recorded in the store as the window records an engine's."""

import os
import queue
from contextlib import suppress
from dataclasses import dataclass

from wina_core.cli.terminal import TerminalReporter, terminal_reporter
from wina_core.engine.client.pool import Client, open_engines
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
from wina_core.errors import Cancelled, WinaError, unforeseen
from wina_core.records import Environment
from wina_core.store import Recorder, Store

JOB_ID = "local"
_LOOK_SECONDS = 0.2
"""How often Ctrl-C is looked for while engines compute."""


@dataclass
class Outcome:
    """What a job left behind besides what is stored."""

    value: ResultValue | None
    failures: tuple[RunFailed, ...]


def run_recorded(job: Job, store: Store) -> Outcome:
    """Do a job in this process with progress on stderr, and store what it yields the moment it does.

    Raises what `run_job` raises, after the store has been told how the job ended; and at once what the store refuses
    to take, such as when the disk is full: computing on would lose what follows too.
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
        except Cancelled:
            kept.end(Done(job_id=JOB_ID, cancelled=True))
            raise
        except BaseException as error:
            message = str(error) if isinstance(error, WinaError) else unforeseen(error)
            kept.end(Failed(job_id=JOB_ID, error=message))
            raise
        kept.end(Done(job_id=JOB_ID))
        return kept.outcome


def run_recorded_in_pool(job: Job, store: Store, engines: int) -> Outcome:
    """As `run_recorded`, in so many engines at once, 0 standing for one for each GPU. What fails the whole job is a
    WinaError here, its details on stderr."""
    kept = _Kept(store, job)
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    with terminal_reporter() as reporter:
        client = open_engines(events.put, engines)
        try:
            client.send(Submit(job_id=JOB_ID, job=job))
            end = _follow(client, events, kept, reporter)
        finally:
            client.stop()
    kept.end(end)
    if isinstance(end, Failed):
        raise WinaError(end.error)
    if end.cancelled:
        raise Cancelled
    return kept.outcome


def _follow(
    client: Client, events: "queue.SimpleQueue[Event]", kept: "_Kept", reporter: TerminalReporter
) -> Done | Failed:
    """Keep and show what happens until the job has ended, and cancel it when that is asked for or nothing is kept."""
    cancelled = False
    while True:
        try:
            reporter.check()
            stop = kept.refused is not None
        except Cancelled:
            stop = True
        if stop and not cancelled:
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
                if event.level != "debug":  # what an engine's libraries print: its log file has it
                    reporter.log(event.level, event.text)
            case _:
                kept.take(event)


class _Kept:
    """What a job yields, in the store and in an Outcome, until the store refuses to take it."""

    def __init__(self, store: Store, job: Job, environment: Environment | None = None) -> None:
        self._recorder = Recorder(store, job, environment)
        self.outcome = Outcome(None, ())
        self.refused: WinaError | None = None

    def take(self, event: Event) -> None:
        """Store what an event brings."""
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
        """Store how the job ended. Raises what the store refused, now or before."""
        if self.refused is None:
            self._recorder.record(event)
            return
        with suppress(WinaError):  # which is told already
            self._recorder.record(Failed(job_id=JOB_ID, error=str(self.refused)))
        raise self.refused
