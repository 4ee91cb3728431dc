"""Sparsity at which runs are compared: measured, by one of two counts, with a tolerance."""

from collections.abc import Mapping
from statistics import fmean
from typing import Literal, Protocol

from wina_core.specs import COST, FIDELITY, ORIGINAL, SYNTHETIC

Count = Literal["gated", "net"]
"""`gated`: the dropped fraction of the gated weights. `net`: the same with all that is read in their place counted
as read: shortcuts, column norms, biases."""
DEFAULT_COUNT: Count = "gated"

SparsityKind = Literal["gated", "net", "target"]
"""The sparsity that pairs runs and places them on an axis: either count, or the target."""

TOLERANCE = 0.005
"""Largest difference of two measured sparsities, 0.5 points, at which their runs count as equally sparse."""
# In binary, 0.505 - 0.5 exceeds 0.005.
_ROUNDING = 1e-9


class SparsityRow(Protocol):
    """A row that has a target and both measured sparsities, as fractions; None where nothing was measured."""

    @property
    def target_sparsity(self) -> float: ...

    @property
    def gated_sparsity(self) -> float | None: ...

    @property
    def net_sparsity(self) -> float | None: ...


def count_of(kind: SparsityKind) -> Count:
    """Return the count that is shown and flagged with a kind: the kind itself, and the default one with targets."""
    return DEFAULT_COUNT if kind == "target" else kind


def measured_sparsity(row: SparsityRow, count: Count = DEFAULT_COUNT) -> float | None:
    return row.gated_sparsity if count == "gated" else row.net_sparsity


def sparsity_of(row: SparsityRow, kind: SparsityKind = DEFAULT_COUNT) -> float:
    """Return the measured sparsity of a row, or its target where none was measured or the kind is "target"."""
    measured = None if kind == "target" else measured_sparsity(row, kind)
    return row.target_sparsity if measured is None else measured


def differ(first: float, second: float) -> bool:
    return abs(first - second) > TOLERANCE + _ROUNDING


def difference_text(first: float, second: float) -> str:
    """Return a flag such as "1.9 points sparser" for a first run that differs from the second; "" within tolerance."""
    if not differ(first, second):
        return ""
    return f"{100 * abs(first - second):.1f} points {'sparser' if first > second else 'denser'}"


def mean_over_units(by_unit: Mapping[str, float | None]) -> float | None:
    """Return the mean of what a run's units measured.

    Cost and random networks count only where nothing else was, and of both fidelities only that to the original.
    """
    measured = {unit: value for unit, value in by_unit.items() if value is not None}
    if ORIGINAL in measured:
        measured.pop(FIDELITY, None)
    on_text = [value for unit, value in measured.items() if unit not in (COST, SYNTHETIC)]
    values = on_text or list(measured.values())
    return fmean(values) if values else None
