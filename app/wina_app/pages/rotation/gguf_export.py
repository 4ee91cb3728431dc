"""Export of the open model with the chosen rotation as a GGUF file."""

from pathlib import Path
from typing import Protocol

from wina_app.jobs.job_entry import gguf_text
from wina_app.services.workbench import Workbench
from wina_app.services.workspace import Workspace, name_of
from wina_app.shared.export_jobs import ExportJobs, ExportView
from wina_app.style.translation import tr
from wina_core.errors import WinaError
from wina_core.files.paths import check_new_file, find_converter
from wina_core.jobs import ExportGgufJob, ResultValue
from wina_core.records import GgufRecord
from wina_core.specs.machine import LOCAL

NO_MODEL = tr("Open a model first")
QUANTIZED = tr("The converter reads whole weights; choose no bits on the Sparsity page")
SHORTCUTS = tr("A GGUF file cannot hold residual shortcuts; choose the mode Global or None")
EXPORTED_SHORTCUTS = tr("A GGUF file cannot hold this model's residual shortcuts; open one without them")
CANCELLED = tr("The export was cancelled; no GGUF file was written.")
NO_CONVERTER = tr(
    "llama.cpp's converter writes the file: get llama.cpp's sources, export again, and choose their folder."
)


class GgufView(ExportView, Protocol):
    """The page as this export sees it."""

    def ask_llama_cpp(self) -> Path | None:
        """Ask for the folder of llama.cpp's sources; return None if the user cancels."""


class GgufExport:
    """Exporter of GGUF files, each by a job of the engine."""

    def __init__(self, workbench: Workbench, view: GgufView) -> None:
        self._workbench, self._view = workbench, view
        self._jobs = ExportJobs(workbench, view, CANCELLED, self._show)

    def export(self, file: Path) -> None:
        """Write the open model with the chosen rotation to a new file."""
        workspace = self._workbench.workspace
        if workspace.source is None or gguf_problem(workspace):
            return
        self._view.clear_message()
        try:
            check_new_file(file)
            converter = self._converter()
        except WinaError as error:
            self._view.show_error(str(error))
            return
        if converter is None:
            self._view.show_notice(NO_CONVERTER)
            return
        job = ExportGgufJob(
            model=workspace.source, rotation=workspace.rotation, file=str(file), converter=str(converter)
        )
        # The converter, and llama.cpp, which checks the file, are looked for on this computer.
        self._jobs.start(job, tr("Export GGUF file: {name}", name=file.name), (LOCAL,))

    def _converter(self) -> Path | None:
        """Return llama.cpp's converter, whose folder is asked for once; None if the user cancels.

        Raises WinaError if it is not in the folder.
        """
        configured = self._workbench.settings.llama_cpp
        try:
            return find_converter(Path(configured) if configured else None)
        except WinaError:
            folder = self._view.ask_llama_cpp()
        if folder is None:
            return None
        converter = find_converter(folder)
        self._workbench.settings.llama_cpp = str(folder)
        return converter

    def _show(self, record: ResultValue) -> None:
        assert isinstance(record, GgufRecord)
        self._view.show_saved(Path(record.file), gguf_text(record))


def gguf_problem(workspace: Workspace) -> str:
    """Return why no GGUF file can hold the open model with the chosen rotation; empty if one can."""
    if workspace.source is None:
        return NO_MODEL
    if workspace.quantization != "none":
        return QUANTIZED
    if workspace.rotation.needs_shortcuts:
        return SHORTCUTS
    shape = workspace.summary.shape if workspace.summary else None
    return EXPORTED_SHORTCUTS if shape is not None and shape.shortcuts != "none" else ""


def gguf_name(workspace: Workspace) -> str:
    """Return the proposed name of a file."""
    model = name_of(workspace.source.location) if workspace.source else ""
    return f"{model}.gguf" if workspace.rotation.is_identity else f"{model}-rotated.gguf"
