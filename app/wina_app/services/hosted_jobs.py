"""Submission of studies to a cluster's queue, and the jobs of other programs."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, QTimer, Signal

from wina_app.services.side_process import SideProcess, stop_processes
from wina_app.services.workbench import Workbench
from wina_core.files.own_command import own_command
from wina_core.jobs import Done, EvaluateJob, Progress, Started
from wina_core.jobs.hosted import OtherProgramsJob
from wina_core.records import RunStatus

if TYPE_CHECKING:  # SQLAlchemy is imported off the main thread
    from wina_core.store.jobs import ListedJob

LOOK_MS = 5_000
"""Interval of looking for the end of other programs."""


class ArraySubmission(QObject):
    """Submission of studies to a cluster's queue by `wina study submit`; `wina jobs` shows them from then on."""

    submitted = Signal(str)
    """Sentence on a study that is in the queue."""
    failed = Signal(str)

    def __init__(self, workbench: Workbench, command: Sequence[str] = own_command("wina_core.cli")) -> None:
        """Take the command that runs `wina`."""
        super().__init__()
        self._command, self._url = tuple(command), ""
        workbench.store.opened.connect(self._on_opened)
        workbench.stopped.connect(lambda: stop_processes(self))

    def submit(self, words: Sequence[str]) -> None:
        """Run `wina study submit` with these words; a signal follows."""
        process = SideProcess((*self._command, "study", "submit", *words), {"WINA_DATABASE": self._url}, self)
        process.succeeded.connect(self._on_submitted)
        process.failed.connect(self.failed)
        process.start()

    def _on_opened(self, store: Any) -> None:
        self._url = store.url.render_as_string(hide_password=False)

    def _on_submitted(self, output: str) -> None:
        self.submitted.emit(f"{output.splitlines()[-1] if output else 'Nothing is missing'}.")


class OtherPrograms(QObject):
    """The jobs of other programs on this window's database, and the cancellations by other programs of its own.

    Any program cancels a job by deleting its row.
    """

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
            # Another program has deleted the row.
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
        self._own_ids -= {job_id}  # queued again under its id, it must not count as deleted

    def _follow(self, job: "ListedJob") -> None:
        jobs, job_id = self._workbench.jobs, job.submit.job_id
        if job_id in jobs and not jobs[job_id].is_elsewhere:
            return  # it was this window's, which is closing
        if job_id not in self._foreign_jobs:
            title = f"{job.submit.title or 'Job'} (another program)"
            cancel = partial(self._cancel, job_id)
            self._workbench.host(OtherProgramsJob(computes=job.submit.job.kind), title, cancel, job_id)
        self._foreign_jobs[job_id] = job
        if job.state == "running" and jobs[job_id].waiting:
            jobs.apply(Started(job_id=job_id))
        if job.total is not None:
            jobs.apply(Progress(job_id=job_id, done=job.done, total=job.total, unit="measurements"))

    def _end(self, job: "ListedJob", *, died: bool) -> None:
        """Show the end of a job, as cancelled if its program died, or a run of it has neither ended nor failed."""
        runs = job.submit.job.runs if isinstance(job.submit.job, EvaluateJob) else ()
        job_id, jobs = job.submit.job_id, self._workbench.jobs

        def answer(statuses: list[RunStatus | None]) -> None:
            cancelled = died or jobs[job_id].phase == "cancelling"
            cancelled |= any(status not in ("done", "failed") for status in statuses)
            jobs.apply(Done(job_id=job_id, cancelled=cancelled))

        self._workbench.store.ask(
            lambda store: [store.run_status(run.spec.content_hash()) for run in runs],
            answer,
            lambda _text: jobs.apply(Done(job_id=job_id, cancelled=True)),
        )

    def _cancel(self, job_id: str) -> None:
        self._workbench.store.write(lambda store: store.forget_jobs([job_id]), self._workbench.storing_failed.emit)
