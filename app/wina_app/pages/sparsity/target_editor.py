"""Editor of the selected cells' target, or of the brush's."""

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtWidgets import QDoubleSpinBox, QPushButton, QSlider, QWidget

from wina_app.pages.sparsity.edits import HIGHEST
from wina_app.plots.colour_maps import percent
from wina_app.style import number_format
from wina_app.style.number_format import fraction
from wina_app.style.theme import GRID
from wina_app.style.translation import tr
from wina_app.widgets.base_page import with_shortcut
from wina_app.widgets.boxes import hbox
from wina_app.widgets.controls import pad_text, text_label

_NOTHING = tr("Select cells in the heatmap first, or turn the brush on")


class SparsityEditor(QWidget):
    """Slider and spin box in percent, brush, budget and lock."""

    gesture_began = Signal()
    gesture_ended = Signal()
    target_chosen = Signal(float)
    """A fraction."""
    brush_toggled = Signal(bool)
    lock_toggled = Signal()
    keep_toggled = Signal(bool)

    def __init__(self) -> None:
        super().__init__()
        self._what = text_label("")
        self._what.setMinimumWidth(22 * GRID)
        self.slider = QSlider(Qt.Orientation.Horizontal)
        self.slider.setRange(0, round(1000 * HIGHEST))
        self.slider.setPageStep(50)
        self.slider.setAccessibleName(tr("Target sparsity of the selection"))
        self.spin = QDoubleSpinBox()
        self.spin.setDecimals(1)
        self.spin.setSuffix(" %")
        self.spin.setKeyboardTracking(False)
        pad_text(self.spin)
        self.spin.setAccessibleName(tr("Target sparsity of the selection in percent"))
        self.spin.setMaximum(100 * HIGHEST)
        self.spin.setMinimumWidth(17 * GRID)
        self.brush = _switch(tr("Brush"))
        self.brush.setToolTip(tr("Drag over cells to set this target; Shift selects instead"))
        self.lock = _switch(tr("Lock"))
        self.keep = _switch(tr("Keep budget"))
        self.show_locked(False, possible=False)
        self.show_kept(None)
        hbox(self, self._what, (self.slider, 1), self.spin, self.brush, self.lock, self.keep)
        self.slider.sliderPressed.connect(self.gesture_began)
        self.slider.sliderReleased.connect(self.gesture_ended)
        self.slider.valueChanged.connect(lambda value: self._choose(fraction(value / 10)))
        self.spin.valueChanged.connect(lambda value: self._choose(fraction(value)))
        self.brush.toggled.connect(self.brush_toggled)
        self.lock.clicked.connect(lambda: self.lock_toggled.emit())
        self.keep.clicked.connect(self.keep_toggled)
        self.show_targets(tr("nothing selected"), None)

    @property
    def target(self) -> float:
        """Return the chosen target as a fraction."""
        return fraction(self.slider.value() / 10)

    def show_targets(self, what: str, span: tuple[float, float] | None) -> None:
        """Show whose target this is, and its lowest and highest value; None disables it."""
        self._what.setText(what)
        for control in (self.slider, self.spin):
            control.setEnabled(span is not None)
            control.setToolTip("" if span else _NOTHING)
        low, high = span or (0.0, 0.0)
        single = span is not None and low == high
        with QSignalBlocker(self.slider), QSignalBlocker(self.spin):
            several = tr("{low} to {high} %", low=percent(low), high=percent(high)) if span else "\N{EN DASH}"
            if self.spin.specialValueText() != ("" if single else several):  # setting it lays the page out anew
                self.spin.setSpecialValueText("" if single else several)
            if self.spin.minimum() != (0.0 if single else -0.1):
                self.spin.setMinimum(0.0 if single else -0.1)
            self.spin.setValue(100 * low if single else self.spin.minimum())
            if span:
                self.slider.setValue(round(1000 * (low + high) / 2))

    def show_locked(self, locked: bool, *, possible: bool) -> None:
        """Show whether the selection is locked; impossible without a selection."""
        self.lock.setChecked(locked)
        self.lock.setEnabled(possible)
        tip = tr("Unlock the selected cells") if locked else tr("Protect the selected cells from edits")
        self.lock.setToolTip(with_shortcut(tip, "L") if possible else tr("Select cells in the heatmap first"))

    def show_kept(self, budget: float | None) -> None:
        """Show the kept budget, if any."""
        self.keep.setChecked(budget is not None)
        if budget is None:
            self.keep.setToolTip(tr("After every edit, all other unlocked cells compensate"))
        else:
            self.keep.setToolTip(
                tr(
                    "The budget stays {budget}: other unlocked cells compensate for edits",
                    budget=number_format.percent(budget),
                )
            )

    def _choose(self, target: float) -> None:
        if target < 0:  # the spin box's text for several values, not a value
            return
        self.show_targets(self._what.text(), (target, target))
        self.target_chosen.emit(target)


def _switch(name: str) -> QPushButton:
    button = QPushButton(name)
    button.setCheckable(True)
    button.setAccessibleName(name)
    return button
