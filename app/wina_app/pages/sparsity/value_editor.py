"""Editors below and above the map: of the selected cells' value or the brush's, and of the quantizer's settings."""

from typing import get_args

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtWidgets import QCheckBox, QComboBox, QDoubleSpinBox, QPushButton, QSlider, QWidget

from wina_app.pages.sparsity.cell_values import SPARSITY, CellValues
from wina_app.pages.sparsity.edit_model import ModelBits
from wina_app.pages.sparsity.plan_maps import PlanFigures
from wina_app.style.theme import GRID
from wina_app.widgets.base_page import with_shortcut
from wina_app.widgets.boxes import hbox
from wina_app.widgets.controls import ElidedLabel, captioned, ignore_unfocused_wheel, pad_text, text_label
from wina_app.widgets.fields import choices
from wina_app.widgets.help_button import HelpButton
from wina_app.widgets.plain_text import plain_tip
from wina_core.specs import quantization_label
from wina_core.specs.quantization import QUANTIZER_PLUGINS, GroupSize, HeadBits

_NOTHING = "Select cells in the heatmap first, or turn the brush on"


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
        self.brush = _toggle_button("Brush")
        self.brush.setToolTip("Drag over cells to set this value; Shift selects instead")
        self.lock = _toggle_button("Lock")
        self.keep = _toggle_button("Keep budget")
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
        return self._value(self.slider.value() * self._values.resolution)

    def show_values(self, values: CellValues) -> None:
        """Edit another kind of values."""
        self._values = values
        with QSignalBlocker(self.slider), QSignalBlocker(self.spin):
            self.slider.setRange(*(round(end / values.resolution) for end in (values.lowest, values.highest)))
            self.slider.setPageStep(max(round(0.05 * (values.highest - values.lowest) / values.resolution), 1))
            self.spin.show_values(values)
        name = f"{values.name} of the selection"
        self.slider.setAccessibleName(name)
        self.spin.setAccessibleName(f"{name} in{values.suffix}")
        self.show_targets("nothing selected", None)

    def show_targets(self, subject: str, span: tuple[float, float] | None) -> None:
        """Show whose value this is, and its lowest and highest one; None disables it."""
        values = self._values
        self._subject.setText(subject)
        for control in (self.slider, self.spin):
            control.setEnabled(span is not None)
            control.setToolTip("" if span else _NOTHING)
        low, high = span or (values.lowest, values.lowest)
        single = span is not None and low == high
        # At its minimum the box shows the special text; several values need one below every real value for theirs.
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
        tip = "Unlock the selected cells" if locked else "Protect the selected cells from edits"
        self.lock.setToolTip(with_shortcut(tip, "L") if possible else "Select cells in the heatmap first")

    def show_kept(self, budget: float | None) -> None:
        self.keep.setChecked(budget is not None)
        tip = "After every edit, all other unlocked cells compensate"
        if budget is not None:
            tip = f"The budget stays {self._values.text(budget)}: other unlocked cells compensate for edits"
        self.keep.setToolTip(tip)

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
        self.setKeyboardTracking(False)  # a typed number is one edit, not one for each digit
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


def _toggle_button(name: str) -> QPushButton:
    button = QPushButton(name)
    button.setCheckable(True)
    button.setAccessibleName(name)
    return button


_QUANTIZERS = (
    ("RTN", "rtn", "Round to nearest, with optimized ranges; needs no text"),
    ("HQQ", "hqq", "Half-quadratic quantization: zeros that lessen the error of outliers; needs no text"),
    (
        "GPTQ",
        "gptq",
        "Errors of a column are compensated in the next ones by the inputs' second moments on a text; slowest",
    ),
    (
        "Planes",
        "planes",
        "Planes of 2 bits, the highest first: gates read the first planes of inputs of low scores alone",
    ),
)
_BY_ENERGY = (
    "More bits for the inputs that carry more energy, E[x²] ‖W‖²: at most four runs of equal bits in a matrix, whose "
    "mean is the cell's number; with equal cells, each matrix gets its share of the model's bits"
)
_PLANES_BY_ENERGY = (
    "1 to 6 planes for each input, more for those that carry more energy, E[x²] times the squares of its weights, each "
    "weighted by its output's sensitivity: the cell's number is all that is held, scales included; with equal cells, "
    "each matrix gets its share of the model's bits"
)
_GROUP = "Consecutive inputs with one scale and zero; smaller groups are closer and hold more"
_NO_GROUPS = "Planes have no groups: each input has one scale"
_NOT_QUANTIZED = "not quantized: choose bits below 16"


class QuantizationBar(QWidget):
    """Line with quantizer, energy, group and head; its changes are one signal."""

    changed = Signal(dict)
    """The changed field of QuantizationSpec with its value."""

    def __init__(self) -> None:
        super().__init__()
        self._label, self._in_planes, self._refused = "none", False, ""
        self._bits_per_weight: tuple[float | None, float | None] = (None, None)
        """Bits held and read per gated weight; None if unknown."""
        self._quantizers = (
            *_QUANTIZERS,
            *((name, name, f"Of the package {QUANTIZER_PLUGINS.version(name)}") for name in QUANTIZER_PLUGINS.names),
        )
        self.quantizer = choices(self._quantizers, "Quantizer")
        self.by_energy = QCheckBox("By energy")
        self.by_energy.setToolTip(plain_tip(_BY_ENERGY))
        self.group = choices([(str(size), size, _GROUP) for size in sorted(get_args(GroupSize))], "Group size")
        head = "Bits of the output head, which is read for every token; 16 leaves it as it is"
        self.head = choices([(str(bits), bits, head) for bits in get_args(HeadBits)], "Bits of the output head")
        self.state = ElidedLabel("muted")
        hbox(
            self,
            captioned("Quantizer", self.quantizer),
            self.by_energy,
            captioned("Group", self.group),
            captioned("Head bits", self.head),
            HelpButton("Quantization"),
            (self.state, 1),
        )
        self.by_energy.toggled.connect(lambda on: self.changed.emit({"by_energy": on}))
        for name, box in self._boxes().items():
            box.currentIndexChanged.connect(
                lambda _row, name=name, box=box: self.changed.emit({name: box.currentData()})
            )

    def show_bits(self, bits: ModelBits) -> None:
        """Show the settings, and the quantization in runs, without a signal."""
        settings = bits.settings
        in_planes, name = settings.quantizer == "planes", settings.quantizer
        installed = self.quantizer.findData(name) >= 0
        self._refused = "" if installed else f"no package with {name}"
        with QSignalBlocker(self.by_energy):
            self.by_energy.setChecked(settings.by_energy)
        for field, box in self._boxes().items():
            with QSignalBlocker(box):
                box.setCurrentIndex(box.findData(getattr(settings, field)))
        self.quantizer.setPlaceholderText("" if installed else name)
        self.quantizer.setToolTip(self._refused or self._quantizers[self.quantizer.currentIndex()][2])
        self.by_energy.setToolTip(plain_tip(_PLANES_BY_ENERGY if in_planes else _BY_ENERGY))
        self.group.setEnabled(not in_planes)
        self.group.setToolTip(_NO_GROUPS if in_planes else _GROUP)
        self._in_planes = in_planes
        self._label = quantization_label(bits.quantization)
        self._show_state()

    @property
    def in_use(self) -> bool:
        return self._label != "none"

    def show_figures(self, figures: PlanFigures) -> None:
        self._bits_per_weight = (figures.bits_held, figures.bits_read)
        self._show_state()

    def _show_state(self) -> None:
        held, read = self._bits_per_weight
        if self._label == "none":
            text = _NOT_QUANTIZED
        elif self._refused:
            text = self._refused
        elif held is None or read is None:
            text = f"runs have {self._label}"
        else:
            about = "about " if self._in_planes else ""
            text = f"{self._label}: {held:.3g} bits held, {about}{read:.3g} read per weight"
        self.state.setText(text)

    def _boxes(self) -> dict[str, QComboBox]:
        return {"quantizer": self.quantizer, "group": self.group, "head_bits": self.head}
