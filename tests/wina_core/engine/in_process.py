"""Jobs that the test's own process computes."""

from wina_core.compute.reporter import NullReporter, Reporter
from wina_core.compute.session.model_session import Session
from wina_core.engine.server.run_job import run_job
from wina_core.jobs import Event, Job, Partial, Result, ResultValue, RunFailed
from wina_core.records import UnitRecord


def compute(job: Job, reporter: Reporter | None = None, session: Session | None = None) -> list[Event]:
    """Return the events of a job."""
    events: list[Event] = []
    run_job(job, session or Session(), events.append, reporter or NullReporter())
    return events


def units_of(job: Job, reporter: Reporter | None = None, session: Session | None = None) -> list[UnitRecord]:
    """Return the measurements of a job without failures."""
    events = compute(job, reporter, session)
    assert not [event.error for event in events if isinstance(event, RunFailed)]
    return [event.unit for event in events if isinstance(event, Partial)]


def run_errors(job: Job, reporter: Reporter | None = None) -> list[str]:
    """Return the errors of the runs of a job."""
    return [event.error for event in compute(job, reporter) if isinstance(event, RunFailed)]


def result_of(job: Job, session: Session | None = None) -> ResultValue:
    """Return the result of a job."""
    (result,) = compute(job, session=session)
    assert isinstance(result, Result)
    return result.value
