"""View of the Rotation page."""

import math

import numpy as np
from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFileDialog, QProgressBar, QStackedWidget, QWidget

from wina_app.heatmap.heatmap import Heatmap
from wina_app.jobs.job_list import JobEntry
from wina_app.jobs.texts import progress_text
from wina_app.pages.rotation.panel import RotationPanel
from wina_app.plots.colour_bar import ColourBar
from wina_app.plots.colour_maps import ColourScale, three_digits
from wina_app.plots.export import offer_export
from wina_app.style.number_format import count, percent, scientific
from wina_app.style.theme import GRID
from wina_app.style.translation import tr
from wina_app.widgets.base_page import Page
from wina_app.widgets.boxes import hbox, vbox
from wina_app.widgets.controls import Readouts, beside, push_button, text_label
from wina_app.widgets.help_button import HelpButton
from wina_core.records import ModelSummary, RotationReport
from wina_core.specs import RotationSpec


class RotationPage(Page):
    """Page to choose a rotation and see its measurement."""

    choice_changed = Signal()
    rotate_requested = Signal()
    cancel_requested = Signal()
    export_requested = Signal(str)

    def __init__(self) -> None:
        super().__init__("rotation", tr("Rotation"))
        self._running = False
        self.export = push_button(tr("Export rotated model…"), self._choose_export)
        self.header_actions.addWidget(self.export)
        content = QWidget()
        row = hbox(content, spacing=0)
        self.panel = RotationPanel()
        self.panel.changed.connect(self.choice_changed)
        row.addWidget(self.panel)
        row.addWidget(self._build_report(), 1)
        self.set_content(content)
        self.set_primary(tr("Rotate"))
        self.primary_triggered.connect(self._on_primary)
        self.empty_triggered.connect(lambda: self.crumb_clicked.emit("model"))

    def _build_report(self) -> QWidget:
        self.figures = Readouts(columns=4)
        self.heatmap = Heatmap(tr("Off-diagonal energy, layers by projections"))
        self.heatmap.tooltip = self._cell_text
        offer_export(self, self.heatmap, tr("off-diagonal energy"), "Ctrl+P")
        self.colour_bar = ColourBar()
        self._values = np.empty((0, 0))
        measured = QWidget()
        column = vbox(measured, self.figures, GRID, margins=(GRID * 3, GRID * 2, GRID * 3, GRID * 2))
        heading = text_label(tr("Off-diagonal energy of WᵀW after the rotation"), "section")
        column.addLayout(beside(heading, HelpButton("Off-diagonal energy")))
        column.addWidget(
            text_label(
                tr(
                    "‖offdiag(WᵀW)‖² / ‖WᵀW‖²: 0 where the columns of W are orthogonal, so that the score |x|·c tells "
                    "exactly what dropping an input costs."
                ),
                "muted",
                wrap=True,
            )
        )
        column.addWidget(self.heatmap, 1)
        column.addWidget(self.colour_bar)

        waiting = QWidget()
        column = vbox(waiting, margins=(GRID * 3, GRID * 2, GRID * 3, GRID * 2))
        self._state_title = text_label("", "title")
        self._state_text = text_label("", wrap=True)
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setAccessibleName(tr("Rotation progress"))
        self.bar.setMaximumWidth(GRID * 60)
        for widget in (self._state_title, self.bar, self._state_text):
            column.addWidget(widget)
        column.addStretch(1)
        self._panes = QStackedWidget()
        self._measured, self._waiting = measured, waiting
        self._panes.addWidget(waiting)
        self._panes.addWidget(measured)
        return self._panes

    def fields(self) -> dict[str, object]:
        """Return the chosen fields of RotationSpec."""
        return self.panel.fields()

    def _on_primary(self) -> None:
        if self._running:
            self.cancel_requested.emit()
        else:
            self.rotate_requested.emit()

    def _choose_export(self) -> None:
        folder = QFileDialog.getExistingDirectory(self, tr("Save the rotated model in an empty folder"))
        if folder:
            self.export_requested.emit(folder)

    def show_context(self, breadcrumb: list[tuple[str, str]], summary: ModelSummary | None) -> None:
        self.set_breadcrumb(breadcrumb)
        self.panel.show_model(summary)
        if summary is None:
            self.show_empty(
                tr("No model to rotate"),
                tr(
                    "A rotation changes the basis of the residual stream without changing what the model computes. In "
                    "the right basis the columns of the weights are orthogonal, and dropping inputs costs less."
                ),
                tr("Go to the Model page"),
                wants_model=True,
            )
        elif self.is_empty:
            self.show_content()

    def show_choice(self, spec: RotationSpec) -> None:
        self.panel.show_choice(spec)

    def show_action(self, *, running: bool, reason: str) -> None:
        self._running = running
        if running:
            self.set_primary(tr("Cancel rotation"))
        else:
            self.set_primary(tr("Rotate"), enabled=not reason, reason=reason)
        self.export.setEnabled(not reason and not running)
        self.export.setToolTip(reason or tr("Save as a Hugging Face folder, shortcuts included"))

    def show_progress(self, entry: JobEntry | None) -> None:
        if entry is None:
            self.bar.hide()
            self._show_pane()
            return
        self._state_title.setText(entry.title)
        waiting = tr("Waiting for the engine") if entry.state == "queued" else ""
        self._state_text.setText("  ·  ".join(filter(None, (waiting, entry.metric, progress_text(entry)))))
        self.bar.setRange(0, 0 if entry.fraction is None else 1000)
        self.bar.setValue(round(1000 * (entry.fraction or 0.0)))
        self.bar.show()
        self._panes.setCurrentWidget(self._waiting)

    def show_report(self, report: RotationReport | None, summary: ModelSummary | None) -> None:
        self._has_report = report is not None and summary is not None
        if report is not None and summary is not None:
            self.figures.show_figures(report_figures(report, summary))
            self._show_energy(report, summary)
        self._show_pane()

    def _show_pane(self) -> None:
        if self._has_report:
            self._panes.setCurrentWidget(self._measured)
            return
        identity = self.panel.is_identity
        self._state_title.setText(tr("No rotation") if identity else tr("Not measured yet"))
        self._state_text.setText(
            tr("Runs use the model's own basis.")
            if identity
            else tr(
                "Rotate computes the bases, rotates the weights and measures the logits error and the "
                "orthogonality of each matrix's columns. The Evaluate page can use it either way."
            )
        )
        self._panes.setCurrentWidget(self._waiting)

    def _show_energy(self, report: RotationReport, summary: ModelSummary) -> None:
        layout = summary.layout
        values = np.full((layout.layers, len(layout.projections)), math.nan)
        for record in report.residuals:
            if record.metric == "off_diagonal_energy" and record.projection in layout.projections:
                values[record.layer, layout.projections.index(record.projection)] = record.value
        self._values = values
        known = values[~np.isnan(values)]
        high = max(float(known.max()) if known.size else 0.0, 1e-3)
        scale = ColourScale(
            tr("Off-diagonal energy of WᵀW"), tr("fraction"), 0.0, math.ceil(high * 20) / 20, three_digits
        )
        self.heatmap.set_table([str(layer) for layer in range(layout.layers)], layout.projections)
        self.heatmap.set_values(values, scale)
        self.colour_bar.set_scale(scale)

    def _cell_text(self, cell: tuple[int, int]) -> str:
        return tr("Layer {layer}: off-diagonal energy {energy}", layer=cell[0], energy=f"{self._values[cell]:.4g}")


def report_figures(report: RotationReport, summary: ModelSummary) -> list[tuple[str, str, str]]:
    """Return (caption, number with unit, explanation) of each figure of a rotation."""
    energies = [record.value for record in report.residuals if record.metric == "off_diagonal_energy"]
    mean = sum(energies) / len(energies) if energies else math.nan
    share = report.shortcut_parameters / summary.gated_parameters
    return [
        (tr("Logits error ({dtype})", dtype=summary.dtype), scientific(report.logits_deviation),
         tr("‖rotated − dense‖ / ‖dense‖ on a probe text")),
        (tr("Mean off-diagonal energy"), f"{mean:.3f}", tr("Over all projections of all layers; 0 is orthogonal")),
        (tr("Shortcut weights"), f"{count(report.shortcut_parameters)} (+{percent(share)})",
         tr("Weights of the residual shortcuts, read for every token, against the gated weights")),
        (tr("Time"), f"{report.seconds:.1f} s", tr("To compute the bases and rotate the weights")),
    ]  # fmt: skip
