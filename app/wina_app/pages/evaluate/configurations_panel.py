"""Form of the Evaluate page: methods, rotations, sparsities, allocation and gating."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeVar

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QCheckBox, QComboBox, QLineEdit

from wina_app.shared.method_choices import (
    CORRECTIONS,
    MASKS,
    SELECTIONS,
    THRESHOLDS,
    Gating,
    allocators,
    has_low_rank,
    shares_masks,
)
from wina_app.shared.rotation_choices import is_exact
from wina_app.style.number_format import percent
from wina_app.style.theme import GRID, notifier
from wina_app.widgets.boxes import STRETCH, fill, vbox
from wina_app.widgets.clear_layout import clear_layout
from wina_app.widgets.controls import (
    CollapsibleSection,
    SidePanel,
    close_together,
    explain_disabled,
    in_two_columns,
    labelled,
    method_swatch,
    text_label,
    with_term,
)
from wina_app.widgets.fields import choices, decimal
from wina_core.records import ModelSummary
from wina_core.specs import DENSE, AllocatorSpec, CalibrationSpec, Configuration, MethodSpec, RotationSpec, method_specs
from wina_core.specs.methods import get_method

_TICKED = (DENSE, MethodSpec(name="teal"), MethodSpec(name="wina"))
_LONGEST = GRID * 32
"""Most pixels of a rotation's label, which may contain a long path."""
_NO_RHO = "Only R-Sparse has a low-rank part; tick it first"
_NO_MASKS = "Only scores with column norms make a mask per matrix; tick WINA or R-Sparse"
_NO_CORRECTION = "Dense drops nothing; tick another method"
_NO_THRESHOLDS = "Top k needs no thresholds; choose another selection"
_NO_CALIBRATION = "Nothing ticked needs a calibration: other selections and corrections do"
_NO_SPARSITY = "List sparsities above; a plan needs no allocation"
_OWN_SELECTION = "As the preset, else top k", "A preset's own selection; top k of each token for plain methods"
_OWN_MASKS = "As the preset, else one mask per matrix", "A preset's own masks; one per matrix for plain methods"
_OWN_CORRECTION = "As the preset, else none", "A preset's own correction; none for plain methods"
_Value = TypeVar("_Value")


class ConfigurationsPanel(SidePanel):
    """The choice of the configurations to compare."""

    changed = Signal()

    def __init__(self, named_configurations: Mapping[str, Configuration]) -> None:
        super().__init__(GRID * 40)
        self._build_methods(named_configurations)
        self._build_sparsities()
        self._rotation_column = vbox(None, spacing=0)
        self.rotations: dict[QCheckBox, RotationSpec] = {}
        self._current: RotationSpec | None = None
        self._offered: object = None
        fill(self.column, text_label("Rotations", "section"), self._rotation_column, GRID)
        self._build_gating()
        self.changed.connect(self._enable)
        notifier().changed.connect(self._restyle)
        self._restyle()
        self._enable()

    def _build_methods(self, named_configurations: Mapping[str, Configuration]) -> None:
        self.methods = {
            self._box(spec.label, f"Method {spec.label}", get_method(spec).summary, spec in _TICKED): spec
            for spec in method_specs()
        }
        fill(self.column, text_label("Methods", "section"), close_together(*self.methods), GRID)
        self.named = {
            self._box(_preset_name(name, configuration), f"Preset {name}", _named_tip(configuration)): configuration
            for name, configuration in named_configurations.items()
        }
        if self.named:
            heading = text_label("Presets with a rotation", "section")
            fill(self.column, heading, in_two_columns(self.named), GRID)

    def _build_sparsities(self) -> None:
        self.sparsities = QLineEdit("25, 40, 50, 65")
        self.sparsities.textChanged.connect(self.changed)
        self.allocators = {
            self._box(spec.label, f"Allocator {spec.label}", text, spec == AllocatorSpec()): (
                spec,
                text,
            )
            for spec, text in allocators()
        }
        self.plan = self._box("Current plan", "Include the plan of the Sparsity page", "The plan of the Sparsity page")
        fill(
            self.column,
            text_label("Sparsities", "section"),
            labelled("Dropped inputs, %", self.sparsities),
            with_term(text_label("Allocation"), "Allocator"),
            in_two_columns(self.allocators),
            self.plan,
            GRID,
        )

    def _build_gating(self) -> None:
        self.selection = self._combo({None: _OWN_SELECTION, **SELECTIONS})
        self.masks = self._combo({None: _OWN_MASKS, **MASKS})
        self.thresholds = self._combo(THRESHOLDS)
        self.rho = decimal(0.0, 1.0, 0.0, decimals=3, step=0.01, lowest="R-Sparse's own")
        self.rho.valueChanged.connect(self.changed)
        self.correction = self._combo({None: _OWN_CORRECTION, **CORRECTIONS})
        self.calibration = QLineEdit(CalibrationSpec().text.source)
        self.calibration.textChanged.connect(self.changed)
        more = CollapsibleSection("More gating options")
        rho = labelled("R-Sparse: mask share rho", self.rho)
        correction = labelled("Correction of dropped inputs", self.correction)
        fill(more.column, correction, rho, labelled("Calibration text", self.calibration))
        fill(
            self.column,
            text_label("Gating", "section"),
            labelled("Selection", self.selection),
            labelled("Thresholds", self.thresholds),
            labelled("Masks", self.masks),
            more,
            STRETCH,
        )

    def _box(self, text: str, name: str, tip: str, on: bool = False) -> QCheckBox:
        box = QCheckBox(text)
        box.setChecked(on)
        box.setAccessibleName(name)
        box.setToolTip(tip)
        box.toggled.connect(self.changed)
        return box

    def _combo(self, items: Mapping[Any, tuple[str, str]]) -> QComboBox:
        box = choices((name, key, text) for key, (name, text) in items.items())
        box.currentIndexChanged.connect(self.changed)
        return box

    def fields(self) -> dict[str, Any]:
        """Return the fields of `EvaluationChoice` for the configurations."""
        gating = self._gating()
        return {
            "methods": tuple(gating.of(spec) for spec in _ticked(self.methods)),
            "rotations": tuple(_ticked(self.rotations)),
            "configurations": tuple(
                configuration.model_copy(update={"method": gating.of(configuration.method)})
                for configuration in _ticked(self.named)
            ),
            "sparsities": self.sparsities.text(),
            "allocators": tuple(spec for spec, _ in _ticked(self.allocators)),
            "with_plan": self.plan.isChecked(),
            "calibration": self.calibration.text().strip(),
            "thresholds": self.thresholds.currentData(),
        }

    def choose_plan(self, method: MethodSpec, rotation: RotationSpec) -> None:
        """Tick only dense and the current plan under one method and rotation."""
        self.plan.setChecked(True)
        self.sparsities.clear()
        self.selection.setCurrentIndex(self.selection.findData(method.selection))
        self.masks.setCurrentIndex(self.masks.findData(method.masks))
        self.correction.setCurrentIndex(self.correction.findData(method.correction))
        self.rho.setValue(method.rho or 0.0)
        for box, spec in self.methods.items():
            box.setChecked(spec == DENSE or (spec.name, spec.variant) == (method.name, method.variant))
        for box in self.named:
            box.setChecked(False)
        for box, offered in self.rotations.items():
            box.setChecked(offered == rotation)

    def show_rotations(
        self,
        rotations: list[tuple[str, RotationSpec]],
        current: RotationSpec,
        summary: ModelSummary | None,
        running: Collection[RotationSpec] = (),
    ) -> None:
        """Show rotations to tick; at first none and the current one are ticked.

        A current rotation passes its tick on to the one that replaces it, unless its runs are queued or running.
        Inexact rotations are disabled.
        """
        if (rotations, current, summary) == self._offered:  # making the boxes anew takes 10 ms
            return
        self._offered = rotations, current, summary
        reason = "" if summary is None else summary.rotation_reason
        ticks = {spec: box.isChecked() for box, spec in self.rotations.items()}
        before = self._current
        if before is not None and before != current:
            if before in running:
                ticks.setdefault(current, False)
            elif ticks.get(before):
                ticks |= {before: before.is_identity, current: True}
        self._current = current
        clear_layout(self._rotation_column)
        self.rotations = {}
        for label, spec in rotations:
            exact = is_exact(spec, summary)
            on = exact and ticks.get(spec, spec.is_identity or spec == current)
            short = self.fontMetrics().elidedText(label, Qt.TextElideMode.ElideMiddle, _LONGEST)
            box = self._box(short, f"Rotation {label}", "", on)
            explain_disabled(
                box,
                enabled=exact,
                reason=reason,
                explanation=f"{label}: every ticked method runs on it",
            )
            self.rotations[box] = spec
            self._rotation_column.addWidget(box)
        for box, configuration in self.named.items():
            exact = is_exact(configuration.rotation, summary)
            box.setChecked(exact and box.isChecked())
            explain_disabled(box, enabled=exact, reason=reason, explanation=_named_tip(configuration))

    def show_plan(self, budget: float | None, provenance: str) -> None:
        """Describe the current plan; None if there is none."""
        self.plan.setEnabled(budget is not None)
        self.plan.setText("Current plan" if budget is None else f"Current plan ({provenance}, {percent(budget)})")

    def mark_sparsities(self, *, invalid: bool) -> None:
        self.sparsities.setProperty("state", "invalid" if invalid else "")
        self.sparsities.style().polish(self.sparsities)

    def _gating(self) -> Gating:
        return Gating(
            selection=self.selection.currentData(),
            masks=self.masks.currentData(),
            correction=self.correction.currentData(),
            rho=self.rho.value() or None,
        )

    def _enable(self) -> None:
        """Disable controls without effect, with the reason."""
        methods = [*_ticked(self.methods), *(configuration.method for configuration in _ticked(self.named))]
        sparse = any(method != DENSE for method in methods)
        calibrated = any(self._gating().of(method).needs_calibration for method in methods)
        calibrated = calibrated or any(spec.is_released for spec, _ in _ticked(self.allocators))
        explain_disabled(self.masks, enabled=any(map(shares_masks, methods)), reason=_NO_MASKS)
        explain_disabled(self.rho, enabled=any(map(has_low_rank, methods)), reason=_NO_RHO)
        explain_disabled(self.correction, enabled=sparse, reason=_NO_CORRECTION)
        explain_disabled(self.calibration, enabled=calibrated, reason=_NO_CALIBRATION)
        by_thresholds = any(self._gating().of(method).selection != "topk" for method in methods if method != DENSE)
        explain_disabled(self.thresholds, enabled=by_thresholds, reason=_NO_THRESHOLDS)
        for box, (_, text) in self.allocators.items():
            has_sparsities = bool(self.sparsities.text().strip())
            explain_disabled(box, enabled=has_sparsities, reason=_NO_SPARSITY, explanation=text)

    def _restyle(self) -> None:
        for box, name in [
            *((box, spec.name) for box, spec in self.methods.items()),
            *((box, configuration.method.name) for box, configuration in self.named.items()),
        ]:
            box.setIcon(method_swatch(name))


def _preset_name(name: str, configuration: Configuration) -> str:
    return f"{name}, own rotation" if name == configuration.method.label else name


def _named_tip(configuration: Configuration) -> str:
    if configuration.allocators:
        return (
            f"{configuration.label}: with its own rotation and allocation, whatever is chosen below; rotation "
            "and targets read the calibration text, or demo:calibration where it is the usual one"
        )
    return f"{configuration.label}: a method on its own rotation"


def _ticked(boxes: Mapping[QCheckBox, _Value]) -> Iterable[_Value]:
    return (value for box, value in boxes.items() if box.isChecked())
