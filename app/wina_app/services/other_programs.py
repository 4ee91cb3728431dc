"""Jobs of other programs on this window's database, as the database has them; any program cancels a job by its row."""

from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

from wina_app.services.workbench import Workbench
from wina_app.style.translation import tr
from wina_core.jobs import Done, EvaluateJob, Progress, Started
from wina_core.jobs.hosted import OtherProgramsJob
from wina_core.records import RunStatus

if TYPE_CHECKING:  # SQLAlchemy is imported off the main thread
    from wina_core.store.jobs import ListedJob


class OtherPrograms(QObject):
    """The jobs of other programs as jobs of the window, and the cancellations by other programs of its own."""

    def __init__(self, workbench: Workbench) -> None:
        super().__init__()
        self._workbench = workbench
        self._own: frozenset[str] = frozenset()
        """Ids of this window's jobs that were in the database at the last look."""
        self._others: dict[str, ListedJob] = {}
        """Jobs of other programs at the last look, by their ids."""
        self._asking = False
        workbench.results_changed.connect(self.look)

    def look(self) -> None:
        """Read the jobs of the database."""
        if not self._asking:
            self._asking = True
            self._workbench.store.ask(lambda store: store.list_jobs(), self._show, lambda _text: self._show(None))

    def _show(self, listed: "list[ListedJob] | None") -> None:
        self._asking = False
        if listed is None:  # the database is away
            return
        jobs = self._workbench.jobs
        own = frozenset(job.submit.job_id for job in listed if job.is_own)
        for job_id in self._own - own:
            if job_id in jobs and jobs[job_id].active and jobs[job_id].state != "cancelling":
                self._workbench.cancel(job_id)
        self._own = own
        others = [job for job in listed if not job.is_own and job.state != "unfinished"]
        for job in others:
            self._follow(job)
        for job_id in self._others.keys() - {job.submit.job_id for job in others}:
            self._end(self._others.pop(job_id))

    def _follow(self, job: "ListedJob") -> None:
        jobs, job_id = self._workbench.jobs, job.submit.job_id
        if job_id in jobs and not jobs[job_id].is_elsewhere:
            return  # it was this window's, which is closing
        if job_id not in self._others:
            title = tr("{title} (another program)", title=job.submit.title or tr("Job"))
            cancel = partial(self._cancel, job_id)
            self._workbench.host(OtherProgramsJob(computes=job.submit.job.kind), title, cancel, job_id)
        self._others[job_id] = job
        if job.state == "running" and jobs[job_id].waiting:
            jobs.apply(Started(job_id=job_id))
        if job.total is not None:
            jobs.apply(Progress(job_id=job_id, done=job.done, total=job.total, unit="measurements"))

    def _end(self, job: "ListedJob") -> None:
        """Show the end of a job whose row is gone: all of its runs are done or failed, or it was cancelled."""
        runs = job.submit.job.runs if isinstance(job.submit.job, EvaluateJob) else ()

        def answer(statuses: list[RunStatus | None]) -> None:
            self._workbench.jobs.apply(
                Done(job_id=job.submit.job_id, cancelled=any(status not in ("done", "failed") for status in statuses))
            )

        self._workbench.store.ask(lambda store: [store.run_status(run.spec.content_hash()) for run in runs], answer)

    def _cancel(self, job_id: str) -> None:
        self._workbench.store.write(lambda store: store.forget_jobs([job_id]), self._workbench.storing_failed.emit)
