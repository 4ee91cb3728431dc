"""Toolbar above the heatmap: method, table, presets and allocation with its budgets."""

from dataclasses import dataclass

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtGui import QAction, QActionGroup
from PySide6.QtWidgets import QCheckBox, QComboBox, QDoubleSpinBox, QMenu, QToolButton, QWidget

from wina_app.pages.sparsity.cell_values import MAX_BITS, MAX_SPARSITY
from wina_app.pages.sparsity.edit_model import ModelBits
from wina_app.pages.sparsity.presets import PAPER_BUDGETS, PRESETS, Preset
from wina_app.shared.heatmap_tables import BITS_STOPS, MAP_KEYS, MapKey, map_texts
from wina_app.shared.method_choices import (
    CORRECTIONS,
    MASKS,
    SELECTIONS,
    Gating,
    allocators,
    shares_masks,
)
from wina_app.style.number_format import fraction, percent
from wina_app.style.theme import GRID
from wina_app.widgets.boxes import hbox
from wina_app.widgets.controls import captioned, side_by_side
from wina_app.widgets.fields import choices, decimal
from wina_app.widgets.flow_layout import FlowLayout
from wina_app.widgets.plain_text import plain_tip
from wina_app.widgets.segmented_control import SegmentedControl
from wina_app.widgets.start_button import StartButton
from wina_core.specs import DENSE, AllocatorSpec, MethodSpec, method_specs
from wina_core.specs.methods import get_method

_USUAL_READ = 4.5
_ANY, _EIGHT = "any", "8 bits"
_READ = "Most bits of the gated weights read for a token, over their number; scales included"
_HELD = "Most bits of the gated weights held in memory, over their number; scales included"


@dataclass(frozen=True)
class JointBudget:
    """Most bits per gated weight, scales and zeros included; None for no limit."""

    read: float | None
    """Bits read for a token, of all gated weights."""
    held: float | None
    """Bits held in memory."""
    refined: bool = False
    """Measure the divergence that each mask causes alone; for weights in planes."""


class JointBudgetFields(QWidget):
    """Fields of both budgets; at the lower end a field means no limit."""

    def __init__(self) -> None:
        super().__init__()
        self.read = _field(_USUAL_READ)
        self.read.setAccessibleName("Budget: bits read per weight and token")
        self.held = _field(0.0)
        self.held.setAccessibleName("Budget: bits held per weight")
        self.refined = QCheckBox("Refined")
        self.refined.setToolTip(
            "Also measure the divergence that each mask causes alone: some 5 % less KL, for a pass for each mask"
        )
        hbox(self, captioned("Read", self.read), captioned("Held", self.held), self.refined)
        self.show_planes(False)

    @property
    def budget(self) -> JointBudget:
        refined = self.refined.isChecked() and not self.refined.isHidden()
        return JointBudget(self.read.value() or None, self.held.value() or None, refined)

    def show_planes(self, chosen: bool) -> None:
        """Show what weights in planes need: bits read, and held ones if they are not to be 8."""
        self.refined.setVisible(chosen)
        self.held.setSpecialValueText(_EIGHT if chosen else _ANY)
        self.read.setToolTip(_READ + ("; planes need it" if chosen else ""))
        self.held.setToolTip(_HELD + ("; planes hold 8 without it" if chosen else ""))


def _field(value: float) -> QDoubleSpinBox:
    field = decimal(0.0, MAX_BITS + 1, value, " bits", decimals=2, step=0.25, lowest=_ANY)
    field.setMinimumWidth(12 * GRID)
    return field


_SELECTIONS = {
    "topk": "Top k",
    "threshold": "Threshold",
    "statistical": "Statistical",
    "top_p": "Top p",
    "mixed": "Mixed",
}
_JOINT = (
    "Bits and target of every matrix together, within budgets of bits read and held; the quantizer is chosen above the "
    "map of bits. For planes, one price of a bit, in a few passes over a text; gates then select by threshold. "
    "Otherwise the least sum of KL, measured for each matrix, width and target alone"
)
_NO_MASKS = "The masks of this method are the same for all matrices with the same input"


class SparsityToolbar(QWidget):
    """Toolbar without own state."""

    method_chosen = Signal(object)
    """MethodSpec."""
    map_chosen = Signal(str)
    """MapKey."""
    bits_chosen = Signal(float)
    """Bits of all matrices."""
    preset_chosen = Signal(object, float)
    """Preset and the budget, a fraction."""
    allocation_chosen = Signal(object, float)
    """AllocatorSpec and the budget, a fraction."""
    joint_chosen = Signal(object)
    """JointBudget of bits and sparsity together."""

    def __init__(self) -> None:
        super().__init__()
        self._running = False
        methods = [(spec.label, spec, get_method(spec).summary) for spec in method_specs() if spec != DENSE]
        self.method = choices(methods, "Gate rule")
        selections = [(_SELECTIONS[key], key, text) for key, (_, text) in SELECTIONS.items()]
        self.selection = choices(selections, "Selection of inputs")
        self.options = QToolButton()
        self.options.setText("Options")
        self.options.setAccessibleName("Further options of the gate rule")
        self.options.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        menu = QMenu(self.options)
        menu.setAccessibleName(self.options.accessibleName())
        menu.setToolTipsVisible(True)
        self.shared = _toggle_action(menu, "Masks shared by q, k, v and gate, up", MASKS["shared"][1])
        menu.addSection("Correction of dropped inputs")
        exclusive = QActionGroup(menu)
        self.corrections = {key: _toggle_action(menu, name, tip) for key, (name, tip) in CORRECTIONS.items()}
        for action in self.corrections.values():
            exclusive.addAction(action)
        self.options.setMenu(menu)
        self._build_allocation()
        line = FlowLayout(self)
        for widget in (captioned("Method", self.method), self.selection, self.options):
            line.addWidget(widget)
        maps = (
            ("sparsity", "Sparsity", "Show and edit the target sparsities"),
            ("bits", "Bits", "Show and edit the bits of the weights"),
        )
        self.edited = SegmentedControl("Edited map", maps)
        line.addWidget(side_by_side(self.edited, self._map_choice()))
        self.edited.chosen.connect(
            lambda key: self.map_chosen.emit("bits" if key == "bits" else self.map.currentData())
        )
        line.add_stretch()
        line.addWidget(side_by_side(self.presets, self.allocator, self.budget, self.joint, self.allocate))
        self.show_allocating(False)  # not before: a field without a parent would be shown as a window of its own
        self.method.currentIndexChanged.connect(self._choose_method)
        self.selection.currentIndexChanged.connect(self._choose_method)
        for action in (self.shared, *self.corrections.values()):
            action.triggered.connect(self._choose_method)

    def _build_allocation(self) -> None:
        self.presets = QToolButton()
        self.presets.setText("Presets")
        self.presets.setAccessibleName("Presets: plans to start from")
        self.presets.setToolTip("Plans to start from, at the budget on the right")
        self.presets.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.presets.setMenu(self._preset_menu())
        offered: list[tuple[str, object, str]] = [
            (spec.label[:1].upper() + spec.label[1:], spec, text) for spec, text in allocators()
        ]
        offered.append(("Joint", None, _JOINT))
        self.allocator = choices(offered, "Allocator of the budget")
        # The list is wider than the box, whose narrow width would cut its names.
        self.allocator.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.allocator.setMinimumContentsLength(9)
        self.allocator.view().setMinimumWidth(GRID * 24)
        self.budget = decimal(0.0, 100 * MAX_SPARSITY, 50.0, " %", decimals=1, step=1.0)
        self.budget.setAccessibleName("Budget: mean target sparsity in percent")
        self.budget.setToolTip("Mean target over all cells, weighted by their numbers of weights")
        self.joint = JointBudgetFields()
        self.allocate = StartButton()
        self.allocate.setMinimumWidth(GRID * 11)  # room for its longest text: nothing moves when that changes
        self.allocate.clicked.connect(self._on_allocate)
        self.allocator.currentIndexChanged.connect(lambda: self.show_allocating(self._running))

    def show_allocating(self, running: bool) -> None:
        """Disable allocating while an allocation runs."""
        self._running = running
        spec: AllocatorSpec | None = self.allocator.currentData()
        at_once = spec is not None and spec.name == "uniform"
        text, tip = "Allocate", "Allocate the budget, in the background"
        if at_once:
            text, tip = "Set all", "Give every projection of every layer this target"
        self.allocate.setText(text)
        self.allocate.setAccessibleName(f"{text}: {self.allocator.currentText().lower()} allocation")
        self.allocate.setToolTip("An allocation is running; wait for it or cancel it" if running else tip)
        self.allocator.setToolTip(self.allocator.currentData(Qt.ItemDataRole.ToolTipRole))
        for control in (self.allocator, self.budget, self.joint, self.allocate):
            control.setEnabled(not running)
        self.joint.setVisible(self.is_joint)
        self.budget.setVisible(not self.is_joint)

    @property
    def is_joint(self) -> bool:
        """Return whether bits are to be allocated with the sparsity."""
        return self.allocator.currentData() is None

    def show_method(self, method: MethodSpec) -> None:
        """Show the method without emitting it."""
        with QSignalBlocker(self.method), QSignalBlocker(self.selection):
            plain = MethodSpec(name=method.name, variant=method.variant)
            self.method.setCurrentIndex(self.method.findText(plain.label))
            self.selection.setCurrentIndex(self.selection.findData(method.selection))
        self.method.setToolTip(get_method(method).summary)
        self.shared.setChecked(method.masks == "shared")
        self.corrections[method.correction].setChecked(True)
        by_norms = shares_masks(method)
        self.shared.setEnabled(by_norms)
        self.shared.setToolTip(MASKS["shared"][1] if by_norms else _NO_MASKS)

    def show_map_key(self, key: MapKey) -> None:
        """Mark the table shown."""
        self.edited.choose("bits" if key == "bits" else "sparsity")
        self.map.setEnabled(key != "bits")
        if key == "bits":
            self.map.setToolTip("Choose Sparsity to see its other tables")
            return
        with QSignalBlocker(self.map):
            self.map.setCurrentIndex(self.map.findData(key))
        self.map.setToolTip(self.map.currentData(Qt.ItemDataRole.ToolTipRole))

    def _map_choice(self) -> QComboBox:
        tables = ((key, map_texts(key)) for key in MAP_KEYS if key != "bits")
        entries = ((texts.name, key, plain_tip(texts.explanation)) for key, texts in tables)
        self.map = choices(entries, "Table shown in the map")
        self.map.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.map.setMinimumContentsLength(8)
        self.map.view().setMinimumWidth(GRID * 30)
        self.map.activated.connect(lambda row: self.map_chosen.emit(self.map.itemData(row)))
        self.map.setToolTip(self.map.itemData(0, Qt.ItemDataRole.ToolTipRole))
        return self.map

    def _preset_menu(self) -> QMenu:
        menu = QMenu(self.presets)
        menu.setAccessibleName(self.presets.accessibleName())
        menu.setToolTipsVisible(True)
        for preset in PRESETS:
            action = menu.addAction(preset.name)
            action.setToolTip(plain_tip(preset.explanation))
            action.triggered.connect(lambda _=False, preset=preset: self.choose_preset(preset))
        menu.addSection("The paper's budgets")
        first = PRESETS[0]
        for budget in PAPER_BUDGETS:
            action = menu.addAction(f"{first.name}, {percent(budget)}")
            action.triggered.connect(lambda _=False, budget=budget: self.choose_preset(first, budget))
        menu.addSection("Bits of all matrices")
        self._widths: dict[float, QAction] = {}
        for bits in reversed(BITS_STOPS):
            text = f"{bits:g} bits" if bits < 16 else "16 bits: not quantized"
            self._widths[bits] = menu.addAction(text)
            self._widths[bits].triggered.connect(lambda _=False, bits=bits: self.bits_chosen.emit(bits))
        return menu

    def show_quantizer(self, bits: ModelBits) -> None:
        """Offer what the quantizer has: its widths, and the budgets that it needs."""
        for width, action in self._widths.items():
            action.setVisible(bits.values.snapped(width) == width)
        self.joint.show_planes(bits.settings.quantizer == "planes")

    def choose_preset(self, preset: Preset, budget: float | None = None) -> None:
        """Emit a preset, at the budget shown unless another is given."""
        if budget is not None:
            self.budget.setValue(100 * budget)
        self.preset_chosen.emit(preset, fraction(self.budget.value()))

    def _choose_method(self) -> None:
        gating = Gating(
            selection=self.selection.currentData(),
            masks="shared" if self.shared.isChecked() else "separate",
            correction=next(key for key, action in self.corrections.items() if action.isChecked()),
        )
        self.method_chosen.emit(gating.of(self.method.currentData()))

    def _on_allocate(self) -> None:
        if self.is_joint:
            self.joint_chosen.emit(self.joint.budget)
        else:
            self.allocation_chosen.emit(self.allocator.currentData(), fraction(self.budget.value()))


def _toggle_action(menu: QMenu, text: str, tip: str) -> QAction:
    action = menu.addAction(text)
    action.setCheckable(True)
    action.setToolTip(tip)
    return action
