"""Export of a gated model as a folder: the command of a page that asks for it, and its job."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QAbstractButton, QFileDialog

from wina_app.services.workbench import Workbench
from wina_app.shared.export_jobs import ExportJobs
from wina_app.style.number_format import percent
from wina_app.widgets.base_page import Page, with_shortcut
from wina_app.widgets.plain_text import plain_tip
from wina_core.errors import WinaError
from wina_core.jobs import ExportModelJob, ResultValue
from wina_core.records import ExportRecord
from wina_core.specs import DENSE, Configuration, RunSpec

if TYPE_CHECKING:  # SQLAlchemy takes a second to import: only the store's thread does
    from wina_core.store import Store

SHORT = "Export model…"
"""Text of the button in a page's head, which has little room."""
_TEXT = "Export sparse model…"
_TIP = "Save as a Hugging Face folder that transformers loads gated, with a model card of its stored results"
_KEYS = "Ctrl+Shift+F"

CANCELLED = "The export was cancelled; no folder was written."


class SparseExportCommand(QObject):
    """Command in the page's menu and in the palette, and its button."""

    folder_chosen = Signal(Path)

    def __init__(self, page: Page, button: QAbstractButton, text: str = _TEXT) -> None:
        """Make `button` the command's, with this text."""
        super().__init__(page)
        self._page, self.button = page, button
        self.action = page.add_command(_TEXT, self._choose, _KEYS)
        button.setText(text)
        button.setAccessibleName(_TEXT.rstrip("…"))
        button.clicked.connect(self.action.trigger)
        self.show_reason("")

    def show_reason(self, reason: str) -> None:
        """Enable the export, or disable it for a reason."""
        for control in (self.button, self.action):
            control.setEnabled(not reason)
            control.setToolTip(plain_tip(reason) if reason else with_shortcut(_TIP, _KEYS))

    def _choose(self) -> None:
        title = "Save the sparse model in an empty folder"
        folder = QFileDialog.getExistingDirectory(self._page, title)
        if folder:
            self.folder_chosen.emit(Path(folder))


class SparseExport(QObject):
    """Exporter of the runs of one page, each by a job of the engine."""

    def __init__(self, workbench: Workbench, view: Page) -> None:
        super().__init__()
        self._workbench, self._view = workbench, view
        self._jobs = ExportJobs(workbench, view, CANCELLED, self._show)

    def export(self, folder: Path, find: "Callable[[Store], RunSpec]") -> None:
        """Write the gated model of the run that `find` returns, on the store's thread, to a new folder."""
        self._view.clear_message()

        def question(store: "Store") -> ExportModelJob:
            from wina_core.report.model_card import export_job

            return export_job(store, find(store), folder)

        self._workbench.store.ask(question, self._submit, self._view.show_error)

    def export_run(self, folder: Path, run: str) -> None:
        """Write the gated model of the stored run with this hash to a new folder."""

        def find(store: "Store") -> RunSpec:
            spec = store.run_spec(run)
            if spec is None:
                raise WinaError("The run is no longer stored; select another one.")
            return spec

        self.export(folder, find)

    def _submit(self, job: ExportModelJob) -> None:
        spec = job.spec
        title = (
            f"Export sparse model: {Configuration(rotation=spec.rotation, method=spec.method).label}, "
            f"{percent(spec.plan.budget)}"
        )
        self._jobs.start(job, title)

    def _show(self, record: ResultValue) -> None:
        assert isinstance(record, ExportRecord)
        folder = Path(record.folder)
        self._view.show_saved(folder, loading_text(folder))


def loading_text(folder: Path) -> str:
    """Return the name of an exported folder, and how transformers loads it."""
    return f"{folder.name}: transformers loads it after `import wina_core.hf`; its README.md has the lines"


def one_sparse(runs: Sequence[RunSpec]) -> RunSpec:
    """Return the one gated run among chosen ones. Raise WinaError for none and for several."""
    if problem := export_problem(runs):
        raise WinaError(problem)
    return next(filter(_is_gated, runs))


def export_problem(runs: Sequence[RunSpec]) -> str:
    """Return why chosen runs are no sparse model; empty for one gated run, perhaps beside the dense one."""
    count = sum(map(_is_gated, runs))
    if count == 1:
        return ""
    return f"A folder holds one sparse model, but {count} are chosen; choose one method, rotation and sparsity."


def _is_gated(run: RunSpec) -> bool:
    return run.method.name != DENSE.name
