"""Values that the cells of a plan may have: range, texts, steps, and projection onto a budget."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Literal

import numpy as np

from wina_app.heatmap.clipboard import FRACTIONS, BlockFormat, finite
from wina_app.plots.colour_maps import percent
from wina_app.shared.heatmap_tables import bits_text
from wina_app.style import number_format
from wina_app.style.number_format import fraction
from wina_core.errors import WinaError
from wina_core.specs import QuantizationSpec
from wina_core.specs.quantization import PLANES_BITS, WEIGHT_BITS

Table = np.ndarray[tuple[int, int], np.dtype[np.float64]]
Mask = np.ndarray[tuple[int, int], np.dtype[np.bool_]]

_ROUNDING = 1e-14
"""Largest distance from the budget that counts as met: float64 rounding."""


def balanced(values: Table, parameters: Table, free: Mask, budget: float, highest: float, lowest: float = 0.0) -> Table:
    """Return the table nearest to `values` whose mean, weighted by `parameters`, is `budget`; only `free` cells differ.

    Nearest in the sum of squares weighted by `parameters`, for which all free cells move by the same amount,
    each until it is at `lowest` or at `highest` (or where it was, if that is above). Where the budget cannot be
    reached, all free cells are at the end nearest to it. float64 [layers, projections] and bool of the same shape.

    The conditions of Karush, Kuhn and Tucker say that a free cell is at clip(value + shift) with one shift for all;
    the weighted sum of those is piecewise linear in the shift, with a bend where a cell leaves or reaches an end.
    """
    weights = parameters / parameters.sum()
    missing = budget - float((weights * values).sum())
    if abs(missing) <= _ROUNDING or not free.any():
        return values
    start, weight = values[free], weights[free]
    top = np.maximum(start, highest)
    shift = _shift(start - lowest, top - lowest, weight, missing)
    result = values.copy()
    result[free] = np.clip(start + shift, lowest, top)
    return result


def _shift(start: np.ndarray, top: np.ndarray, weight: np.ndarray, missing: float) -> float:
    """Return the shift that changes the weighted sum of clip(start + shift, 0, top) by `missing` as far as possible."""
    bends = np.concatenate((-start, top - start))  # a cell follows the shift from the first bend to the second
    slopes = np.concatenate((weight, -weight))
    order = np.argsort(bends, kind="stable")
    bends, slope = bends[order], np.cumsum(slopes[order])
    sums = np.concatenate(([0.0], np.cumsum(slope[:-1] * np.diff(bends))))
    # The sum never falls with the shift, so that it can be inverted; beyond its ends `interp` returns the last bend.
    return float(np.interp(missing + float((weight * start).sum()), sums, bends))


ValueKey = Literal["sparsity", "bits"]

EXACT = 1e-9
"""Tolerance of a kept budget."""


MAX_SPARSITY = 0.999
"""Largest target of steps; a target must stay below 1."""


def _quoted(text: str) -> str:
    return text if len(text) <= 40 else text[:39] + "\N{HORIZONTAL ELLIPSIS}"


class SparsityValues:
    """Target sparsities: fractions from 0 to under 1, shown in percent."""

    name, suffix = "Target sparsity", " %"
    lowest, highest = 0.0, MAX_SPARSITY
    """Range of edits."""
    empty = 0.0
    """Value of a cleared cell: nothing is dropped."""
    format: BlockFormat = FRACTIONS
    """Numbers of a pasted block."""
    decimals = 1
    """Decimals of a typed number."""
    factor = 100.0
    """Shown number of the value 1."""
    resolution = 0.001
    """Step of the slider."""

    def text(self, value: float) -> str:
        return number_format.percent(value)

    def number(self, value: float) -> str:
        """Return a value without its unit."""
        return percent(value)

    def parse(self, text: str) -> float:
        """Parse a percentage to a fraction: "62.5" -> 0.625."""
        try:
            value = fraction(float(text.strip().removesuffix("%").replace(",", ".")))
        except ValueError:
            value = math.nan  # fails the check of the range, whose sentence suits both
        if not 0 <= value < 1:
            raise WinaError(
                f'"{_quoted(text)}" is not a target sparsity; type a percentage from 0 to under 100, for example 62.5.'
            )
        return value

    def stepped(self, value: float, step: int) -> float:
        """Return the value after a step: plus or minus 5 for a usual one, 1 for a small one."""
        return self.shifted(value, step)

    def shifted(self, value: float, amount: float) -> float:
        """Return the value moved by an amount in shown numbers, within the range."""
        # Rounded: a percentage is the same fraction, and the same plan, from every control.
        return min(max(round(value + amount / 100, 6), 0.0), MAX_SPARSITY)

    def snapped(self, value: float) -> float:
        """Return the nearest value that a cell may have."""
        return value  # every fraction is a target

    def step_text(self, cells: str, step: int) -> str:
        """Name the undo step of a `stepped`."""
        return f"change {cells} by {step:+d} points"

    def shift_text(self, cells: str, amount: float) -> str:
        return f"move {cells} by {amount:+.1f} points"

    def balanced(self, values: Table, weights: Table, free: Mask, budget: float) -> Table:
        """Return the nearest table that meets the budget, where only the free cells differ; float64."""
        return balanced(values, weights, free, budget, MAX_SPARSITY)

    def meets(self, reached: float, budget: float) -> bool:
        return abs(reached - budget) <= EXACT


SPARSITY = SparsityValues()


BIT_WIDTHS = tuple(sorted(map(float, WEIGHT_BITS)))
MAX_BITS = BIT_WIDTHS[-1]


class BitsValues:
    """Bits of a code: a width that the quantizer has, or by energy any mean in its range.

    A matrix of the highest width is not quantized. The names are those of `SparsityValues`.
    """

    name, suffix = "Code width", " bits"
    highest, empty = MAX_BITS, MAX_BITS
    factor, resolution = 1.0, 0.1

    def __init__(
        self, *, by_energy: bool = False, widths: Sequence[float] = BIT_WIDTHS, most: float = MAX_BITS
    ) -> None:
        """Take the widths, and the highest mean by energy of a matrix that is quantized."""
        self.by_energy, self._widths, self._most = by_energy, widths, most
        self.lowest = widths[0]
        self.decimals = 2 if by_energy else 0
        self.format = BlockFormat(self._read, "bits", self._range() + "; write numbers such as 4 or 8")

    def text(self, value: float) -> str:
        return f"{bits_text(value)}{self.suffix}"

    def number(self, value: float) -> str:
        return bits_text(value)

    def parse(self, text: str) -> float:
        """Parse bits: "4", or by energy "4.25"."""
        value = self._value(text)
        if value is None:
            raise WinaError(f'"{_quoted(text)}" are no bits of a matrix; {self._range()}.')
        return value

    def stepped(self, value: float, step: int) -> float:
        """Go to the next width; a small step by energy adds or takes 0.1 bits where such means are possible."""
        if self.by_energy and abs(step) == 1 and (moved := self.shifted(value, 0.1 * step)) != value:
            return moved
        if step > 0:
            return self._widths[min(bisect_right(self._widths, value + EXACT), len(self._widths) - 1)]
        return self._widths[max(bisect_left(self._widths, value - EXACT) - 1, 0)]

    def shifted(self, value: float, amount: float) -> float:
        """Add bits, within the range; without energy to the nearest width."""
        return self.snapped(min(max(round(value + amount, 6), self.lowest), MAX_BITS))

    def snapped(self, value: float) -> float:
        """Return the nearest width, the lower of two; by energy the value, or the nearest possible one."""
        if not self.by_energy:
            return min(self._widths, key=lambda width: (abs(width - value), width))
        return value if value <= self._most else min((self._most, MAX_BITS), key=lambda width: abs(width - value))

    def step_text(self, cells: str, step: int) -> str:
        return f"more bits for {cells}" if step > 0 else f"fewer bits for {cells}"

    def shift_text(self, cells: str, amount: float) -> str:
        return f"move {cells} by {amount:+.1f} bits"

    def balanced(self, values: Table, weights: Table, free: Mask, budget: float) -> Table:
        """Move all free cells by the same number of bits; whole widths stay below the budget by less than one of them.

        Without energy every cell is rounded down to a width; those that lost most then go up again while the budget
        has room. By energy, means that no matrix can have are lowered.
        """
        nearest = balanced(values, weights, free, budget, MAX_BITS, self.lowest)
        if self.by_energy:
            return self._possible(nearest, weights, free, budget)
        rounded = np.where(free, _rounded_down(nearest, self._widths), values)
        share = weights / weights.sum()
        room = budget - float((share * rounded).sum())
        lost = np.where(free, nearest - rounded, 0.0)
        for index in np.argsort(-lost, axis=None, kind="stable").tolist():  # stable: equal losses rise in reading order
            row, column = divmod(index, lost.shape[1])
            cost = share[row, column] * (self.stepped(rounded[row, column], 5) - rounded[row, column])
            if lost[row, column] > EXACT and cost <= room + EXACT:
                rounded[row, column] = self.stepped(rounded[row, column], 5)
                room -= cost
        return rounded

    def meets(self, reached: float, budget: float) -> bool:
        """Return whether the mean is the budget, or at most the budget where not every mean is possible."""
        exact = self.by_energy and self._most == MAX_BITS
        return reached <= budget + EXACT and (not exact or reached >= budget - EXACT)

    def _possible(self, means: Table, weights: Table, free: Mask, budget: float) -> Table:
        """Lower means between the most of a quantized matrix and the highest; other free cells compensate."""
        moving = free.copy()
        # Compensation may bring further cells between both; each pass fixes at least one, so that the loop ends.
        while (between := moving & (means > self._most + EXACT) & (means < MAX_BITS - EXACT)).any():
            means, moving = np.where(between, self._most, means), moving & ~between
            means = balanced(means, weights, moving, budget, MAX_BITS, self.lowest)
        return means

    def _read(self, cells: Sequence[str]) -> list[float | None]:
        return [self._value(cell) for cell in cells]

    def _value(self, text: str) -> float | None:
        value = finite(text.strip().removesuffix("b"))  # the map's notes have a b
        if value is None or not self.lowest <= value <= MAX_BITS or self.snapped(value) != value:
            return None
        return value

    def _range(self) -> str:
        if self.by_energy and self._most < MAX_BITS:
            return f"by energy a mean from 2 to {self._most:g}, or 16"
        if self.by_energy:
            return "by energy a mean from 2 to 16"
        *widths, last = (f"{width:g}" for width in self._widths)
        return f"a matrix has {', '.join(widths)} or {last} bits"


def _rounded_down(bits: Table, widths: Sequence[float]) -> Table:
    index = np.searchsorted(widths, bits + EXACT, side="right") - 1
    return np.asarray(widths)[np.maximum(index, 0)]


CellValues = SparsityValues | BitsValues
_WHOLE_BITS, _MEANS = BitsValues(), BitsValues(by_energy=True)
_WIDTHS_OF_PLANES = (*sorted(map(float, PLANES_BITS)), MAX_BITS)
_PLANES = BitsValues(widths=_WIDTHS_OF_PLANES)
_MEANS_OF_PLANES = BitsValues(by_energy=True, widths=_WIDTHS_OF_PLANES, most=float(PLANES_BITS[0]))


def values_for(settings: QuantizationSpec) -> BitsValues:
    """Return the values of a quantizer's settings."""
    if settings.quantizer == "planes":
        return _MEANS_OF_PLANES if settings.by_energy else _PLANES
    return _MEANS if settings.by_energy else _WHOLE_BITS
