"""View of the Rotation page."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError
from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFileDialog, QStackedWidget, QVBoxLayout, QWidget

from wina_app.jobs.job_entry import JobEntry
from wina_app.pages.rotation.panel import RotationPanel
from wina_app.pages.rotation.report_panes import RefinementPlot
from wina_app.pages.rotation.report_view import RotationReportView
from wina_app.plots.export import add_menu, offer_export
from wina_app.shared.job_strip import JobStrip
from wina_app.style.theme import GRID
from wina_app.widgets.base_page import Page
from wina_app.widgets.boxes import STRETCH, fill, hbox, vbox
from wina_app.widgets.controls import ElidedLabel, push_button, text_label
from wina_app.widgets.file_dialogs import choose_new_file
from wina_app.widgets.plain_text import plain_tip
from wina_core.records import ModelSummary, RefinementStep, RotationReport
from wina_core.specs import RotationSpec


class RotationPage(Page):
    """Page to choose a rotation and see its measurement."""

    choice_changed = Signal()
    rotate_requested = Signal(str)
    """Folder for the rotated model; empty to measure alone."""
    gguf_requested = Signal(Path)

    def __init__(self) -> None:
        super().__init__("rotation", "Rotation")
        self.export = push_button("Export rotated model…", self._choose_export)
        self.gguf = push_button("Export GGUF file…", self._choose_gguf)
        self.gguf_command = self.add_command("Export GGUF file…", self._choose_gguf)
        self._gguf_name = ""
        for button in (self.export, self.gguf):
            self.header_actions.addWidget(button)
        content = QWidget()
        row = hbox(content, spacing=0)
        self.panel = RotationPanel()
        self.panel.changed.connect(self.choice_changed)
        row.addWidget(self.panel)
        row.addWidget(self._build_report(), 1)
        self.set_content(content)
        self.remembered |= {"shown": self.report.quantity}
        self.set_primary("Rotate")
        self.primary_triggered.connect(lambda: self.rotate_requested.emit(""))
        self.empty_triggered.connect(lambda: self.crumb_clicked.emit("model"))

    def _build_report(self) -> QWidget:
        self.report = RotationReportView()
        offer_export(self, self.report.heatmap, "off-diagonal energy", "Ctrl+P")
        offer_export(self, self.report.curve, "refinement", "Ctrl+Shift+P")
        waiting = QWidget()
        column = vbox(waiting, margins=(GRID * 3, GRID * 2, GRID * 3, GRID * 2))
        self._state_title = text_label("", "title")
        self._state_text = text_label("", wrap=True)
        for widget in (self._state_title, self._state_text):
            column.addWidget(widget)
        self.curve: RefinementPlot | None = None
        """The curve of a running refinement, made at its first step."""
        self._curve_column = QVBoxLayout()
        fill(column, (self._curve_column, 100), STRETCH)
        self._has_report = False
        self._panes = QStackedWidget()
        self._waiting = waiting
        self._panes.addWidget(waiting)
        self._panes.addWidget(self.report)
        self.progress = JobStrip("Rotation progress", "Cancel rotation")
        whole = QWidget()
        vbox(whole, (self._panes, 1), self.progress, spacing=0)  # below: nothing above it moves
        return whole

    def _choose_export(self) -> None:
        title = "Save the rotated model in an empty folder"
        folder = QFileDialog.getExistingDirectory(self, title)
        if folder:
            self.rotate_requested.emit(folder)

    def _choose_gguf(self) -> None:
        choose_new_file(self, "Export GGUF file", self._gguf_name, "GGUF file", self.gguf_requested.emit)

    def ask_llama_cpp(self) -> Path | None:
        """Ask for the folder of llama.cpp's sources; return None if the user cancels."""
        folder = QFileDialog.getExistingDirectory(self, "Choose llama.cpp's folder, with convert_hf_to_gguf.py")
        return Path(folder) if folder else None

    def view_state(self) -> dict[str, object]:
        """Add the form to what the next start restores."""
        try:
            chosen = RotationSpec.model_validate(self.panel.fields())
        except ValidationError:  # a contradiction, which the page shows, is not kept
            return super().view_state()
        return super().view_state() | {"rotation": chosen.model_dump(mode="json")}

    def restore_view(self, state: Mapping[str, object]) -> None:
        """Choose the rotation of the last session."""
        super().restore_view(state)
        try:
            self.panel.show_choice(RotationSpec.model_validate(state.get("rotation")))
        except ValidationError:  # none, or one of a later version
            return
        self.choice_changed.emit()

    def show_context(self, breadcrumb: list[tuple[str, str]], summary: ModelSummary | None) -> None:
        """Show the header of the current model; None is the empty state."""
        self.set_breadcrumb(breadcrumb)
        self.panel.show_model(summary)
        if summary is None:
            self.show_empty(
                "No model to rotate",
                (
                    "A rotation changes the basis of the residual stream without changing what the model computes. In "
                    "the right basis the columns of the weights are orthogonal, and dropping inputs costs less."
                ),
                "Go to the Model page",
                wants_model=True,
            )
        elif self.is_empty:
            self.show_content()

    def show_action(self, *, running: bool, reason: str, resumable: bool = False) -> None:
        """Name the primary action, also for a rotation that is `resumable`; a reason disables it."""
        reason = reason or ("A rotation is running" if running else "")
        text = "Continue rotation" if resumable and not reason else "Rotate"
        self.set_primary(text, enabled=not reason, reason=reason)
        self.export.setEnabled(not reason)
        self.export.setToolTip(reason or "Save as a Hugging Face folder, shortcuts included")

    def show_gguf(self, name: str, reason: str) -> None:
        """Propose the name of a GGUF file; a reason disables its export."""
        self._gguf_name = name
        tip = reason or "Save for llama.cpp, with this rotation, by llama.cpp's own converter"
        for control in (self.gguf, self.gguf_command):
            control.setEnabled(not reason)
            control.setToolTip(plain_tip(tip))

    def show_progress(self, entry: JobEntry | None) -> None:
        """Show the progress of the running rotation; None hides it."""
        self.progress.show_job(entry)
        self._show_steps(() if entry is None else entry.refinement)
        self._show_pane()
        if entry is not None:
            self._panes.setCurrentWidget(self._waiting)

    def _show_steps(self, steps: Sequence[RefinementStep]) -> None:
        if self.curve is None:
            if not steps:
                return
            self.curve, readout = RefinementPlot(), ElidedLabel("muted")
            self.curve.readout_changed.connect(readout.setText)
            add_menu(self, self.curve, "refinement")
            fill(self._curve_column, (self.curve, 1), readout)
        self.curve.setVisible(bool(steps))
        self.curve.show_steps(steps)

    def show_report(self, report: RotationReport | None, summary: ModelSummary | None) -> None:
        """Show the measured rotation; None if it was not measured yet."""
        self._has_report = report is not None and summary is not None
        if report is not None and summary is not None:
            self.report.show_report(report, summary)
        self._show_pane()

    def _show_pane(self) -> None:
        if self._has_report:
            self._panes.setCurrentWidget(self.report)
            return
        identity = self.panel.is_identity
        self._state_title.setText("No rotation" if identity else "Not measured yet")
        self._state_text.setText(
            "Runs use the model's own basis."
            if identity
            else (
                "Rotate computes the bases, rotates the weights and measures the logits error and the "
                "orthogonality of each matrix's columns. A run that needs the rotation computes it, too."
            )
        )
        self._panes.setCurrentWidget(self._waiting)
