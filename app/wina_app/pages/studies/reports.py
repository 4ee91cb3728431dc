"""Writer of reports in separate processes: a report takes seconds."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, Signal

from wina_app.pages.studies.study_state import expanded
from wina_app.services.side_process import SideProcess
from wina_app.services.workbench import Workbench
from wina_core.files.own_command import own_command
from wina_core.specs.studies import StudySpec

_PREFIX, _SUFFIX = "The report is ", "."
"""Output of `wina report` around its page's path."""


class StudyReports(QObject):
    """Report writer; `pages` has the reports of this session by study file."""

    written = Signal(object)
    """File of the study whose report was written."""
    failed = Signal(str)

    def __init__(self, workbench: Workbench, command: Sequence[str] = own_command("wina_core.cli")) -> None:
        """Take the command that runs `wina`."""
        super().__init__()
        self.pages: dict[Path, Path] = {}
        self._store, self._command = workbench.store, tuple(command)
        self._running: set[SideProcess] = set()
        workbench.stopped.connect(self.stop)

    def write(self, file: Path, study: StudySpec, folder: Path) -> None:
        """Write the report of a study with its roles mapped into a folder; a signal follows."""

        def question(store: Any) -> str:
            if store.study_spec(study.content_hash()) is None:  # its runs are those of others
                expansion = expanded(study)
                if not store.pending(expansion.runs):
                    store.save_study(study, expansion.labelled)
            return str(store.url.render_as_string(hide_password=False))

        def answer(url: str) -> None:
            words = ("report", study.content_hash(), "--output-path", str(folder.absolute()))
            # Of a command line everyone on the machine sees a database's password, of the environment nobody else.
            process = SideProcess((*self._command, *words), {"WINA_DATABASE": url}, self)
            process.succeeded.connect(lambda output: self._on_written(process, file, output))
            process.failed.connect(lambda reason: self._on_failed(process, reason))
            self._running.add(process)
            process.start()

        self._store.ask(question, answer, self.failed.emit)

    def stop(self) -> None:
        """Stop writing; a file is replaced only if complete."""
        for process in self._running:
            process.stop()
        self._running = set()

    def _on_written(self, process: SideProcess, file: Path, output: str) -> None:
        self._release(process)
        report_lines = [line for line in output.splitlines() if line.startswith(_PREFIX)]
        self.pages[file] = Path(report_lines[-1].removeprefix(_PREFIX).removesuffix(_SUFFIX))
        self.written.emit(file)

    def _on_failed(self, process: SideProcess, reason: str) -> None:
        self._release(process)
        self.failed.emit(reason.removeprefix("wina: "))

    def _release(self, process: SideProcess) -> None:
        self._running.discard(process)
        process.deleteLater()
