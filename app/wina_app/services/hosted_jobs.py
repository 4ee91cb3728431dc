"""Jobs that no engine of this window computes: array jobs in clusters' queues, and jobs of other programs."""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from PySide6.QtCore import QObject, QProcess, QTimer, Signal

from wina_app.services.side_process import SideProcess, environment_with, stop_processes
from wina_app.services.workbench import Workbench
from wina_core.files.own_command import own_command
from wina_core.jobs import Done, EvaluateJob, Failed, Progress, Started
from wina_core.jobs.hosted import ArrayReport, OtherProgramsJob
from wina_core.records import RunStatus

if TYPE_CHECKING:  # SQLAlchemy is imported off the main thread
    from wina_core.store.jobs import ListedJob

_LEAVING_MS = 2_000
_log = logging.getLogger("wina_app.arrays")

LOOK_MS = 5_000
"""Interval of looking for the end of other programs."""


class SubmittedArrays(QObject):
    """The array jobs in queues of clusters: `wina` submits, watches and cancels them beside the window.

    They continue without the window, and their results are imported while it is open.
    """

    submitted = Signal(str)
    """Sentence on a study that is in the queue."""
    failed = Signal(str)

    def __init__(self, workbench: Workbench, command: Sequence[str] = own_command("wina_core.cli")) -> None:
        """Take the command that runs `wina`."""
        super().__init__()
        self._workbench, self._command, self._url = workbench, tuple(command), ""
        self._again = False
        """True if an array was submitted while the watching process was ending."""
        self._watch = QProcess(self)
        self._watch.readyReadStandardOutput.connect(self._on_lines)
        self._watch.readyReadStandardError.connect(self._on_errors)
        self._watch.finished.connect(self._on_watch_ended)
        workbench.store.opened.connect(self._on_opened)
        workbench.stopped.connect(self.leave)

    def submit(self, words: Sequence[str]) -> None:
        """Run `wina study submit` with these words; a signal follows."""
        self._run(("study", "submit", *words), self._on_submitted)

    def watch(self) -> None:
        """Import what comes, until all arrays have ended."""
        if self._watch.state() != QProcess.ProcessState.NotRunning:
            self._again = True
            return
        self._again = False
        self._watch.setProcessEnvironment(environment_with({"WINA_DATABASE": self._url}))
        self._watch.start(self._command[0], [*self._command[1:], "cluster", "watch"])

    def leave(self) -> None:
        """End the processes with the window; the arrays continue."""
        # Its end would start it again if an array was submitted meanwhile.
        self._watch.blockSignals(True)
        self._watch.kill()
        self._watch.waitForFinished(_LEAVING_MS)
        stop_processes(self)

    def _on_opened(self, store: Any) -> None:
        self._url = store.url.render_as_string(hide_password=False)

        def question(opened: Any) -> bool:
            from wina_core.remote.slurm import submitted_arrays  # loads what the store's thread has anyway

            return bool(submitted_arrays(opened))

        self._workbench.store.ask(question, lambda found: self.watch() if found else None)

    def _run(self, words: Sequence[str], succeeded: Callable[[str], object]) -> None:
        process = SideProcess((*self._command, *words), {"WINA_DATABASE": self._url}, self)
        process.succeeded.connect(succeeded)
        process.failed.connect(self.failed)
        process.start()

    def _on_submitted(self, output: str) -> None:
        sentence = output.splitlines()[-1].partition(";")[0].rstrip(".") if output else "Nothing is missing"
        self.submitted.emit(f"{sentence}.")
        self.watch()

    def _on_lines(self) -> None:
        while self._watch.canReadLine():
            line = bytes(self._watch.readLine().data())
            try:
                report = ArrayReport.model_validate_json(line)
            except ValidationError:
                _log.debug("%s", line.decode(errors="replace").rstrip())
                continue
            self._on_report(report)

    def _on_errors(self) -> None:
        for line in bytes(self._watch.readAllStandardError().data()).decode(errors="replace").splitlines():
            _log.warning("%s", line)

    def _on_watch_ended(self) -> None:
        if self._again:
            self.watch()

    def _on_report(self, report: ArrayReport) -> None:
        jobs, job, name = self._workbench.jobs, report.job, report.job.array
        if name not in jobs:
            title = f"{report.title} (Slurm job {job.job})"
            self._workbench.host(job, title, lambda: self._cancel(name), name)
            jobs.apply(Started(job_id=name))
        entry = jobs[name]
        if not entry.active:
            return
        if entry.done != report.done:
            self._workbench.store.write(lambda _store: None, self.failed.emit)  # it is stored: `changed` follows
        if entry.metric != report.states:
            _log.info("%s", report.states, extra={"job": name})
        for text in (*report.failures, report.log):
            if text:
                _log.error("%s", text, extra={"job": name})
        jobs.apply(
            Progress(job_id=name, done=report.done, total=report.total, unit="measurements", metric=report.states)
        )
        if report.failures:
            jobs.report_error(name, report.failures[-1])
        if report.ended and jobs[name].error and not report.cancelled:
            jobs.apply(Failed(job_id=name, error=jobs[name].error))
        elif report.ended:
            jobs.apply(Done(job_id=name, cancelled=report.cancelled))

    def _cancel(self, array: str) -> None:
        def done(_output: str) -> None:
            self._workbench.jobs.apply(Done(job_id=array, cancelled=True))
            self._workbench.store.write(lambda _store: None, self.failed.emit)

        self._run(("jobs", "cancel", array), done)


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
        """Show the end of a job: its program died, all of its runs are done or failed, or it was cancelled."""
        runs = job.submit.job.runs if isinstance(job.submit.job, EvaluateJob) else ()
        job_id, jobs = job.submit.job_id, self._workbench.jobs

        def answer(statuses: list[RunStatus | None]) -> None:
            cancelled = died or jobs[job_id].phase == "cancelling"
            cancelled |= any(status not in ("done", "failed") for status in statuses)
            if statuses and not cancelled and "done" not in statuses:
                jobs.apply(Failed(job_id=job_id, error="All of its runs failed; the Results page has the reasons."))
            else:
                jobs.apply(Done(job_id=job_id, cancelled=cancelled))

        self._workbench.store.ask(
            lambda store: [store.run_status(run.spec.content_hash()) for run in runs],
            answer,
            lambda _text: jobs.apply(Done(job_id=job_id, cancelled=True)),
        )

    def _cancel(self, job_id: str) -> None:
        self._workbench.store.write(lambda store: store.forget_jobs([job_id]), self._workbench.storing_failed.emit)
