"""Jobs that measure studies, and the processes that write their reports."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, Signal

from wina_app.jobs.job_entry import JobEntry
from wina_app.pages.studies.study_state import StudyState, expanded
from wina_app.services.side_process import SideProcess, stop_processes
from wina_app.services.workbench import Workbench
from wina_core.files.own_command import own_command
from wina_core.jobs import EvaluateJob, Job, LatencyJob
from wina_core.specs.studies import StudySpec


class StudyJobs(QObject):
    """Jobs that this window queued for studies, by the study's file."""

    changed = Signal(object)
    """File of the study whose jobs changed."""
    ended = Signal(object, object)
    """File and `JobEntry`."""
    other_ended = Signal()
    """A job of no study ended; it may have measured some of a study's runs."""

    def __init__(self, workbench: Workbench) -> None:
        super().__init__()
        self._workbench = workbench
        self._files: dict[str, Path] = {}
        workbench.jobs.added.connect(self._on_job)
        workbench.jobs.requeued.connect(self._on_job)
        workbench.jobs.changed.connect(self._on_job)
        workbench.jobs.ended.connect(self._on_ended)

    def launch(
        self,
        file: Path,
        title: str,
        study: StudySpec,
        state: StudyState,
        evaluation: EvaluateJob | None,
        machines: tuple[str, ...] | None = None,
    ) -> None:
        """Queue the evaluation, if there is one, on `machines` as of `Workbench.submit`, and the sweep's points neither
        stored nor queued."""
        if evaluation is not None:
            self._submit(file, evaluation, title, machines)
        if study.latency is not None and state.points_missing and not self._is_timing(study):
            self._submit(file, LatencyJob(spec=study.latency, stored=state.timed or {}), f"{title}: products")

    def _submit(self, file: Path, job: Job, title: str, machines: tuple[str, ...] | None = None) -> None:
        job_id = self._workbench.submit(job, title, machines)
        self._files[job_id] = file
        self.changed.emit(file)

    def pause(self, file: Path | None) -> None:
        for entry in self.measuring(file):
            if entry.phase in ("queued", "running"):
                self._workbench.pause(entry.id)

    def resume(self, file: Path | None) -> None:
        for entry in self.measuring(file):
            if entry.phase == "paused":
                self._workbench.resume(entry.id)

    def cancel(self, file: Path | None) -> None:
        """Cancel the study's jobs; stored results stay."""
        for entry in self.measuring(file):
            self._workbench.cancel(entry.id)

    @property
    def files(self) -> frozenset[Path]:
        """Files of the studies with active jobs."""
        return frozenset(self._files[entry.id] for entry in self._workbench.jobs.active if entry.id in self._files)

    def measuring(self, file: Path | None) -> list[JobEntry]:
        """Return the active jobs that measure a study."""
        return [entry for entry in self._workbench.jobs.active if self._files.get(entry.id) == file]

    def _is_timing(self, study: StudySpec) -> bool:
        jobs = [entry.job for entry in self._workbench.jobs.active]
        return any(isinstance(job, LatencyJob) and job.spec == study.latency for job in jobs)

    def _on_job(self, job_id: str) -> None:
        if job_id in self._files:
            self.changed.emit(self._files[job_id])

    def _on_ended(self, job_id: str) -> None:
        file = self._files.get(job_id)
        if file is None:
            self.other_ended.emit()
        else:
            self.ended.emit(file, self._workbench.jobs[job_id])


_PREFIX, _SUFFIX = "The report is ", "."
"""Output of `wina report` around its page's path."""


class StudyReports(QObject):
    """Report writer; `pages` has the reports of this session by study file."""

    written = Signal(object)
    """File of the study whose report was written."""
    failed = Signal(str)

    def __init__(self, workbench: Workbench, command: Sequence[str] = own_command("wina_core.cli")) -> None:
        """`command` runs `wina`."""
        super().__init__()
        self.pages: dict[Path, Path] = {}
        self._store, self._command = workbench.store, tuple(command)
        workbench.stopped.connect(partial(stop_processes, self))  # a file is replaced only if complete

    def write(self, file: Path, study: StudySpec, folder: Path) -> None:
        """Write the report of a study with its roles mapped into a folder; a signal follows."""

        def question(store: Any) -> str:
            # `wina report` reads the study from the database, which lacks one whose runs other studies measured.
            if store.study_spec(study.content_hash()) is None:
                expansion = expanded(study)
                if not store.pending(expansion.runs):
                    store.save_study(study, expansion.labelled)
            return str(store.url.render_as_string(hide_password=False))

        def answer(url: str) -> None:
            words = ("report", study.content_hash(), "--output-path", str(folder.absolute()))
            # Everyone on the machine can read a command line, and with it a database's password.
            process = SideProcess((*self._command, *words), {"WINA_DATABASE": url}, self)
            process.succeeded.connect(partial(self._on_written, file))
            process.failed.connect(self.failed)
            process.start()

        self._store.ask(question, answer, self.failed.emit)

    def _on_written(self, file: Path, output: str) -> None:
        report_lines = [line for line in output.splitlines() if line.startswith(_PREFIX)]
        self.pages[file] = Path(report_lines[-1].removeprefix(_PREFIX).removesuffix(_SUFFIX))
        self.written.emit(file)
