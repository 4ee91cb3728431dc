"""Controller of the Jobs dock: requests of the user, and expected durations of jobs."""

from typing import Protocol

from PySide6.QtCore import QObject, SignalInstance

from wina_app.jobs.job_entry import JobEntry
from wina_app.services.workbench import Workbench
from wina_core.jobs import EstimateJob, EvaluateJob
from wina_core.jobs.measurement_times import MeasurementTimes
from wina_core.records import EstimateRecord


class JobsDock(Protocol):
    """View of the jobs."""

    retry_requested: SignalInstance
    move_requested: SignalInstance
    priority_requested: SignalInstance
    specification_requested: SignalInstance

    def copy(self, text: str) -> None:
        """Put a text into the clipboard."""


class JobsController(QObject):
    """Controller that passes the dock's requests to the workbench and estimates each job."""

    def __init__(self, workbench: Workbench, view: JobsDock) -> None:
        super().__init__()
        self._workbench, self._view = workbench, view
        view.retry_requested.connect(workbench.retry)
        view.move_requested.connect(workbench.move)
        view.priority_requested.connect(workbench.prioritize)
        view.specification_requested.connect(self._copy_specification)
        workbench.jobs.added.connect(self._estimate)
        workbench.jobs.requeued.connect(self._estimate)

    def _copy_specification(self, job_id: str) -> None:
        """Copy a job as JSON; the store's thread writes it, since thousands of runs take a while."""
        job = self._workbench.jobs[job_id].job
        self._workbench.store.ask(lambda _store: job.model_dump_json(indent=2, exclude_defaults=True), self._view.copy)

    def _estimate(self, job_id: str) -> None:
        """Expect the duration of the same job before, else its estimate, else the time of similar measurements; the
        store's thread adds them up, since thousands of runs take a while."""
        jobs = self._workbench.jobs
        entry = jobs[job_id]
        if entry.is_elsewhere:
            return
        if (seconds := known_seconds(entry, [other for other in jobs if other is not entry])) is not None:
            jobs.expect(job_id, seconds)
        elif isinstance(entry.job, EvaluateJob) and entry.job.stored:
            job = entry.job
            self._workbench.store.ask(
                lambda _store: MeasurementTimes(job).left(),
                lambda seconds: None if seconds is None else jobs.expect(job_id, seconds),
            )


def known_seconds(entry: JobEntry, others: list[JobEntry]) -> float | None:
    """Return a job's duration in seconds as known from earlier jobs of this window, None if it is not."""
    for other in reversed(others):
        if other.state == "done" and type(other.job) is type(entry.job) and other.job == entry.job:
            return other.seconds
        if isinstance(other.result, EstimateRecord) and _measures(entry.job, other.job):
            return other.result.seconds
    return None


def _measures(job: object, estimated: object) -> bool:
    return isinstance(job, EvaluateJob) and isinstance(estimated, EstimateJob) and job.runs == estimated.runs
