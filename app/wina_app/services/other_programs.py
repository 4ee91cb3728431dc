"""Jobs of other programs on this window's database, as the database has them; any program cancels a job by its row."""

from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer

from wina_app.services.workbench import Workbench
from wina_app.style.translation import tr
from wina_core.jobs import Done, EvaluateJob, Failed, Progress, Started
from wina_core.jobs.hosted import OtherProgramsJob
from wina_core.records import RunStatus

if TYPE_CHECKING:  # SQLAlchemy is imported off the main thread
    from wina_core.store.jobs import ListedJob


LOOK_MS = 5_000
"""Interval of looking for the end of other programs."""


class OtherPrograms(QObject):
    """The jobs of other programs as jobs of the window, and the cancellations by other programs of its own."""

    def __init__(self, workbench: Workbench) -> None:
        super().__init__()
        self._workbench = workbench
        self._own_ids: frozenset[str] = frozenset()
        """Ids of this window's jobs that were in the database at the last look."""
        self._foreign_jobs: dict[str, ListedJob] = {}
        """Jobs of other programs at the last look, by their ids."""
        self._asking = False
        self._timer = QTimer(self, interval=LOOK_MS)
        self._timer.timeout.connect(self.look)
        workbench.results_changed.connect(self.look)
        workbench.store.opened.connect(self._on_opened)
        workbench.jobs.ended.connect(self._on_ended)
        workbench.stopped.connect(self.leave)

    def leave(self) -> None:
        """Look no more."""
        self._timer.stop()

    def look(self) -> None:
        """Read the jobs of the database."""
        if not self._asking:
            self._asking = True
            self._workbench.store.ask(
                lambda store: (store.kept_jobs(), store.list_jobs()), self._show, lambda _text: self._show(None)
            )

    def _show(self, snapshot: "tuple[frozenset[str], list[ListedJob]] | None") -> None:
        self._asking = False
        if snapshot is None:  # the database is away
            return
        own_ids, listed = snapshot
        jobs = self._workbench.jobs
        for job_id in self._own_ids - own_ids:
            if job_id in jobs and jobs[job_id].active and jobs[job_id].phase != "cancelling":
                self._workbench.cancel(job_id)
        self._own_ids = own_ids
        foreign_jobs = [job for job in listed if job.state != "unfinished"]
        for job in foreign_jobs:
            self._follow(job)
        dead = {job.submit.job_id for job in listed if job.state == "unfinished"}
        for job_id in self._foreign_jobs.keys() - {job.submit.job_id for job in foreign_jobs}:
            self._end(self._foreign_jobs.pop(job_id), died=job_id in dead)
        if self._foreign_jobs:  # one that dies writes nothing
            self._timer.start()
        else:
            self._timer.stop()

    def _on_opened(self, _store: object) -> None:
        """Forget the jobs of the database before, and look at those of the new one."""
        for job_id in self._foreign_jobs:
            self._workbench.jobs.apply(Done(job_id=job_id, cancelled=True))
        self._own_ids, self._foreign_jobs = frozenset(), {}
        self.look()

    def _on_ended(self, job_id: str) -> None:
        """Expect no row of a job that has ended: it may be queued again under its id."""
        self._own_ids -= {job_id}

    def _follow(self, job: "ListedJob") -> None:
        jobs, job_id = self._workbench.jobs, job.submit.job_id
        if job_id in jobs and not jobs[job_id].is_elsewhere:
            return  # it was this window's, which is closing
        if job_id not in self._foreign_jobs:
            title = tr("{title} (another program)", title=job.submit.title or tr("Job"))
            cancel = partial(self._cancel, job_id)
            self._workbench.host(OtherProgramsJob(computes=job.submit.job.kind), title, cancel, job_id)
        self._foreign_jobs[job_id] = job
        if job.state == "running" and jobs[job_id].waiting:
            jobs.apply(Started(job_id=job_id))
        if job.total is not None:
            jobs.apply(Progress(job_id=job_id, done=job.done, total=job.total, unit="measurements"))

    def _end(self, job: "ListedJob", *, died: bool) -> None:
        """Show the end of a job: its program died, all of its runs are done or failed, or it was cancelled."""
        runs = job.submit.job.runs if isinstance(job.submit.job, EvaluateJob) else ()
        job_id, jobs = job.submit.job_id, self._workbench.jobs

        def answer(statuses: list[RunStatus | None]) -> None:
            cancelled = died or jobs[job_id].phase == "cancelling"
            cancelled |= any(status not in ("done", "failed") for status in statuses)
            if statuses and not cancelled and "done" not in statuses:
                jobs.apply(Failed(job_id=job_id, error=tr("All of its runs failed; the Results page has the reasons.")))
            else:
                jobs.apply(Done(job_id=job_id, cancelled=cancelled))

        self._workbench.store.ask(
            lambda store: [store.run_status(run.spec.content_hash()) for run in runs],
            answer,
            lambda _text: jobs.apply(Done(job_id=job_id, cancelled=True)),
        )

    def _cancel(self, job_id: str) -> None:
        self._workbench.store.write(lambda store: store.forget_jobs([job_id]), self._workbench.storing_failed.emit)
