"""Budgets of an allocation of target sparsities and bits together."""

from dataclasses import dataclass

from pydantic import ValidationError
from PySide6.QtWidgets import QCheckBox, QDoubleSpinBox, QWidget

from wina_app.pages.sparsity.editing.bits_values import HIGHEST
from wina_app.shared.colour_scales import bits_text
from wina_app.style.theme import GRID
from wina_app.style.translation import tr
from wina_app.widgets.boxes import hbox
from wina_app.widgets.controls import captioned
from wina_app.widgets.fields import decimal
from wina_core.errors import WinaError, explain
from wina_core.model_info.cost.terms import group_scale_bits
from wina_core.specs import JointSpec, QuantizationSpec
from wina_core.specs.quantization import check_made

_USUAL_READ = 4.5
_ANY, _EIGHT = tr("any"), tr("8 bits")
_READ = tr("Most bits of the gated weights read for a token, over their number; scales included")
_HELD = tr("Most bits of the gated weights held in memory, over their number; scales included")


@dataclass(frozen=True)
class JointBudget:
    """Most bits per gated weight, scales and zeros included; None for no limit."""

    read: float | None
    """Bits read for a token, of all gated weights."""
    held: float | None
    """Bits held in memory."""
    refined: bool = False
    """Measure the divergence that each mask causes alone; for weights in planes."""


def joint_spec(budget: JointBudget, settings: QuantizationSpec) -> JointSpec:
    """Return the allocation of bits by a quantizer within a budget. Raise WinaError where none of them can meet it."""
    check_made(settings)
    if budget.read is None and budget.held is None:
        raise WinaError(tr("An allocation of bits needs a budget: set the bits read, the bits held, or both."))
    if settings.quantizer == "planes":
        return _in_planes(budget, settings)
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


def _in_planes(budget: JointBudget, settings: QuantizationSpec) -> JointSpec:
    """Return the allocation of planes, which hold 8 bits without a budget."""
    if budget.read is None:
        raise WinaError(tr("Weights in planes need a budget of bits read: gates choose the planes; set it."))
    usual = JointSpec.model_fields["quantization"].default
    planes = usual.model_copy(update={name: getattr(settings, name) for name in ("by_energy", "head_bits", "text")})
    try:
        return JointSpec(bits_read=budget.read, bits_held=budget.held, quantization=planes, refined=budget.refined)
    except ValidationError as error:
        raise WinaError(explain(error)) from error


class JointBudgetFields(QWidget):
    """Fields of both budgets; at the lower end a field means no limit."""

    def __init__(self) -> None:
        super().__init__()
        self.read = _field(_USUAL_READ)
        self.read.setAccessibleName(tr("Budget: bits read per weight and token"))
        self.held = _field(0.0)
        self.held.setAccessibleName(tr("Budget: bits held per weight"))
        self.refined = QCheckBox(tr("Refined"))
        self.refined.setToolTip(
            tr("Also measure the divergence that each mask causes alone: some 5 % less KL, for a pass for each mask")
        )
        hbox(self, captioned(tr("Read"), self.read), captioned(tr("Held"), self.held), self.refined)
        self.show_planes(False)

    @property
    def budget(self) -> JointBudget:
        """Return the budgets."""
        refined = self.refined.isChecked() and not self.refined.isHidden()
        return JointBudget(self.read.value() or None, self.held.value() or None, refined)

    def show_planes(self, chosen: bool) -> None:
        """Show what weights in planes need: bits read, and held ones if they are not to be 8."""
        self.refined.setVisible(chosen)
        self.held.setSpecialValueText(_EIGHT if chosen else _ANY)
        self.read.setToolTip(_READ + (tr("; planes need it") if chosen else ""))
        self.held.setToolTip(_HELD + (tr("; planes hold 8 without it") if chosen else ""))


def _field(value: float) -> QDoubleSpinBox:
    field = decimal(0.0, HIGHEST + 1, value, tr(" bits"), decimals=2, step=0.25, lowest=_ANY)
    field.setMinimumWidth(12 * GRID)
    return field
