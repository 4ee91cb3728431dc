"""The row under the heatmap that changes the selected cells, or sets what the brush paints."""

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtWidgets import QDoubleSpinBox, QHBoxLayout, QPushButton, QSlider, QWidget

from wina_app.models.sparsity_edits import HIGHEST
from wina_app.quantities import fraction
from wina_app.theme import GRID
from wina_app.views.colour_maps import percent
from wina_app.views.controls import pad_text, text_label

_NOTHING = "Select cells in the heatmap first, or turn the brush on"


class SparsityEditor(QWidget):
    """Slider and spin box in percent, and the switch between selecting and painting."""

    gesture_began = Signal()
    gesture_ended = Signal()
    target_chosen = Signal(float)
    """A fraction."""
    brush_toggled = Signal(bool)

    def __init__(self) -> None:
        super().__init__()
        self._what = text_label("")
        self._what.setMinimumWidth(22 * GRID)
        self.slider = QSlider(Qt.Orientation.Horizontal)
        self.slider.setRange(0, round(1000 * HIGHEST))
        self.slider.setPageStep(50)
        self.slider.setAccessibleName("Target sparsity of the selection")
        self.spin = QDoubleSpinBox()
        self.spin.setDecimals(1)
        self.spin.setSuffix(" %")
        self.spin.setKeyboardTracking(False)
        pad_text(self.spin)
        self.spin.setAccessibleName("Target sparsity of the selection in percent")
        self.spin.setMaximum(100 * HIGHEST)
        self.spin.setMinimumWidth(17 * GRID)
        self.brush = QPushButton("Brush")
        self.brush.setCheckable(True)
        self.brush.setToolTip("Drag over cells to give them this target, instead of selecting them")
        self.brush.setAccessibleName("Brush")
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(GRID)
        row.addWidget(self._what)
        row.addWidget(self.slider, 1)
        row.addWidget(self.spin)
        row.addWidget(self.brush)
        self.slider.sliderPressed.connect(self.gesture_began)
        self.slider.sliderReleased.connect(self.gesture_ended)
        self.slider.valueChanged.connect(lambda value: self._choose(fraction(value / 10)))
        self.spin.valueChanged.connect(lambda value: self._choose(fraction(value)))
        self.brush.toggled.connect(self.brush_toggled)
        self.show_targets("nothing selected", None)

    @property
    def target(self) -> float:
        """The fraction that slider and spin box stand at."""
        return fraction(self.slider.value() / 10)

    def show_targets(self, what: str, span: tuple[float, float] | None) -> None:
        """Show whose target this is and the lowest and highest of them; None when there is nothing to change."""
        self._what.setText(what)
        for control in (self.slider, self.spin):
            control.setEnabled(span is not None)
            control.setToolTip("" if span else _NOTHING)
        low, high = span or (0.0, 0.0)
        single = span is not None and low == high
        with QSignalBlocker(self.slider), QSignalBlocker(self.spin):
            several = f"{percent(low)} to {percent(high)} %" if span else "\N{EN DASH}"
            self.spin.setSpecialValueText("" if single else several)
            self.spin.setMinimum(0.0 if single else -0.1)
            self.spin.setValue(100 * low if single else self.spin.minimum())
            if span:
                self.slider.setValue(round(1000 * (low + high) / 2))

    def _choose(self, target: float) -> None:
        if target < 0:  # the spin box's text for several values, not a value
            return
        self.show_targets(self._what.text(), (target, target))
        self.target_chosen.emit(target)
