"""Joint allocation of bits and target sparsities to the cells of a model."""

from typing import Self

from pydantic import Field, model_validator

from wina_core.specs.base import Spec
from wina_core.specs.quantization import PLANES_BITS, MeanBits, QuantizationSpec
from wina_core.specs.texts import TextSpec

_WIDTHS: dict[bool, tuple[float, ...]] = {
    False: (2.0, 3.0, 4.0, 6.0, 8.0),
    True: (2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 8.0),
}
"""Proposed widths by whether bits go by energy."""


class JointSpec(Spec):
    """The bits and the target sparsity of each cell that change the model's output least within budgets.

    For each cell (decoder layer x projection), width and sparsity, the KL divergence that they cause alone is measured;
    the least sum within the budgets is found as a multiple-choice knapsack problem. Weights in planes need no such
    measurements: every plane of every input is read where its gain, by the outputs' sensitivities, is worth its bits.
    """

    bits_read: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Budget: bits read per token for each gated weight, scales and all, as measured on `text`; None for no bound."""
    bits_held: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Budget: bits held for each gated weight, likewise; planes not by energy hold a scale an input more."""
    quantization: QuantizationSpec = QuantizationSpec(quantizer="planes", bits=8, by_energy=True)
    """Quantizer and its settings; `bits` is what planes hold without `bits_held`, and otherwise not read."""
    widths: tuple[MeanBits, ...] = ()
    """Bits to choose from; empty for the usual ones of the quantizer. Not read for planes."""
    step: float = Field(default=0.025, gt=0.0, le=0.5)
    """Distance of the sparsities to choose from, likewise."""
    refined: bool = False
    """Planes: measure the divergence of every mask alone and correct what its inputs are worth."""
    text: TextSpec = TextSpec(tokens=8_192)
    """The text to measure divergences on."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.bits_read is None and self.bits_held is None:
            raise ValueError("a joint allocation needs a budget: give bits_read, bits_held or both")
        if self.in_planes:
            if self.bits_read is None:
                raise ValueError("weights in planes need a budget of bits read; give bits_read")
            _ = self.in_planes_held  # bits that planes cannot have are refused as in a model's own
            return self
        for bits in self.choices:  # a width that the quantizer lacks is refused as in a model's own
            self.quantized(bits)
        return self

    @property
    def in_planes(self) -> bool:
        """Return whether weights are in planes, of which no measured options are needed."""
        return self.quantization.quantizer == "planes"

    @property
    def choices(self) -> tuple[float, ...]:
        """Return the widths to choose from, ascending."""
        spec = self.quantization
        usual = _WIDTHS[spec.by_energy]
        return tuple(sorted(set(self.widths))) if self.widths else usual

    def quantized(self, bits: float) -> QuantizationSpec:
        """Return the quantization with the same bits everywhere."""
        return QuantizationSpec.model_validate({**dict(self.quantization), "bits": bits})

    @property
    def in_planes_held(self) -> QuantizationSpec:
        """Return the quantization whose weights in planes are within the budget held, or have the spec's own bits."""
        return self.quantization if self.bits_held is None else self.quantized(min(self.bits_held, PLANES_BITS[0]))

    @property
    def measured(self) -> "JointSpec":
        """Return the spec with all that the measurements depend on, and no more."""
        widths, step = self.choices, JointSpec.model_fields["step"].default
        quantization = self.quantization if self.in_planes else self.quantized(widths[0])
        fixed = {"bits_read": 16.0, "bits_held": None, "step": step, "widths": widths, "quantization": quantization}
        return self.model_copy(update=fixed)

    @property
    def label(self) -> str:
        """Return a short name, for example "joint, 4.5 bits read, 6 held"."""
        budgets = (("read", self.bits_read), ("held", self.bits_held))
        named = [f"{bits:g} bits {name}" for name, bits in budgets if bits is not None]
        return ", ".join(("joint", *named))
