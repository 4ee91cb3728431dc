"""Table of a generated token's cost: a line per rotation, gated counts beside net counts."""

from dataclasses import dataclass

from wina_app.style.number_format import percent
from wina_app.style.translation import tr
from wina_core.records import CostRecord, CostRow

NAMES: dict[str, str] = {
    "dense": tr("Dense"),
    "none": tr("No rotation"),
    "global": tr("Global"),
    "per_layer": tr("Per layer"),
    "per_site": tr("Per site, as published"),
}
_SCALES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


@dataclass(frozen=True)
class CostTable:
    """Texts of a table; the first column names the line."""

    heads: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    tips: tuple[str, ...]
    """One per line: its terms, after its warning if any."""
    warned: tuple[bool, ...]
    """True if a line's rotation costs more than its sparsity saves."""


def cost_table(record: CostRecord) -> CostTable:
    """Return all quantities in the unit of the dense model's, with three digits, and the savings."""
    dense = record.rows[0]
    flops, flops_unit = _scale(dense.net_flops)
    bytes_, bytes_unit = _scale(dense.net_bytes)
    gated, net = tr("Gated"), tr("Net")
    quantities = (f"{flops_unit}FLOPs", tr("saved"), f"{bytes_unit}B", tr("saved"))
    heads = ["", *(f"{over}\n{below}" for over, below in zip((gated, "", "", ""), quantities, strict=True))]
    heads += [f"{over}\n{below}" for over, below in zip((net, "", "", ""), quantities, strict=True)]
    return CostTable(
        (*heads, tr("Net\nsparsity"), tr("Read\nbits/weight"), tr("Held\n{unit}B", unit=bytes_unit)),
        tuple(_line(row, flops, bytes_) for row in record.rows),
        tuple(_tip(row, flops, flops_unit, bytes_, bytes_unit) for row in record.rows),
        tuple(bool(row.warning) for row in record.rows),
    )


def bytes_text(value: float, dense: CostRow) -> str:
    """Return bytes in the unit of the table, which is the dense model's."""
    scale, unit = _scale(dense.net_bytes)
    return f"{_number(value / scale)} {unit}B"


def _line(row: CostRow, flops: float, bytes_: float) -> tuple[str, ...]:
    sparse = row.rotation != "dense"
    return (
        NAMES[row.rotation],
        _number(row.gated_flops / flops),
        percent(row.gated_flops_saving) if sparse else "",
        _number(row.gated_bytes / bytes_),
        percent(row.gated_bytes_saving) if sparse else "",
        _number(row.net_flops / flops),
        percent(row.net_flops_saving) if sparse else "",
        _number(row.net_bytes / bytes_),
        percent(row.net_bytes_saving) if sparse else "",
        percent(row.net_sparsity) if sparse else "",
        _number(row.bits_read),
        _number(row.bytes_held / bytes_),
    )


def _tip(row: CostRow, flops: float, flops_unit: str, bytes_: float, bytes_unit: str) -> str:
    terms = [
        f"{term.name}: {_number(term.flops / flops)} {flops_unit}FLOPs, {_number(term.bytes / bytes_)} {bytes_unit}B"
        for term in row.terms
        if term.flops or term.bytes
    ]
    bits = tr(
        "{read} bits read and {held} held per gated weight; {bytes} {unit}B held in all, KV cache included",
        read=_number(row.bits_read),
        held=_number(row.bits_held),
        bytes=_number(row.bytes_held / bytes_),
        unit=bytes_unit,
    )
    return "\n".join([*filter(None, (row.warning,)), bits, *terms])


def _scale(value: float) -> tuple[float, str]:
    return next(((scale, prefix) for scale, prefix in _SCALES if value >= scale), (1.0, ""))


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 99.95 else f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"
