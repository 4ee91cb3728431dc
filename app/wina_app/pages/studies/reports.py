"""Processes that write the reports of studies."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, Signal

from wina_app.pages.studies.study_state import expanded
from wina_app.services.side_process import SideProcess, stop_processes
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
