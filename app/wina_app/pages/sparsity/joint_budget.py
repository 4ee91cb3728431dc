"""Budgets of an allocation of target sparsities and bits together."""

from dataclasses import dataclass

from PySide6.QtWidgets import QDoubleSpinBox, QWidget

from wina_app.pages.sparsity.editing.bits_values import HIGHEST
from wina_app.shared.colour_scales import bits_text
from wina_app.style.theme import GRID
from wina_app.style.translation import tr
from wina_app.widgets.boxes import hbox
from wina_app.widgets.controls import captioned
from wina_app.widgets.fields import decimal
from wina_core.accounting.bits import group_scale_bits
from wina_core.errors import WinaError
from wina_core.specs import JointSpec, QuantizationSpec

_USUAL_READ = 4.5
_ANY = tr("any")


@dataclass(frozen=True)
class JointBudget:
    """Most bits per gated weight, scales and zeros included; None for no limit."""

    read: float | None
    """Bits read for a token, of all gated weights."""
    held: float | None
    """Bits held in memory."""


def joint_spec(budget: JointBudget, settings: QuantizationSpec) -> JointSpec:
    """Return the allocation of bits by a quantizer within a budget. Raise WinaError where none of them can meet it."""
    if budget.read is None and budget.held is None:
        raise WinaError(tr("An allocation of bits needs a budget: set the bits read, the bits held, or both."))
    spec = JointSpec(bits_read=budget.read, bits_held=budget.held, quantization=settings)
    lowest = spec.choices[0]
    least = lowest + group_scale_bits(lowest) / settings.group
    if budget.held is not None and budget.held < least:
        raise WinaError(
            tr(
                "A budget of {budget} bits held per weight is below what the bits allow: {lowest} bits with scales and "
                "zeros for groups of {group} hold {least}; raise it, or choose another quantizer or group.",
                budget=bits_text(budget.held),
                lowest=bits_text(lowest),
                group=settings.group,
                least=bits_text(least),
            )
        )
    return spec


class JointBudgetFields(QWidget):
    """Fields of both budgets; at the lower end a field means no limit."""

    def __init__(self) -> None:
        super().__init__()
        self.read = _field(_USUAL_READ)
        self.read.setAccessibleName(tr("Budget: bits read per weight and token"))
        self.read.setToolTip(tr("Most bits of the gated weights read for a token, over their number; scales included"))
        self.held = _field(0.0)
        self.held.setAccessibleName(tr("Budget: bits held per weight"))
        self.held.setToolTip(tr("Most bits of the gated weights held in memory, over their number; scales included"))
        hbox(self, captioned(tr("Read"), self.read), captioned(tr("Held"), self.held))

    @property
    def budget(self) -> JointBudget:
        """Return the budgets."""
        return JointBudget(self.read.value() or None, self.held.value() or None)


def _field(value: float) -> QDoubleSpinBox:
    field = decimal(0.0, HIGHEST + 1, value, tr(" bits"), decimals=2, step=0.25, lowest=_ANY)
    field.setMinimumWidth(12 * GRID)
    return field
