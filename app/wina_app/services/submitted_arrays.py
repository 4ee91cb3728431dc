"""Array jobs of the database in clusters' queues: submitted, watched and cancelled by `wina` beside the window."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

from pydantic import ValidationError
from PySide6.QtCore import QObject, QProcess, QProcessEnvironment, Signal

from wina_app.services.side_process import SideProcess
from wina_app.services.workbench import Workbench
from wina_app.style.translation import tr
from wina_core.files.own_command import own_command
from wina_core.jobs import Done, Failed, Progress, Started
from wina_core.jobs.hosted import ArrayReport

_LEAVING_MS = 2_000
_log = logging.getLogger("wina_app.arrays")


class SubmittedArrays(QObject):
    """The arrays as jobs of the window. They continue without it, and their results are imported while it is open."""

    submitted = Signal(str)
    """Sentence on a study that is in the queue."""
    failed = Signal(str)

    def __init__(self, workbench: Workbench, command: Sequence[str] = own_command("wina_core.cli")) -> None:
        """Take the command that runs `wina`."""
        super().__init__()
        self._workbench, self._command, self._url = workbench, tuple(command), ""
        self._running: set[SideProcess] = set()
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
        self._run(("study", "submit", *words), self._on_submitted, self.failed.emit)

    def watch(self) -> None:
        """Import what comes, until all arrays have ended."""
        if self._watch.state() != QProcess.ProcessState.NotRunning:
            self._again = True
            return
        self._again = False
        variables = QProcessEnvironment.systemEnvironment()
        variables.insert("PYTHONIOENCODING", "utf-8")
        variables.insert("WINA_DATABASE", self._url)
        self._watch.setProcessEnvironment(variables)
        self._watch.start(self._command[0], [*self._command[1:], "cluster", "watch"])

    def leave(self) -> None:
        """End the processes with the window; the arrays continue."""
        self._watch.blockSignals(True)
        self._watch.kill()
        self._watch.waitForFinished(_LEAVING_MS)
        for process in self._running:
            process.stop()

    def _on_opened(self, store: Any) -> None:
        self._url = store.url.render_as_string(hide_password=False)

        def question(opened: Any) -> bool:
            from wina_core.remote.slurm import submitted_arrays  # loads what the store's thread has anyway

            return bool(submitted_arrays(opened))

        self._workbench.store.ask(question, lambda found: self.watch() if found else None)

    def _run(self, words: Sequence[str], succeeded: Callable[[str], object], failed: Callable[[str], object]) -> None:
        process = SideProcess((*self._command, *words), {"WINA_DATABASE": self._url}, self)
        process.succeeded.connect(lambda output: self._on_ended(process, succeeded, output))
        process.failed.connect(lambda reason: self._on_ended(process, failed, reason.removeprefix("wina: ")))
        self._running.add(process)
        process.start()

    def _on_ended(self, process: SideProcess, then: Callable[[str], object], text: str) -> None:
        self._running.discard(process)
        process.deleteLater()
        then(text)

    def _on_submitted(self, output: str) -> None:
        sentence = output.splitlines()[-1].partition(";")[0].rstrip(".") if output else tr("Nothing is missing")
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
            title = tr("{title} (Slurm job {job})", title=report.title, job=job.job)
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

        self._run(("jobs", "cancel", array), done, self.failed.emit)
