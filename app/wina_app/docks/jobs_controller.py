"""Controller of the Jobs dock: requests of the user, and expected durations of jobs."""

import math
from typing import Any, Protocol

from PySide6.QtCore import QObject, SignalInstance

from wina_app.jobs.job_entry import JobEntry
from wina_app.services.machines import only_here
from wina_app.services.workbench import Workbench
from wina_core.jobs import EstimateJob, EvaluateJob
from wina_core.records import EstimateRecord
from wina_core.specs.unit_keys import measurement_key


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
        """Expect the duration of the same job before, else its estimate, else the time of similar measurements."""
        jobs = self._workbench.jobs
        entry = jobs[job_id]
        if entry.is_elsewhere:
            return
        if (seconds := known_seconds(entry, [other for other in jobs if other is not entry])) is not None:
            jobs.expect(job_id, seconds)
        elif isinstance(entry.job, EvaluateJob) and only_here(entry.machines):
            job, environment = entry.job, self._workbench.environment
            hardware = environment.hardware if environment else ""
            self._workbench.store.ask(
                lambda store: stored_seconds(job, hardware, store),
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


def stored_seconds(job: EvaluateJob, hardware: str, store: Any) -> float | None:
    """Return the seconds that similar units took on this hardware, summed; None if one was never measured."""
    specs = [run.spec for run in job.runs]
    known = store.unit_seconds(specs, hardware)
    each = [known.get(measurement_key(run.spec, unit)) for run in job.runs for unit in run.units]
    return None if None in each else math.fsum(seconds for seconds in each if seconds is not None)
