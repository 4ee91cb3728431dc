"""Controller of the Rotation page: choose, measure and export rotations."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from PySide6.QtCore import QObject

from wina_app.jobs.job_entry import JobEntry, gguf_text
from wina_app.pages.rotation.page import RotationPage
from wina_app.services.workbench import Workbench
from wina_app.services.workspace import Workspace, name_of
from wina_app.shared.export_jobs import ExportJobs
from wina_app.shared.page_job import PageJob
from wina_core.errors import WinaError, explain
from wina_core.files.paths import check_new_file, find_converter
from wina_core.jobs import ExportGgufJob, ResultValue, RotateJob
from wina_core.jobs.planning import MissingProduct, missing_rotation
from wina_core.model_info.resolve import resolve_rotation
from wina_core.records import GgufRecord, RotationReport
from wina_core.specs import ModelSource, RotationSpec
from wina_core.specs.machine import LOCAL

NO_MODEL = "Open a model first"
QUANTIZED = "The converter reads whole weights; choose no bits on the Sparsity page"
SHORTCUTS = "A GGUF file cannot hold residual shortcuts; choose the mode Global or None"
EXPORTED_SHORTCUTS = "A GGUF file cannot hold this model's residual shortcuts; open one without them"
EXPORT_CANCELLED = "The export was cancelled; no GGUF file was written."
NO_CONVERTER = "llama.cpp's converter writes the file: get llama.cpp's sources, export again, and choose their folder."

IDENTITY = "This choice changes no weight; choose a mode or the per-head rotation"
CANCELLED = "The rotation was cancelled. Finished stages are kept: rotating the same again continues from there."
_log = logging.getLogger(__name__)


class GgufExport:
    """Exporter of GGUF files, each by a job of the engine."""

    def __init__(self, workbench: Workbench, view: RotationPage) -> None:
        self._workbench, self._view = workbench, view
        self._jobs = ExportJobs(workbench, view, EXPORT_CANCELLED, self._show)

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
        self._jobs.start(job, f"Export GGUF file: {file.name}", (LOCAL,))

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
    model = name_of(workspace.source.location) if workspace.source else ""
    return f"{model}.gguf" if workspace.rotation.is_identity else f"{model}-rotated.gguf"


class RotationController(QObject):
    """Keeper of the workspace's rotation, measured by the engine."""

    def __init__(self, workbench: Workbench, view: RotationPage) -> None:
        super().__init__()
        self._workbench, self._view = workbench, view
        self._workspace = workbench.workspace
        self.gguf = GgufExport(workbench, view)
        self._job = PageJob(workbench, view, CANCELLED)
        self._job.changed.connect(self._on_job)
        self._job.finished.connect(self._on_rotated)
        self._problem = ""
        self._resumable: tuple[ModelSource, RotationSpec] | None = None
        """The rotation whose finished stages are on disk, from which it continues."""
        self._workspace.model_changed.connect(self._look_up)
        self._workspace.rotation_changed.connect(self._show)
        self._workspace.quantization_settled.connect(self._show)
        view.choice_changed.connect(lambda: self.choose(view.panel.fields()))
        view.rotate_requested.connect(self.rotate)
        view.gguf_requested.connect(self.gguf.export)
        view.progress.pause_requested.connect(self._job.pause)
        view.progress.resume_requested.connect(self._job.resume)
        view.progress.cancel_requested.connect(self._job.cancel)
        self._show()

    def choose(self, fields: Mapping[str, Any]) -> None:
        """Choose the rotation with these fields of RotationSpec; show a contradiction instead."""
        try:
            spec = resolve_rotation(RotationSpec.model_validate(dict(fields)))
        except (ValidationError, WinaError) as error:
            self._problem = explain(error) if isinstance(error, ValidationError) else str(error)
            self._show_action()
            self._view.show_error(self._problem)
            return
        if self._problem:
            self._problem = ""
            self._view.clear_message()
        if spec == self._workspace.rotation:
            self._show_action()
            return
        self._workspace.set_rotation(spec)
        self._look_up()

    def rotate(self, folder: str = "") -> None:
        """Measure the chosen rotation, and save the rotated model if a folder is given."""
        source, export_to = self._workspace.source, folder or None
        if source is None or self._job.entry is not None:
            return
        spec = self._workspace.rotation
        self._view.clear_message()
        title = f"Export rotated model: {spec.label}" if export_to else f"Rotate: {spec.label}"
        job = RotateJob(model=source, rotation=spec, spectra=True, export_to=export_to)
        self._job.ask_and_start(job, title)

    def _look_up(self) -> None:
        """Show the stored measurement of this rotation of this model, if any."""
        source, spec = self._workspace.source, self._workspace.rotation
        if source is None or spec.is_identity:
            return

        def question(store: Any) -> RotationReport | None:
            rows = store.rotations(source)
            return next((row.report for row in rows if row.rotation == spec), None)

        def answer(report: RotationReport | None) -> None:
            same = self._workspace.source == source and self._workspace.rotation == spec
            # A report that came meanwhile is newer than the stored one.
            if report is not None and same and self._workspace.rotation_report is None:
                self._workspace.set_rotation(spec, report)

        self._workbench.store.ask(question, answer)
        self._look_for_stages()

    def _look_for_stages(self) -> None:
        """Ask whether an interrupted search for this rotation has finished stages."""
        source, spec = self._workspace.source, self._workspace.rotation
        if source is None or spec.is_identity:
            return

        def answer(missing: MissingProduct | None) -> None:
            self._resumable = (source, spec) if missing is not None and missing.begun else None
            self._show_action()

        self._workbench.checks.ask(lambda: missing_rotation(source, spec), answer, _log.error)

    def _show(self) -> None:
        workspace = self._workspace
        self._view.show_context(workspace.breadcrumb(), workspace.summary)
        self._view.panel.show_choice(workspace.rotation)
        self._view.show_report(workspace.rotation_report, workspace.summary)
        self._show_action()

    def _show_action(self) -> None:
        reason = self._problem
        if self._workspace.source is None:
            reason = NO_MODEL
        elif self._workspace.rotation.is_identity:
            reason = self._problem or IDENTITY
        resumable = self._resumable == (self._workspace.source, self._workspace.rotation)
        self._view.show_action(running=self._job.entry is not None, reason=reason, resumable=resumable)
        self._view.show_gguf(gguf_name(self._workspace), self._problem or gguf_problem(self._workspace))
        self._view.show_progress(self._job.entry)

    def _on_job(self) -> None:
        self._show_action()
        if self._job.entry is None:
            self._look_for_stages()

    def _on_rotated(self, entry: JobEntry) -> None:
        if isinstance(entry.job, RotateJob) and isinstance(entry.result, RotationReport):
            if entry.result.exported_to:
                self._view.show_saved(Path(entry.result.exported_to))
            if entry.job.model == self._workspace.source and entry.job.rotation == self._workspace.rotation:
                self._workspace.set_rotation(entry.job.rotation, entry.result)
