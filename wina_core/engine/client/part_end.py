"""The end of a job's parts: the runs that a dead engine leaves, and the last events of the job."""

from collections.abc import Iterator

from wina_core.engine.client.engine_end import MOST_ENGINES, describe_failure, describe_retry
from wina_core.jobs import Done, Event, Failed, Log, RunFailed, RunFinished
from wina_core.jobs.run_sharing import Part, SharedJob, Shares


def reap(part: Part, failed: Failed, shares: Shares) -> list[Event]:
    """Hand what a dead engine left to the next free engines; fail the run that has ended too many of them."""
    job = part.whole
    if failed.not_begun and part.rest:
        part.begin(part.rest[0].spec.content_hash())  # it was being prepared
    if part.run is None and not part.ended:  # no other engine would reach a run either
        job.failure = failed
        job.unreached += [pending.spec.content_hash() for pending in part.runs]
        part.ended |= set(job.unreached)
        return []
    events = list(_count_end(part, part.run, failed)) if part.run is not None and not job.cancelled else []
    job.cut |= job.cancelled and bool(part.rest)
    shares.put_back(part.rest)
    return events


def _count_end(part: Part, run: str, failed: Failed) -> Iterator[Event]:
    """Count the end of an engine against the run that it computed."""
    job = part.whole
    ended = job.engines_ended[run] = job.engines_ended.get(run, 0) + 1
    if not part.current:  # it ended between the last measurement and the word that all have arrived
        yield RunFinished(job_id=job.id, run=run)
        part.end(run)
    elif ended == MOST_ENGINES:
        yield RunFailed(job_id=job.id, run=run, error=describe_failure(failed), detail=failed.detail)
        part.end(run)
    else:
        yield Log(level="warning", text=describe_retry(failed, ended), job_id=job.id)


def last_events(job: SharedJob) -> Iterator[Event]:
    """Yield the events that end a job."""
    failure = job.failure
    if failure is not None and not (job.shares is not None and job.any_run):
        yield failure.model_copy(update={"job_id": job.id})
        return
    if failure is not None:
        for run in job.unreached:
            yield RunFailed(job_id=job.id, run=run, error=failure.error, detail=failure.detail)
    yield Done(job_id=job.id, cancelled=job.cut)
