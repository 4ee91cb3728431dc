"""Form of the Rotation page: preset, mode, refinement and sources."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QStandardItemModel
from PySide6.QtWidgets import (
    QButtonGroup,
    QCheckBox,
    QComboBox,
    QFileDialog,
    QLineEdit,
    QRadioButton,
    QSpinBox,
    QVBoxLayout,
)

from wina_app.shared.rotation_choices import (
    BASES,
    CUSTOM,
    FOLDS,
    MODES,
    NOISE_BITS,
    OBJECTIVES,
    PER_HEAD,
    ROTATION_PRESETS,
    SPECTRA,
    WEIGHTINGS,
    cost,
    is_exact,
    preset_of,
)
from wina_app.style.theme import GRID
from wina_app.widgets.controls import (
    CollapsibleSection,
    SidePanel,
    beside,
    close_together,
    explain_disabled,
    labelled,
    push_button,
    text_label,
    with_term,
)
from wina_app.widgets.fields import choices, whole_number
from wina_app.widgets.plain_text import plain_tip
from wina_core.records import ModelSummary
from wina_core.specs import USUAL_EFFORT, AttentionBasis, MlpBasis, RotationSpec
from wina_core.specs.rotations import AUTO, AUTO_TEXT

_MODE_NAMES = {
    "auto": "Auto",
    "none": "None",
    "global": "Global",
    "per_layer": "Per layer",
    "per_site": "Per site",
}
_ATTENTION: tuple[AttentionBasis, ...] = ("k", "qkv", "activations")
_MLP: tuple[MlpBasis, ...] = ("gate", "gate_up", "activations")
_ROOM = GRID * 3 + 3
"""Pixels from the edge of a radio button or check box to its text."""
_WIDTH = GRID * 46
_NO_STREAM = "The residual stream is not rotated, or its bases are given"
_BY_SENSITIVITY = "Weighted by sensitivity, sites give their Fisher information and activations instead"
_NOTHING = "Nothing is rotated, or the bases are given"
_EIGEN = "Eigenvectors need one step; choose another objective"
_NOISE = "The expected error of rounding the weights to so many bits, added to the error of gating"
_NO_NOISE = "Only the calibrated error of gating can count rounding noise"
_COMPARED = "Sparsity at which the KL divergence of the gated model is compared with and without rotation"
_AUTO = "Auto chooses its bases"
_NO_ACTIVATIONS = "No basis reads activations"
_NOT_ALONE = "Logarithms are for bases of activations alone"
_NO_TEXT = "This choice uses no text"


class RotationPanel(SidePanel):
    """Controls of a rotation."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__(_WIDTH)
        column = self.column
        self.preset = choices()
        self.preset.addItems([*ROTATION_PRESETS, CUSTOM])
        self.preset.activated.connect(self._on_preset)
        column.addLayout(labelled("Preset", self.preset))
        column.addSpacing(GRID)
        self._build_modes(column)
        self.fold_norms = self._choice(FOLDS)
        column.addLayout(labelled("WINA's column norms", self.fold_norms, term="Folded norms"))
        column.addSpacing(GRID)
        self.sparsity = self._number(5, 95, " %", 5)
        self.sparsity.setToolTip(plain_tip(_COMPARED))
        column.addLayout(labelled("Compared with none at", self.sparsity))
        column.addSpacing(GRID)
        self._build_refinement(column)
        self._build_sources(column)
        column.addStretch(1)

    def _choice(self, entries: Mapping[Any, tuple[str, str]]) -> QComboBox:
        box = choices((name, key, text) for key, (name, text) in entries.items())
        box.activated.connect(lambda _: self._changed())
        return box

    def _number(self, low: int, high: int, suffix: str, step: int = 1) -> QSpinBox:
        box = whole_number(low, high, low, suffix, step=step)
        box.editingFinished.connect(self._changed)
        return box

    def _build_modes(self, column: QVBoxLayout) -> None:
        column.addLayout(with_term(text_label("Residual stream", "section"), "Residual stream"))
        self.refusal = text_label("", "muted", wrap=True)
        self.refusal.hide()
        column.addWidget(self.refusal)
        self.modes = QButtonGroup(self)
        self._costs = {}
        for index, (mode, sentence) in enumerate(MODES.items()):
            button = QRadioButton(_MODE_NAMES[mode])
            button.setAccessibleDescription(sentence)
            self.modes.addButton(button, index)
            self._costs[mode] = text_label(sentence, "muted", wrap=True)
            self._costs[mode].setContentsMargins(_ROOM, 0, 0, 0)
            column.addLayout(close_together(button, self._costs[mode]))
        self.modes.idClicked.connect(lambda _: self._on_objective())
        column.addSpacing(GRID)
        column.addLayout(with_term(text_label("Values and output projection", "section"), "Per-head rotation"))
        self.per_head = QCheckBox("Rotate per head")
        self.per_head.setAccessibleDescription(PER_HEAD)
        self.per_head.clicked.connect(lambda _: self._changed())
        explained = text_label(PER_HEAD, "muted", wrap=True)
        explained.setContentsMargins(_ROOM, 0, 0, 0)
        column.addLayout(close_together(self.per_head, explained))
        column.addSpacing(GRID)

    def _build_refinement(self, column: QVBoxLayout) -> None:
        column.addWidget(text_label("Refinement", "section"))
        self.weighting = self._choice(WEIGHTINGS)
        self.objective = choices((name, key, text) for key, (name, text) in OBJECTIVES.items())
        self.objective.activated.connect(lambda _: self._on_objective())
        self.steps = self._number(1, 100_000, " steps", 100)
        column.addLayout(labelled("Weighting of the sites", self.weighting, term="Sensitivity"))
        column.addLayout(labelled("Objective of the bases", self.objective))
        column.addLayout(labelled("Optimization steps", self.steps))
        self.noise_bits = self._choice({bits: (name, _NOISE) for bits, name in NOISE_BITS.items()})
        column.addLayout(labelled("Rounding noise in the objective", self.noise_bits))

    def _build_sources(self, column: QVBoxLayout) -> None:
        more = CollapsibleSection("Bases, text and given matrices")
        inside = more.column
        self.attention = self._build_bases(inside, "Basis of the attention inputs", _ATTENTION)
        self.mlp = self._build_bases(inside, "Basis of the MLP inputs", _MLP)
        self.spectrum = self._choice(SPECTRA)
        self.drop = self._number(0, 64, " directions")
        inside.addLayout(labelled("Spectrum of the activations", self.spectrum))
        inside.addLayout(labelled("Leading directions left out", self.drop))
        self.text = QLineEdit()
        self.text.editingFinished.connect(self._changed)
        self.tokens = self._number(64, 16_777_216, " tokens", 4_096)
        inside.addWidget(text_label("Text for activations and refinement", "section"))
        inside.addLayout(labelled("Source", self.text, hint="demo:calibration, demo:training, or a UTF-8 file"))
        inside.addLayout(labelled("Length", self.tokens))
        self.matrices = QLineEdit()
        self.matrices.setPlaceholderText("None: compute the bases")
        self.matrices.editingFinished.connect(self._changed)
        browse = push_button("Browse…", self._choose_matrices, name="Browse for a file of matrices")
        inside.addSpacing(GRID)
        inside.addLayout(labelled("Given orthogonal matrices (safetensors)", self.matrices))
        inside.addLayout(beside(browse))
        column.addWidget(more)

    def _build_bases(
        self, column: QVBoxLayout, title: str, names: Sequence[AttentionBasis | MlpBasis]
    ) -> dict[AttentionBasis | MlpBasis, QCheckBox]:
        column.addWidget(text_label(title, "section"))
        boxes: dict[AttentionBasis | MlpBasis, QCheckBox] = {}
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

    def fields(self) -> dict[str, Any]:
        """Return the chosen fields of RotationSpec."""
        chosen = {
            "mode": self._mode,
            "per_head": self.per_head.isChecked(),
            "fold_norms": self.fold_norms.currentData(),
            "objective": self.objective.currentData(),
            "steps": self.steps.value(),
            "text": {"source": self.text.text().strip(), "tokens": self.tokens.value()},
            "sparsity": self.sparsity.value() / 100,
        }
        if self._mode == AUTO:
            return chosen
        return chosen | {
            **({} if self._by_sensitivity() else self._bases()),  # by sensitivity, sites have bases of their own
            "noise_bits": self.noise_bits.currentData() if self.objective.currentData() == "error" else 16,
            "weighting": self.weighting.currentData(),
            "matrices": self.matrices.text().strip() or None,
        }

    def _bases(self) -> dict[str, Any]:
        bases = {
            "attention_basis": tuple(name for name, box in self.attention.items() if box.isChecked()),
            "mlp_basis": tuple(name for name, box in self.mlp.items() if box.isChecked()),
        }
        if not self._reads_activations():
            return bases
        logarithms = self.spectrum.currentData() if self._reads_activations(alone=True) else "linear"
        return bases | {"spectrum": logarithms, "drop_directions": self.drop.value()}

    def _reads_activations(self, *, alone: bool = False) -> bool:
        """Return whether a basis reads activations, or all bases do so alone."""
        boxes = (*self.attention.items(), *self.mlp.items())
        named = {name for name, box in boxes if box.isChecked()}
        return named == {"activations"} if alone else "activations" in named

    def _by_sensitivity(self) -> bool:
        return bool(self.weighting.currentData() == "sensitivity")

    @property
    def _mode(self) -> str:
        return list(MODES)[self.modes.checkedId()]

    @property
    def is_identity(self) -> bool:
        return not self._turns and self.fold_norms.currentData() == "none"

    @property
    def _turns(self) -> bool:
        return self._mode != "none" or self.per_head.isChecked()

    def _changed(self) -> None:
        self._enable()
        self.changed.emit()

    def _on_preset(self) -> None:
        preset = ROTATION_PRESETS.get(self.preset.currentText())
        if preset is not None:
            self.show_choice(preset)
            self.changed.emit()

    def _on_objective(self) -> None:
        """Set the objective's usual steps and text, unless the user chose others."""
        steps, text = USUAL_EFFORT[self.objective.currentData()]
        if self.objective.currentData() == "eigen" and self._mode == AUTO:
            text = AUTO_TEXT
        usual_steps, usual_texts = zip(*USUAL_EFFORT.values(), strict=True)
        usual_lengths = {(usual.source, usual.tokens) for usual in (AUTO_TEXT, *usual_texts)}
        if self.steps.value() in usual_steps:
            self.steps.setValue(steps)
        if (self.text.text(), self.tokens.value()) in usual_lengths:
            self.text.setText(text.source)
            self.tokens.setValue(text.tokens)
        self._changed()

    def _choose_matrices(self) -> None:
        file, _ = QFileDialog.getOpenFileName(self, "Open orthogonal matrices", filter="Safetensors (*.safetensors)")
        if file:
            self.matrices.setText(file)
            self._changed()

    def show_model(self, summary: ModelSummary | None) -> None:
        """Show each mode's cost on the model, and disable inexact ones."""
        for index, (mode, label) in enumerate(self._costs.items()):
            price = cost(mode, summary.layout if summary else None, summary.hidden_size if summary else 0)
            label.setText(MODES[mode] if mode in ("auto", "none") else price)
            exact = summary is None or mode == AUTO or mode in summary.rotations
            reason = summary.rotation_reason if summary else ""
            explain_disabled(self.modes.button(index), enabled=exact, reason=reason, explanation=MODES[mode])
            label.setVisible(exact)
        presets = self.preset.model()
        assert isinstance(presets, QStandardItemModel)  # a combo box makes this
        for row, spec in enumerate(ROTATION_PRESETS.values()):
            exact = is_exact(spec, summary)
            presets.item(row).setEnabled(exact)
            tip = None if exact or summary is None else summary.rotation_reason
            self.preset.setItemData(row, tip, Qt.ItemDataRole.ToolTipRole)
        self.refusal.setText("" if summary is None else summary.rotation_reason)
        self.refusal.setVisible(bool(self.refusal.text()))

    def show_choice(self, spec: RotationSpec) -> None:
        self.preset.setCurrentText(preset_of(spec))
        self.modes.button([*MODES].index(spec.mode)).setChecked(True)
        for name, box in self.attention.items():
            box.setChecked(name in spec.attention_basis)
        for name, box in self.mlp.items():
            box.setChecked(name in spec.mlp_basis)
        self.per_head.setChecked(spec.per_head)
        self.fold_norms.setCurrentIndex(self.fold_norms.findData(spec.fold_norms))
        self.noise_bits.setCurrentIndex(self.noise_bits.findData(spec.noise_bits))
        self.weighting.setCurrentIndex(self.weighting.findData(spec.weighting))
        self.objective.setCurrentIndex(self.objective.findData(spec.objective))
        self.spectrum.setCurrentIndex(self.spectrum.findData(spec.spectrum))
        self.text.setText(spec.text.source)
        # No signal follows: `editingFinished` is the user's alone.
        self.tokens.setValue(spec.text.tokens)
        self.steps.setValue(spec.steps)
        self.sparsity.setValue(round(100 * spec.sparsity))
        self.drop.setValue(spec.drop_directions)
        self.matrices.setText(spec.matrices or "")
        self._enable()

    def _enable(self) -> None:
        """Disable controls without effect, with the reason."""
        auto = self._mode == AUTO
        from_file = bool(self.matrices.text().strip()) and not auto
        rotates = self._turns and not from_file
        stream = self._mode not in ("none", AUTO) and not from_file
        no_stream = _AUTO if auto else _NO_STREAM
        for name, box in (*self.attention.items(), *self.mlp.items()):
            reason = _BY_SENSITIVITY if stream else no_stream
            explain_disabled(box, enabled=stream and not self._by_sensitivity(), reason=reason, explanation=BASES[name])
        refines = self.objective.currentData() != "eigen"
        explain_disabled(self.weighting, enabled=stream, reason=no_stream)
        by_trace = stream and not self._by_sensitivity()
        alone, read = self._reads_activations(alone=True), self._reads_activations()
        why = no_stream if not stream else _BY_SENSITIVITY
        explain_disabled(self.spectrum, enabled=by_trace and alone, reason=_NOT_ALONE if by_trace else why)
        explain_disabled(self.drop, enabled=by_trace and read, reason=_NO_ACTIVATIONS if by_trace else why)
        explain_disabled(self.matrices, enabled=not auto, reason=_AUTO)
        explain_disabled(self.objective, enabled=rotates, reason=_NOTHING)
        explain_disabled(self.steps, enabled=rotates and refines, reason=_EIGEN if rotates else _NOTHING)
        noisy = rotates and not auto and self.objective.currentData() == "error"
        no_noise = _AUTO if auto else _NO_NOISE if rotates else _NOTHING
        explain_disabled(self.noise_bits, enabled=noisy, reason=no_noise, explanation=_NOISE)
        for control in (self.text, self.tokens):
            explain_disabled(control, enabled=self._reads_text(), reason=_NO_TEXT)

    def _reads_text(self) -> bool:
        try:
            return RotationSpec.model_validate(self.fields()).reads_text
        except ValidationError:  # the page shows the error; the text may be its cause
            return True
