"""Controller of the Jobs dock: requests of the user, and expected durations of jobs."""

from typing import Any, Protocol

from PySide6.QtCore import QObject, SignalInstance

from wina_app.jobs.job_entry import JobEntry
from wina_app.services.workbench import Workbench
from wina_core.jobs import EstimateJob, EvaluateJob
from wina_core.jobs.progress import MeasurementTimes
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
        elif isinstance(entry.job, EvaluateJob):
            job, hardware = entry.job, self._workbench.hardware_of(entry.machines)

            def left(store: Any) -> float | None:
                stored = job.stored or (hardware and store.unit_seconds([run.spec for run in job.runs], hardware)) or {}
                return MeasurementTimes(job.model_copy(update={"stored": stored})).left()

            def expect(seconds: float | None) -> None:
                if seconds is not None:
                    jobs.expect(job_id, seconds)

            self._workbench.store.ask(left, expect)


def known_seconds(entry: JobEntry, earlier_jobs: list[JobEntry]) -> float | None:
    """Return a job's duration in seconds as known from earlier jobs of this window, None if it is not."""
    for other in reversed(earlier_jobs):
        if other.phase == "done" and _without_times(other.job) == _without_times(entry.job):
            return other.seconds
        if isinstance(other.result, EstimateRecord) and _measures(entry.job, other.job):
            return other.result.seconds
    return None


def _without_times(job: object) -> object:
    """Return a job without the stored times that its time left begins with."""
    return job.model_copy(update={"stored": {}}) if isinstance(job, EvaluateJob) else job


def _measures(job: object, estimated: object) -> bool:
    return isinstance(job, EvaluateJob) and isinstance(estimated, EstimateJob) and job.runs == estimated.runs
