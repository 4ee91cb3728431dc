"""The row above the heatmap: gate rule, which table is shown, and the uniform preset."""

from PySide6.QtCore import QSignalBlocker, Signal
from PySide6.QtWidgets import (
    QButtonGroup,
    QComboBox,
    QDoubleSpinBox,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QToolButton,
    QWidget,
)

from wina_app.controllers.sparsity_controller import MAP_KEYS, MapKey
from wina_app.models.sparsity_edits import HIGHEST
from wina_app.quantities import fraction
from wina_app.theme import GRID, HALF
from wina_app.views.controls import pad_text
from wina_app.views.sparsity_scales import EXPLANATIONS, TITLES
from wina_core.methods import method_specs
from wina_core.specs import DENSE, MethodSpec

_SELECTIONS = {"topk": "top-k per token", "threshold": "calibrated threshold"}


class SparsityToolbar(QWidget):
    """Shows and emits; holds no state of its own."""

    method_chosen = Signal(object)
    """MethodSpec."""
    map_chosen = Signal(str)
    uniform_chosen = Signal(float)
    """A fraction."""

    def __init__(self) -> None:
        super().__init__()
        self.method = QComboBox()
        self.method.setAccessibleName("Gate rule")
        for spec in method_specs():
            if spec != DENSE:
                self.method.addItem(spec.label, spec)
        self.selection = QComboBox()
        self.selection.setAccessibleName("How inputs are selected")
        for key, text in _SELECTIONS.items():
            self.selection.addItem(text, key)
        self.uniform = QDoubleSpinBox()
        self.uniform.setDecimals(1)
        self.uniform.setRange(0.0, 100 * HIGHEST)
        self.uniform.setValue(50.0)
        self.uniform.setSuffix(" %")
        pad_text(self.uniform)
        self.uniform.setAccessibleName("Uniform target sparsity in percent")
        self.apply_uniform = QPushButton("Set all")
        self.apply_uniform.setToolTip("Give every projection of every layer this target")
        self.apply_uniform.setAccessibleName("Set all cells to the uniform target")
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(GRID)
        row.addWidget(_caption("Method"))
        row.addWidget(self.method)
        row.addWidget(self.selection)
        row.addSpacing(2 * GRID)
        row.addWidget(_caption("Show"))
        row.addLayout(self._switch())
        row.addStretch(1)
        row.addWidget(_caption("Uniform"))
        row.addWidget(self.uniform)
        row.addWidget(self.apply_uniform)
        self.method.currentIndexChanged.connect(self._choose_method)
        self.selection.currentIndexChanged.connect(self._choose_method)
        self.apply_uniform.clicked.connect(lambda: self.uniform_chosen.emit(fraction(self.uniform.value())))

    def show_method(self, method: MethodSpec) -> None:
        """Show the gate rule without emitting it."""
        with QSignalBlocker(self.method), QSignalBlocker(self.selection):
            self.method.setCurrentIndex(self.method.findText(method.label))
            self.selection.setCurrentIndex(self.selection.findData(method.selection))

    def show_map_key(self, key: MapKey) -> None:
        """Mark which table is shown."""
        self.buttons[key].setChecked(True)

    def _switch(self) -> QHBoxLayout:
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
        spec: MethodSpec = self.method.currentData()
        self.method_chosen.emit(spec.model_copy(update={"selection": self.selection.currentData()}))


def _caption(text: str) -> QLabel:
    label = QLabel(text)
    label.setProperty("role", "muted")
    return label
