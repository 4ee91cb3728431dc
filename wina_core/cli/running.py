"""Doing a job in this process, recorded in the store as the window records an engine's."""

import os
from dataclasses import dataclass

from wina_core.cli.terminal import terminal_reporter
from wina_core.engine.protocol import Done, Event, Failed, Job, Result, ResultValue, RunFailed
from wina_core.errors import Cancelled, WinaError, unforeseen
from wina_core.store import Recorder, Store

JOB_ID = "local"


@dataclass
class Outcome:
    """What a job left behind besides what is stored."""

    value: ResultValue | None
    failures: tuple[RunFailed, ...]


def run_recorded(job: Job, store: Store) -> Outcome:
    """Do a job with progress on stderr, and store what it yields the moment it does.

    Raises what `run_job` raises, after the store has been told how the job ended.
    """
    os.environ.setdefault("TQDM_DISABLE", "1")  # one progress bar is enough
    with terminal_reporter() as reporter:  # before the imports below, which take seconds, so that Ctrl-C is theirs too
        from wina_core.engine.environment import environment
        from wina_core.engine.jobs import run_job
        from wina_core.engine.session import Session

        recorder = Recorder(store, job, environment())
        outcome = Outcome(None, ())

        def emit(event: Event) -> None:
            recorder.record(event)
            if isinstance(event, Result):
                outcome.value = event.value
            elif isinstance(event, RunFailed):
                outcome.failures += (event,)

        try:
            run_job(job, Session(), emit, reporter, JOB_ID)
        except Cancelled:
            recorder.record(Done(job_id=JOB_ID, cancelled=True))
            raise
        except BaseException as error:
            message = str(error) if isinstance(error, WinaError) else unforeseen(error)
            recorder.record(Failed(job_id=JOB_ID, error=message))
            raise
        recorder.record(Done(job_id=JOB_ID))
        return outcome
