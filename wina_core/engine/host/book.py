"""Status of every job in the host, for clients that attach later."""

import time

from wina_core.jobs import (
    Done,
    Event,
    Failed,
    Held,
    JobStatus,
    Measured,
    Partial,
    Progress,
    Queued,
    RunFailed,
    RunFinished,
    Started,
    Submit,
)


class JobBook:
    """Status of the jobs that have not ended, in the order of the queue."""

    def __init__(self) -> None:
        self._jobs: dict[str, JobStatus] = {}

    def __bool__(self) -> bool:
        return bool(self._jobs)

    @property
    def jobs(self) -> tuple[JobStatus, ...]:
        """The jobs in the order of the queue."""
        return tuple(self._jobs.values())

    def submit(self, submit: Submit) -> JobStatus | None:
        """Add a job and return its status; None if it is listed already."""
        if submit.job_id in self._jobs:
            return None
        self._jobs[submit.job_id] = JobStatus(submit=submit)
        return self._jobs[submit.job_id]

    def apply(self, event: Event) -> None:
        """Follow an event."""
        job_id = getattr(event, "job_id", None)
        status = self._jobs.get(job_id) if isinstance(job_id, str) else None
        if status is None:
            return
        match event:
            case Queued():
                self._place(status, event)
            case Started():
                self._change(status, started=time.time())
            case Held():
                self._change(status, held=event.held, started=None if event.released else status.started)
            case Progress():
                self._change(status, progress=event)
            case Partial() | Measured():
                self._change(status, units=status.units + 1)
            case RunFinished():
                self._change(status, runs_finished=status.runs_finished + 1)
            case RunFailed():
                self._change(status, runs_failed=status.runs_failed + 1)
            case Done() | Failed():
                del self._jobs[status.submit.job_id]

    def _place(self, status: JobStatus, event: Queued) -> None:
        """Put a job right before the one that follows it in the queue, else at the end."""
        job_id = status.submit.job_id
        submit = status.submit.model_copy(update={"priority": event.priority})
        order = [other for other in self._jobs if other != job_id]
        order.insert(order.index(event.before) if event.before in order else len(order), job_id)
        self._jobs[job_id] = status.model_copy(update={"submit": submit})
        self._jobs = {other: self._jobs[other] for other in order}

    def _change(self, status: JobStatus, **values: object) -> None:
        self._jobs[status.submit.job_id] = status.model_copy(update=values)
