"""The row above the heatmap: gate rule, which table is shown, and how a budget is spread."""

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import (
    QButtonGroup,
    QComboBox,
    QDoubleSpinBox,
    QHBoxLayout,
    QMenu,
    QPushButton,
    QToolButton,
    QWidget,
)

from wina_app.controllers.sparsity_controller import MAP_KEYS, MapKey
from wina_app.models.gate_choices import (
    ALLOCATORS,
    CORRECTION,
    MASKS,
    SELECTIONS,
    Gating,
    explanation,
    shares_masks,
)
from wina_app.models.sparsity_edits import HIGHEST
from wina_app.quantities import fraction
from wina_app.theme import GRID, HALF
from wina_app.views.controls import pad_text, text_label
from wina_app.views.sparsity_scales import EXPLANATIONS, TITLES
from wina_core.methods import method_specs
from wina_core.specs import DENSE, AllocatorSpec, MethodSpec

_SELECTIONS = {"topk": "Top k", "threshold": "Threshold", "statistical": "Statistical", "top_p": "Top p"}
_NO_MASKS = "The masks of this method are the same for all matrices with the same input"


class SparsityToolbar(QWidget):
    """Shows and emits; holds no state of its own."""

    method_chosen = Signal(object)
    """MethodSpec."""
    map_chosen = Signal(str)
    allocation_chosen = Signal(object, float)
    """AllocatorSpec and the budget, a fraction."""
    cancel_requested = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._running = False
        self.method = QComboBox()
        self.method.setAccessibleName("Gate rule")
        for spec in method_specs():
            if spec != DENSE:
                self.method.addItem(spec.label, spec)
                self.method.setItemData(self.method.count() - 1, explanation(spec), Qt.ItemDataRole.ToolTipRole)
        self.selection = QComboBox()
        self.selection.setAccessibleName("How inputs are selected")
        for row, (key, (_, text)) in enumerate(SELECTIONS.items()):
            self.selection.addItem(_SELECTIONS[key], key)
            self.selection.setItemData(row, text, Qt.ItemDataRole.ToolTipRole)
        self.options = QToolButton()
        self.options.setText("Options")
        self.options.setAccessibleName("Further options of the gate rule")
        self.options.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        menu = QMenu(self.options)
        menu.setToolTipsVisible(True)
        self.shared = _switch(menu, "Masks shared by q, k, v and gate, up", MASKS["shared"][1])
        self.correction = _switch(menu, "Correct the dropped part's mean", CORRECTION)
        self.options.setMenu(menu)
        self._build_allocation()
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(GRID)
        for widget in (text_label("Method", "muted"), self.method, self.selection, self.options):
            row.addWidget(widget)
        row.addSpacing(GRID)
        row.addWidget(text_label("Show", "muted"))
        row.addLayout(self._switches())
        row.addStretch(1)
        for widget in (self.allocator, self.budget, self.allocate):
            row.addWidget(widget)
        self.method.currentIndexChanged.connect(self._choose_method)
        self.selection.currentIndexChanged.connect(self._choose_method)
        for action in (self.shared, self.correction):
            action.triggered.connect(self._choose_method)

    def _build_allocation(self) -> None:
        self.allocator = QComboBox()
        self.allocator.setAccessibleName("How the budget is spread over the model")
        for row, (spec, text) in enumerate(ALLOCATORS):
            self.allocator.addItem(spec.label.capitalize(), spec)
            self.allocator.setItemData(row, text, Qt.ItemDataRole.ToolTipRole)
        self.allocator.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.allocator.setMinimumContentsLength(9)
        self.allocator.view().setMinimumWidth(GRID * 24)
        self.budget = QDoubleSpinBox()
        self.budget.setDecimals(1)
        self.budget.setRange(0.0, 100 * HIGHEST)
        self.budget.setValue(50.0)
        self.budget.setSuffix(" %")
        pad_text(self.budget)
        self.budget.setAccessibleName("Budget: mean target sparsity in percent")
        self.budget.setToolTip("Mean target over all cells, weighted by their numbers of weights")
        self.allocate = QPushButton()
        self.allocate.setMinimumWidth(GRID * 11)  # room for its longest text: nothing moves when that changes
        self.allocate.clicked.connect(self._on_allocate)
        self.allocator.currentIndexChanged.connect(lambda: self.show_allocating(self._running))
        self.show_allocating(False)

    def show_allocating(self, running: bool) -> None:
        """While an allocation runs, the button cancels it."""
        self._running = running
        spec: AllocatorSpec = self.allocator.currentData()
        at_once = spec.name == "uniform"
        text = "Cancel" if running else "Set all" if at_once else "Allocate"
        self.allocate.setText(text)
        self.allocate.setAccessibleName(f"{text}: {spec.label} allocation")
        tip = "Give every projection of every layer this target" if at_once else "Spread the budget, in the background"
        self.allocate.setToolTip("Stop at the next batch; what was found is kept" if running else tip)
        self.allocator.setToolTip(self.allocator.currentData(Qt.ItemDataRole.ToolTipRole))
        for control in (self.allocator, self.budget):
            control.setEnabled(not running)

    def show_method(self, method: MethodSpec) -> None:
        """Show the gate rule without emitting it."""
        with QSignalBlocker(self.method), QSignalBlocker(self.selection):
            plain = MethodSpec(name=method.name, variant=method.variant)
            self.method.setCurrentIndex(self.method.findText(plain.label))
            self.selection.setCurrentIndex(self.selection.findData(method.selection))
        self.method.setToolTip(explanation(method))
        self.shared.setChecked(method.masks == "shared")
        self.correction.setChecked(method.correction == "mean")
        by_norms = shares_masks(method)
        self.shared.setEnabled(by_norms)
        self.shared.setToolTip(MASKS["shared"][1] if by_norms else _NO_MASKS)

    def show_map_key(self, key: MapKey) -> None:
        """Mark which table is shown."""
        self.buttons[key].setChecked(True)

    def _switches(self) -> QHBoxLayout:
        self._group = QButtonGroup(self)
        self.buttons: dict[MapKey, QToolButton] = {}
        row = QHBoxLayout()
        row.setSpacing(HALF)
        for key in MAP_KEYS:
            button = QToolButton()
            button.setText(TITLES[key])
            button.setToolTip(EXPLANATIONS[key])
            button.setAccessibleName(f"Show {TITLES[key].lower()}")
            button.setCheckable(True)
            button.clicked.connect(lambda _=False, key=key: self.map_chosen.emit(key))
            self._group.addButton(button)
            self.buttons[key] = button
            row.addWidget(button)
        self.buttons["target"].setChecked(True)
        return row

    def _choose_method(self) -> None:
        gating = Gating(
            selection=self.selection.currentData(),
            masks="shared" if self.shared.isChecked() else "separate",
            correction="mean" if self.correction.isChecked() else "none",
        )
        self.method_chosen.emit(gating.of(self.method.currentData()))

    def _on_allocate(self) -> None:
        if self._running:
            self.cancel_requested.emit()
        else:
            self.allocation_chosen.emit(self.allocator.currentData(), fraction(self.budget.value()))


def _switch(menu: QMenu, text: str, tip: str) -> QAction:
    action = menu.addAction(text)
    action.setCheckable(True)
    action.setToolTip(tip)
    return action
