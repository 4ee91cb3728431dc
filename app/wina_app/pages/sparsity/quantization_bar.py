"""Settings of the quantizer, shown above the map of bits."""

from typing import get_args

from PySide6.QtCore import QSignalBlocker, Signal
from PySide6.QtWidgets import QCheckBox, QComboBox, QWidget

from wina_app.pages.sparsity.editing.model_bits import ModelBits
from wina_app.pages.sparsity.plan_summary import PlanFigures
from wina_app.style.translation import tr
from wina_app.widgets.boxes import hbox
from wina_app.widgets.controls import ElidedLabel, captioned
from wina_app.widgets.fields import choices
from wina_app.widgets.help_button import HelpButton
from wina_app.widgets.plain_text import plain_tip
from wina_core.specs import quantization_label
from wina_core.specs.quantization import NESTED, QUANTIZER_PLUGINS, GroupSize, HeadBits

_QUANTIZERS = (
    ("RTN", "rtn", tr("Round to nearest, with optimized ranges; needs no text")),
    ("HQQ", "hqq", tr("Half-quadratic quantization: zeros that lessen the error of outliers; needs no text")),
    (
        "GPTQ",
        "gptq",
        tr("Errors of a column are compensated in the next ones by the inputs' second moments on a text; slowest"),
    ),
    (
        tr("Planes"),
        "planes",
        tr("Planes of 2 bits, the highest first: gates read the first planes of inputs of low scores alone"),
    ),
)
_NESTED = tr("Nested")
"""Shown of old files and databases; it cannot be chosen."""
_BY_ENERGY = tr(
    "More bits for the inputs that carry more energy, E[x²] ‖W‖²: at most four runs of equal bits in a matrix, whose "
    "mean is the cell's number; with equal cells, each matrix gets its share of the model's bits"
)
_PLANES_BY_ENERGY = tr(
    "1 to 6 planes for each input, more for those that carry more energy, E[x²] times the squares of its weights, each "
    "weighted by its output's sensitivity: the cell's number is all that is held, scales included; with equal cells, "
    "each matrix gets its share of the model's bits"
)
_GROUP = tr("Consecutive inputs with one scale and zero; smaller groups are closer and hold more")
_NO_GROUPS = tr("Planes have no groups: each input has one scale")
_REFUSED = tr("weights of the quantizer nested are no longer made; choose planes")
_NOT_QUANTIZED = tr("not quantized: choose bits below 16")


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
            *(
                (name, name, tr("Of the package {package}", package=QUANTIZER_PLUGINS.version(name)))
                for name in QUANTIZER_PLUGINS.names
            ),
        )
        self.quantizer = choices(self._quantizers, tr("Quantizer"))
        self.by_energy = QCheckBox(tr("By energy"))
        self.by_energy.setToolTip(plain_tip(_BY_ENERGY))
        self.group = choices([(str(size), size, _GROUP) for size in sorted(get_args(GroupSize))], tr("Group size"))
        head = tr("Bits of the output head, which is read for every token; 16 leaves it as it is")
        self.head = choices([(str(bits), bits, head) for bits in get_args(HeadBits)], tr("Bits of the output head"))
        self.state = ElidedLabel("muted")
        hbox(
            self,
            captioned(tr("Quantizer"), self.quantizer),
            self.by_energy,
            captioned(tr("Group"), self.group),
            captioned(tr("Head bits"), self.head),
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
        self._refused = "" if installed else _REFUSED if name == NESTED else tr("no package with {name}", name=name)
        with QSignalBlocker(self.by_energy):
            self.by_energy.setChecked(settings.by_energy)
        for field, box in self._boxes().items():
            with QSignalBlocker(box):
                box.setCurrentIndex(box.findData(getattr(settings, field)))
        self.quantizer.setPlaceholderText("" if installed else _NESTED if name == NESTED else name)
        self.quantizer.setToolTip(self._refused or self._quantizers[self.quantizer.currentIndex()][2])
        self.by_energy.setToolTip(plain_tip(_PLANES_BY_ENERGY if in_planes else _BY_ENERGY))
        self.group.setEnabled(not in_planes)
        self.group.setToolTip(_NO_GROUPS if in_planes else _GROUP)
        self._in_planes = in_planes
        self._label = quantization_label(bits.quantization)
        self._show_state()

    @property
    def in_use(self) -> bool:
        """Return whether anything is quantized in runs."""
        return self._label != "none"

    def show_figures(self, figures: PlanFigures) -> None:
        """Show what the bits take, with scales and zeros."""
        self._bits_per_weight = (figures.bits_held, figures.bits_read)
        self._show_state()

    def _show_state(self) -> None:
        held, read = self._bits_per_weight
        if self._label == "none":
            self.state.setText(_NOT_QUANTIZED)
        elif self._refused:
            self.state.setText(self._refused)
        elif held is None or read is None:
            self.state.setText(tr("runs have {bits}", bits=self._label))
        else:
            bits_read = f"{read:.3g}"
            self.state.setText(
                tr(
                    "{bits}: {held} bits held, {read} read per weight",
                    bits=self._label,
                    held=f"{held:.3g}",
                    read=tr("about {bits}", bits=bits_read) if self._in_planes else bits_read,
                )
            )

    def _boxes(self) -> dict[str, QComboBox]:
        return {"quantizer": self.quantizer, "group": self.group, "head_bits": self.head}
