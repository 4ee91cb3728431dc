"""The sparsity that runs are compared at: as measured, by one of two counts, and when two are too far apart."""

from typing import Literal, Protocol, get_args

Count = Literal["counted", "full"]
COUNTS: tuple[Count, ...] = get_args(Count)
"""`counted`: the dropped fraction of the gated weights. `full`: the same with all that is read in their place counted
as read: shortcuts, column norms, biases."""
DEFAULT_COUNT: Count = "counted"

TOLERANCE = 0.005
"""Largest difference of two measured sparsities, 0.5 points, at which their runs count as equally sparse."""
_ROUNDING = 1e-9


class Measured(Protocol):
    """Anything that has a target and both measured sparsities, as fractions; None where nothing was measured."""

    @property
    def target_sparsity(self) -> float: ...

    @property
    def counted_sparsity(self) -> float | None: ...

    @property
    def full_sparsity(self) -> float | None: ...


def sparsity_of(row: Measured, count: Count = DEFAULT_COUNT) -> float:
    """Return the measured sparsity of a row, or its target where none was measured."""
    found = row.counted_sparsity if count == "counted" else row.full_sparsity
    return row.target_sparsity if found is None else found


def differ(first: float, second: float) -> bool:
    """Return whether two sparsities differ by more than `TOLERANCE`."""
    return abs(first - second) > TOLERANCE + _ROUNDING


def difference_text(first: float, second: float) -> str:
    """Return a flag such as "1.9 points sparser" for a first run that differs from the second; "" within tolerance."""
    if not differ(first, second):
        return ""
    return f"{100 * abs(first - second):.1f} points {'sparser' if first > second else 'denser'}"
