"""The Rotation page: choose how the residual stream is rotated, see what that does to the model."""

import math

import numpy as np
from PySide6.QtCore import QSignalBlocker, Signal
from PySide6.QtWidgets import (
    QButtonGroup,
    QCheckBox,
    QComboBox,
    QFileDialog,
    QHBoxLayout,
    QLineEdit,
    QProgressBar,
    QPushButton,
    QRadioButton,
    QSpinBox,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from wina_app.models.job_list import JobEntry
from wina_app.models.rotation_choices import BASES, CUSTOM, MODES, PER_HEAD, PRESETS, cost, preset_of
from wina_app.quantities import count, percent, scientific
from wina_app.theme import GRID
from wina_app.views.colour_bar import ColourBar
from wina_app.views.colour_maps import ColourScale, three_digits
from wina_app.views.controls import Figures, beside, close_together, labelled, pad_text, side_panel, text_label
from wina_app.views.heatmap import Heatmap
from wina_app.views.jobs_dock import progress_text
from wina_app.views.page import Page
from wina_app.views.plot_export import offer_export
from wina_core.records import ModelSummary, RotationReport
from wina_core.specs import RotationSpec

_MODE_NAMES = {"none": "None", "global": "Global", "per_layer": "Per layer", "per_site": "Per site"}
_ATTENTION = ("k", "qkv", "activations")
_MLP = ("gate", "gate_up", "activations")
_ROOM = GRID * 3 + 3
"""From the edge of a radio button or check box to its text."""


class RotationPage(Page):
    """Emits `choice_changed`; `fields()` has what was chosen."""

    choice_changed = Signal()
    rotate_requested = Signal()
    cancel_requested = Signal()
    export_requested = Signal(str)

    def __init__(self) -> None:
        super().__init__("rotation", "Rotation")
        self._running = False
        self.export = QPushButton("Export rotated model…")
        self.export.setAccessibleName("Export rotated model")
        self.export.clicked.connect(self._choose_export)
        self.header_actions.addWidget(self.export)
        content = QWidget()
        row = QHBoxLayout(content)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(0)
        row.addWidget(self._build_side())
        row.addWidget(self._build_report(), 1)
        self.set_content(content)
        self.set_primary("Rotate")
        self.primary_triggered.connect(self._on_primary)
        self.empty_triggered.connect(lambda: self.crumb_clicked.emit("model"))

    def _build_side(self) -> QWidget:
        area, column = side_panel(GRID * 46)
        self.preset = QComboBox()
        self.preset.addItems([*PRESETS, CUSTOM])
        self.preset.activated.connect(self._on_preset)
        column.addLayout(labelled("Preset", self.preset))
        column.addSpacing(GRID)
        column.addWidget(text_label("Residual stream", "section"))
        self.modes = QButtonGroup(self)
        self._costs = {}
        for index, (mode, sentence) in enumerate(MODES.items()):
            button = QRadioButton(_MODE_NAMES[mode])
            button.setAccessibleDescription(sentence)
            self.modes.addButton(button, index)
            self._costs[mode] = text_label(sentence, "muted", wrap=True)
            self._costs[mode].setContentsMargins(_ROOM, 0, 0, 0)
            column.addLayout(close_together(button, self._costs[mode]))
        self.modes.idClicked.connect(lambda _: self._changed())
        column.addSpacing(GRID)
        self.attention = self._build_bases(column, "Basis of the attention inputs", _ATTENTION)
        self.mlp = self._build_bases(column, "Basis of the MLP inputs", _MLP)
        column.addWidget(text_label("Values and output projection", "section"))
        self.per_head = QCheckBox("Rotate per head")
        self.per_head.setAccessibleDescription(PER_HEAD)
        self.per_head.clicked.connect(lambda _: self._changed())
        explained = text_label(PER_HEAD, "muted", wrap=True)
        explained.setContentsMargins(_ROOM, 0, 0, 0)
        column.addLayout(close_together(self.per_head, explained))
        column.addSpacing(GRID)
        column.addWidget(text_label("Text for the activation moments", "section"))
        self.text = QLineEdit()
        self.text.editingFinished.connect(self._changed)
        self.tokens = QSpinBox()
        pad_text(self.tokens)
        self.tokens.setRange(64, 16_777_216)
        self.tokens.setSingleStep(4_096)
        self.tokens.setGroupSeparatorShown(True)
        self.tokens.setSuffix(" tokens")
        self.tokens.editingFinished.connect(self._changed)
        column.addLayout(labelled("Source", self.text, hint="demo:calibration, demo:heldout, or a UTF-8 file"))
        column.addLayout(labelled("Length", self.tokens))
        self.matrices = QLineEdit()
        self.matrices.setPlaceholderText("None: compute the bases")
        self.matrices.editingFinished.connect(self._changed)
        browse = QPushButton("Browse…")
        browse.setAccessibleName("Browse for a file of matrices")
        browse.clicked.connect(self._choose_matrices)
        column.addSpacing(GRID)
        column.addLayout(labelled("Given orthogonal matrices (safetensors)", self.matrices))
        column.addLayout(beside(browse))
        column.addStretch(1)
        return area

    def _build_bases(self, column: QVBoxLayout, title: str, names: tuple[str, ...]) -> dict[str, QCheckBox]:
        column.addWidget(text_label(title, "section"))
        boxes = {}
        for name in names:
            box = QCheckBox(name)
            box.setToolTip(BASES[name])
            box.setAccessibleName(f"{title}: {name}")
            box.setAccessibleDescription(BASES[name])
            box.clicked.connect(lambda _: self._changed())
            boxes[name] = box
        column.addLayout(beside(*boxes.values()))
        column.addSpacing(GRID)
        return boxes

    def _build_report(self) -> QWidget:
        self.figures = Figures(columns=4)
        self.heatmap = Heatmap("Off-diagonal energy, layers by projections")
        self.heatmap.tooltip = self._cell_text
        offer_export(self, self.heatmap, "off-diagonal energy")
        self.colour_bar = ColourBar()
        self._values = np.empty((0, 0))
        measured = QWidget()
        column = QVBoxLayout(measured)
        column.setContentsMargins(GRID * 3, GRID * 2, GRID * 3, GRID * 2)
        column.setSpacing(GRID)
        column.addWidget(self.figures)
        column.addSpacing(GRID)
        column.addWidget(text_label("Off-diagonal energy of WᵀW after the rotation", "section"))
        column.addWidget(
            text_label(
                "‖offdiag(WᵀW)‖² / ‖WᵀW‖²: 0 where the columns of W are orthogonal, so that the score |x|·c tells "
                "exactly what dropping an input costs.",
                "muted",
                wrap=True,
            )
        )
        column.addWidget(self.heatmap, 1)
        column.addWidget(self.colour_bar)

        waiting = QWidget()
        column = QVBoxLayout(waiting)
        column.setContentsMargins(GRID * 3, GRID * 2, GRID * 3, GRID * 2)
        column.setSpacing(GRID)
        self._state_title = text_label("", "title")
        self._state_text = text_label("", wrap=True)
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setAccessibleName("Rotation progress")
        self.bar.setMaximumWidth(GRID * 60)
        for widget in (self._state_title, self.bar, self._state_text):
            column.addWidget(widget)
        column.addStretch(1)
        self._panes = QStackedWidget()
        self._measured, self._waiting = measured, waiting
        self._panes.addWidget(waiting)
        self._panes.addWidget(measured)
        return self._panes

    # ---- what the user did ------------------------------------------------------------------------------------------

    def fields(self) -> dict[str, object]:
        """RotationSpec's fields as the controls have them."""
        return {
            "mode": list(MODES)[self.modes.checkedId()],
            "attention_basis": tuple(name for name, box in self.attention.items() if box.isChecked()),
            "mlp_basis": tuple(name for name, box in self.mlp.items() if box.isChecked()),
            "per_head": self.per_head.isChecked(),
            "text": {"source": self.text.text().strip(), "tokens": self.tokens.value()},
            "matrices": self.matrices.text().strip() or None,
        }

    def _changed(self) -> None:
        self._enable_bases()
        self.choice_changed.emit()

    def _on_preset(self) -> None:
        preset = PRESETS.get(self.preset.currentText())
        if preset is not None:
            self.show_choice(preset)
            self.choice_changed.emit()

    def _on_primary(self) -> None:
        if self._running:
            self.cancel_requested.emit()
        else:
            self.rotate_requested.emit()

    def _choose_export(self) -> None:
        folder = QFileDialog.getExistingDirectory(self, "Save the rotated model in an empty folder")
        if folder:
            self.export_requested.emit(folder)

    def _choose_matrices(self) -> None:
        file, _ = QFileDialog.getOpenFileName(self, "Open orthogonal matrices", filter="Safetensors (*.safetensors)")
        if file:
            self.matrices.setText(file)
            self._changed()

    # ---- what is shown ----------------------------------------------------------------------------------------------

    def show_context(self, breadcrumb: list[tuple[str, str]], summary: ModelSummary | None) -> None:
        """Show the header for the current model; None is the empty state."""
        self.set_breadcrumb(breadcrumb)
        for mode, label in self._costs.items():
            price = cost(mode, summary.layout if summary else None, summary.hidden_size if summary else 0)
            label.setText(MODES[mode] if mode == "none" else f"{MODES[mode]} {price}")
        if summary is None:
            self.show_empty(
                "No model to rotate",
                "A rotation changes the basis of the residual stream without changing what the model computes. In the "
                "right basis the columns of the weights are orthogonal, and dropping inputs costs less.",
                "Go to the Model page",
            )
        elif self.is_empty:
            self.show_content()

    def show_choice(self, spec: RotationSpec) -> None:
        """Fill the controls."""
        with QSignalBlocker(self.preset):
            self.preset.setCurrentText(preset_of(spec))
        self.modes.button(list(MODES).index(spec.mode)).setChecked(True)
        for name, box in self.attention.items():
            box.setChecked(name in spec.attention_basis)
        for name, box in self.mlp.items():
            box.setChecked(name in spec.mlp_basis)
        self.per_head.setChecked(spec.per_head)
        self.text.setText(spec.text.source)
        with QSignalBlocker(self.tokens):
            self.tokens.setValue(spec.text.tokens)
        self.matrices.setText(spec.matrices or "")
        self._enable_bases()

    def _enable_bases(self) -> None:
        given = bool(self.matrices.text().strip())
        used = self.fields()["mode"] != "none" and not given
        for box in (*self.attention.values(), *self.mlp.values()):
            box.setEnabled(used)
        moments = self.attention["activations"].isChecked() or self.mlp["activations"].isChecked()
        self.text.setEnabled(used and moments)
        self.tokens.setEnabled(used and moments)

    def show_action(self, *, running: bool, reason: str) -> None:
        """What the primary action is; a reason why it is impossible disables it."""
        self._running = running
        if running:
            self.set_primary("Cancel rotation")
        else:
            self.set_primary("Rotate", enabled=not reason, reason=reason)
        self.export.setEnabled(not reason and not running)
        self.export.setToolTip(reason or "Save as a Hugging Face folder, shortcuts included")

    def show_progress(self, entry: JobEntry | None) -> None:
        """Show the progress of the rotation that runs; None hides it."""
        if entry is None:
            self.bar.hide()
            self._show_pane()
            return
        self._state_title.setText(entry.title)
        waiting = "Waiting for the engine" if entry.state == "queued" else ""
        self._state_text.setText("  ·  ".join(filter(None, (waiting, entry.metric, progress_text(entry)))))
        self.bar.setRange(0, 0 if entry.fraction is None else 1000)
        self.bar.setValue(round(1000 * (entry.fraction or 0.0)))
        self.bar.show()
        self._panes.setCurrentWidget(self._waiting)

    def show_report(self, report: RotationReport | None, summary: ModelSummary | None) -> None:
        """Show how the rotation did; None when it was not computed yet."""
        self._has_report = report is not None and summary is not None
        if report is not None and summary is not None:
            self.figures.show_figures(report_figures(report, summary))
            self._show_energy(report, summary)
        self._show_pane()

    def _show_pane(self) -> None:
        if self._has_report:
            self._panes.setCurrentWidget(self._measured)
            return
        identity = self.fields()["mode"] == "none" and not self.per_head.isChecked()
        self._state_title.setText("No rotation" if identity else "Not computed yet")
        self._state_text.setText(
            "Runs use the model's own basis."
            if identity
            else "Rotate computes the bases, rotates the weights and measures how well the model is kept and how "
            "orthogonal the columns of each matrix become. The Evaluate page can use the choice either way."
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
        scale = ColourScale("Off-diagonal energy of WᵀW", "fraction", 0.0, math.ceil(high * 20) / 20, three_digits)
        self.heatmap.set_table([str(layer) for layer in range(layout.layers)], layout.projections)
        self.heatmap.set_values(values, scale)
        self.colour_bar.set_scale(scale)

    def _cell_text(self, cell: tuple[int, int]) -> str:
        return f"Layer {cell[0]}: off-diagonal energy {self._values[cell]:.4g}"


def report_figures(report: RotationReport, summary: ModelSummary) -> list[tuple[str, str, str]]:
    """(caption, number with unit, explanation) of a rotation."""
    energies = [record.value for record in report.residuals if record.metric == "off_diagonal_energy"]
    mean = sum(energies) / len(energies) if energies else math.nan
    share = report.shortcut_parameters / summary.gated_parameters
    return [
        (f"Logits deviation ({summary.dtype})", scientific(report.logits_deviation),
         "‖rotated − dense‖ / ‖dense‖ on a probe text"),
        ("Mean off-diagonal energy", f"{mean:.3f}", "Over all projections of all layers; 0 is orthogonal"),
        ("Shortcut weights", f"{count(report.shortcut_parameters)} (+{percent(share)})",
         "Weights of the residual shortcuts, read for every token, against the gated weights"),
        ("Time", f"{report.seconds:.1f} s", "To compute the bases and rotate the weights"),
    ]  # fmt: skip
