"""Editor of the selected cells' value, or of the brush's."""

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtWidgets import QDoubleSpinBox, QPushButton, QSlider, QWidget

from wina_app.pages.sparsity.editing.cell_values import CellValues
from wina_app.pages.sparsity.editing.sparsity_values import SPARSITY
from wina_app.style.theme import GRID
from wina_app.style.translation import tr
from wina_app.widgets.base_page import with_shortcut
from wina_app.widgets.boxes import hbox
from wina_app.widgets.controls import ignore_unfocused_wheel, pad_text, text_label

_NOTHING = tr("Select cells in the heatmap first, or turn the brush on")


class ValueEditor(QWidget):
    """Slider and spin box of one kind of values, brush, budget and lock."""

    gesture_began = Signal()
    gesture_ended = Signal()
    target_chosen = Signal(float)
    """A value of a cell."""
    brush_toggled = Signal(bool)
    lock_toggled = Signal()
    keep_toggled = Signal(bool)

    def __init__(self) -> None:
        super().__init__()
        self._values: CellValues = SPARSITY
        self._subject = text_label("")
        self._subject.setMinimumWidth(22 * GRID)
        self.slider = QSlider(Qt.Orientation.Horizontal)
        ignore_unfocused_wheel(self.slider)
        self.spin = _ValueBox()
        self.spin.setMinimumWidth(17 * GRID)
        self.brush = _switch(tr("Brush"))
        self.brush.setToolTip(tr("Drag over cells to set this value; Shift selects instead"))
        self.lock = _switch(tr("Lock"))
        self.keep = _switch(tr("Keep budget"))
        self.show_locked(False, possible=False)
        self.show_kept(None)
        hbox(self, self._subject, (self.slider, 1), self.spin, self.brush, self.lock, self.keep)
        self.slider.sliderPressed.connect(self.gesture_began)
        self.slider.sliderReleased.connect(self.gesture_ended)
        self.slider.valueChanged.connect(lambda value: self._choose(value * self._values.resolution))
        self.spin.valueChanged.connect(lambda value: self._choose(value / self._values.factor))
        self.brush.toggled.connect(self.brush_toggled)
        self.lock.clicked.connect(lambda: self.lock_toggled.emit())
        self.keep.clicked.connect(self.keep_toggled)
        self.show_values(SPARSITY)

    @property
    def target(self) -> float:
        """Return the chosen value."""
        return self._value(self.slider.value() * self._values.resolution)

    def show_values(self, values: CellValues) -> None:
        """Edit another kind of values."""
        self._values = values
        with QSignalBlocker(self.slider), QSignalBlocker(self.spin):
            self.slider.setRange(*(round(end / values.resolution) for end in (values.lowest, values.highest)))
            self.slider.setPageStep(max(round(0.05 * (values.highest - values.lowest) / values.resolution), 1))
            self.spin.show_values(values)
        name = tr("{quantity} of the selection", quantity=values.name)
        self.slider.setAccessibleName(name)
        self.spin.setAccessibleName(tr("{name} in{unit}", name=name, unit=values.suffix))
        self.show_targets(tr("nothing selected"), None)

    def show_targets(self, subject: str, span: tuple[float, float] | None) -> None:
        """Show whose value this is, and its lowest and highest one; None disables it."""
        values = self._values
        self._subject.setText(subject)
        for control in (self.slider, self.spin):
            control.setEnabled(span is not None)
            control.setToolTip("" if span else _NOTHING)
        low, high = span or (values.lowest, values.lowest)
        single = span is not None and low == high
        least = values.factor * values.lowest - (0.0 if single else 0.1)
        with QSignalBlocker(self.slider), QSignalBlocker(self.spin):
            several = f"{values.number(low)} to {values.number(high)}{values.suffix}" if span else "\N{EN DASH}"
            if self.spin.specialValueText() != ("" if single else several):  # setting it lays the page out anew
                self.spin.setSpecialValueText("" if single else several)
            if self.spin.minimum() != least:
                self.spin.setMinimum(least)
            self.spin.setValue(values.factor * low if single else self.spin.minimum())
            if span:
                self.slider.setValue(round((low + high) / 2 / values.resolution))

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
                    budget=self._values.text(budget),
                )
            )

    def _value(self, number: float) -> float:
        return self._values.snapped(round(number, 6))

    def _choose(self, number: float) -> None:
        if number < self._values.lowest:  # the spin box's text for several values, not a value
            return
        value = self._value(number)
        self.show_targets(self._subject.text(), (value, value))
        self.target_chosen.emit(value)


class _ValueBox(QDoubleSpinBox):
    """A spin box whose arrows go from one possible value to the next."""

    def __init__(self) -> None:
        super().__init__()
        self.setKeyboardTracking(False)
        pad_text(self)
        ignore_unfocused_wheel(self)
        self._values: CellValues = SPARSITY

    def show_values(self, values: CellValues) -> None:
        """Show numbers of another kind."""
        self._values = values
        self.setDecimals(values.decimals)
        self.setSuffix(values.suffix)
        self.setRange(values.factor * values.lowest, values.factor * values.highest)

    def stepBy(self, steps: int) -> None:
        """Step to the next value, as the keys + and \N{MINUS SIGN} with Ctrl do on the map."""
        value = max(self.value() / self._values.factor, self._values.lowest)
        for _ in range(abs(steps)):
            value = self._values.stepped(value, 1 if steps > 0 else -1)
        self.setValue(self._values.factor * value)


def _switch(name: str) -> QPushButton:
    button = QPushButton(name)
    button.setCheckable(True)
    button.setAccessibleName(name)
    return button
