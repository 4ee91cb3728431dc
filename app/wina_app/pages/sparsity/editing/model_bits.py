"""Bits of the open model as the page edits them."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from wina_app.pages.sparsity.editing.bits_values import HIGHEST, BitsValues, values_for
from wina_app.pages.sparsity.editing.cell_table import CellTable
from wina_core.specs import BitsPlan, Quantization, QuantizationSpec
from wina_core.specs.plans import PlanLayout

_NAMED: dict[str, tuple[float, str]] = {"none": (16.0, "hqq"), "int8": (8.0, "rtn"), "int4": (4.0, "hqq")}
"""Bits of a quantization of another library, and the quantizer of the first edit of them."""


@dataclass(frozen=True)
class ModelBits:
    """A table of bits with the quantizer's settings, which stay chosen while all cells have 16 bits."""

    quantization: Quantization
    """Quantization of the model in runs."""
    settings: QuantizationSpec
    """Quantizer, group and so on; its bits are those of `quantization` in short, and not read."""
    table: CellTable

    @classmethod
    def of(cls, quantization: Quantization, layout: PlanLayout) -> "ModelBits":
        """Return the bits of a model's quantization. Raise WinaError for another model's plan."""
        if isinstance(quantization, QuantizationSpec):
            plan = quantization.plan(layout)
            return cls(quantization, quantization, CellTable(layout, plan.bits, plan.provenance))
        bits, quantizer = _NAMED[quantization]
        return cls(quantization, QuantizationSpec(quantizer=quantizer, bits=bits), CellTable.uniform(layout, bits))

    @cached_property
    def values(self) -> BitsValues:
        """Return the values that a cell may have."""
        return values_for(self.settings)

    def with_table(self, table: CellTable) -> "ModelBits":
        """Return the same settings with other bits, rounded to whole bits where the settings need them."""
        if table.rows == self.table.rows:
            return self
        table = _allowed(table, self.settings)
        return replace(self, quantization=_quantization(self.settings, table), table=table)

    def with_settings(self, **changes: Any) -> "ModelBits":
        """Return the same bits with other settings, rounded to whole bits where these need them."""
        settings = QuantizationSpec.model_validate(_plain(self.settings) | {"bits": 4.0} | changes)
        table = _allowed(self.table, settings)
        return ModelBits(_quantization(settings, table), settings, table)


def _allowed(table: CellTable, settings: QuantizationSpec) -> CellTable:
    """Return the table with the nearest bits that the settings allow."""
    rows = tuple(tuple(values_for(settings).snapped(bits) for bits in row) for row in table.rows)
    return table if rows == table.rows else CellTable(table.layout, rows)


def _quantization(settings: QuantizationSpec, table: CellTable) -> Quantization:
    """Return the shortest form of settings and bits, so that equal models are equal: one number for equal cells, the
    usual group where none is read, and "none" where nothing is quantized."""
    bits = {value for row in table.rows for value in row}
    if bits == {HIGHEST} and settings.head_bits == HIGHEST:
        return "none"
    fields = _plain(settings)
    if settings.quantizer == "planes":
        del fields["group"]
    if len(bits) == 1:
        return QuantizationSpec.model_validate(fields | {"bits": bits.pop()})
    plan = BitsPlan(layout=table.layout, bits=table.rows, provenance=table.provenance)
    return QuantizationSpec.model_validate(fields | {"bits": plan})


def _plain(settings: QuantizationSpec) -> dict[str, Any]:
    """Return the settings without their bits, which other settings may not allow."""
    return {name: getattr(settings, name) for name in type(settings).model_fields if name != "bits"}
