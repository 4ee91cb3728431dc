"""Bits of the weights as values of a plan's cells."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import numpy as np

from wina_app.heatmap.clipboard import BlockFormat, finite
from wina_app.pages.sparsity.editing.budget_projection import Mask, Table, balanced
from wina_app.pages.sparsity.editing.cell_values import EXACT, CellValues
from wina_app.shared.colour_scales import bits_text
from wina_app.style.translation import tr
from wina_core.errors import WinaError
from wina_core.specs import QuantizationSpec
from wina_core.specs.quantization import PLANES_BITS, WEIGHT_BITS

LADDER = tuple(sorted(map(float, WEIGHT_BITS)))
HIGHEST = LADDER[-1]


class BitsValues(CellValues):
    """Bits of a code: a width that the quantizer has, or by energy any mean in its range.

    A matrix of the highest width is not quantized.
    """

    key = "bits"
    highest, empty = HIGHEST, HIGHEST
    suffix = tr(" bits")
    name = tr("Code width")
    resolution = 0.1

    def __init__(self, *, by_energy: bool = False, ladder: Sequence[float] = LADDER, most: float = HIGHEST) -> None:
        """Take the widths, and the highest mean by energy of a matrix that is quantized."""
        self.by_energy, self._ladder, self._most = by_energy, ladder, most
        self.lowest = ladder[0]
        self.decimals = 2 if by_energy else 0
        self.format = BlockFormat(self._read, tr("bits"), self._range() + tr("; write numbers such as 4 or 8"))

    def number(self, value: float) -> str:
        """Return the bits with at most two decimals."""
        return bits_text(value)

    def parse(self, text: str) -> float:
        """Parse bits: "4", or by energy "4.25"."""
        value = self._value(text)
        if value is None:
            quoted = text if len(text) <= 40 else text[:39] + "\N{HORIZONTAL ELLIPSIS}"
            raise WinaError(tr('"{text}" are no bits of a matrix; {range}.', text=quoted, range=self._range()))
        return value

    def stepped(self, value: float, step: int) -> float:
        """Go to the next width; a small step by energy adds or takes 0.1 bits where such means are possible."""
        if self.by_energy and abs(step) == 1 and (moved := self.shifted(value, 0.1 * step)) != value:
            return moved
        if step > 0:
            return self._ladder[min(bisect_right(self._ladder, value + EXACT), len(self._ladder) - 1)]
        return self._ladder[max(bisect_left(self._ladder, value - EXACT) - 1, 0)]

    def shifted(self, value: float, amount: float) -> float:
        """Add bits, within the range; without energy to the nearest width."""
        return self.snapped(min(max(round(value + amount, 6), self.lowest), HIGHEST))

    def snapped(self, value: float) -> float:
        """Return the nearest width, the lower of two; by energy the value, or the nearest possible one."""
        if not self.by_energy:
            return min(self._ladder, key=lambda width: (abs(width - value), width))
        return value if value <= self._most else min((self._most, HIGHEST), key=lambda width: abs(width - value))

    def step_text(self, cells: str, step: int) -> str:
        """Name the step."""
        return tr("more bits for {cells}", cells=cells) if step > 0 else tr("fewer bits for {cells}", cells=cells)

    def shift_text(self, cells: str, amount: float) -> str:
        """Name the drag."""
        return tr("move {cells} by {amount} bits", cells=cells, amount=f"{amount:+.1f}")

    def balanced(self, values: Table, weights: Table, free: Mask, budget: float) -> Table:
        """Move all free cells by the same number of bits; whole widths stay below the budget by less than one of them.

        Without energy every cell is rounded down to a width; those that lost most then go up again while the budget
        has room. By energy, means that no matrix can have are lowered.
        """
        nearest = balanced(values, weights, free, budget, HIGHEST, self.lowest)
        if self.by_energy:
            return self._possible(nearest, weights, free, budget)
        widths = np.where(free, _rounded_down(nearest, self._ladder), values)
        share = weights / weights.sum()
        room = budget - float((share * widths).sum())
        lost = np.where(free, nearest - widths, 0.0)
        for index in np.argsort(-lost, axis=None, kind="stable").tolist():
            row, column = divmod(index, lost.shape[1])
            cost = share[row, column] * (self.stepped(widths[row, column], 5) - widths[row, column])
            if lost[row, column] > EXACT and cost <= room + EXACT:
                widths[row, column] = self.stepped(widths[row, column], 5)
                room -= cost
        return widths

    def meets(self, reached: float, budget: float) -> bool:
        """Return whether the mean is the budget, or at most the budget where not every mean is possible."""
        exact = self.by_energy and self._most == HIGHEST
        return super().meets(reached, budget) if exact else reached <= budget + EXACT

    def _possible(self, means: Table, weights: Table, free: Mask, budget: float) -> Table:
        """Lower means between the most of a quantized matrix and the highest; other free cells compensate."""
        moving = free.copy()
        while (between := moving & (means > self._most + EXACT) & (means < HIGHEST - EXACT)).any():
            means, moving = np.where(between, self._most, means), moving & ~between
            means = balanced(means, weights, moving, budget, HIGHEST, self.lowest)
        return means

    def _read(self, cells: Sequence[str]) -> list[float | None]:
        return [self._value(cell) for cell in cells]

    def _value(self, text: str) -> float | None:
        value = finite(text.strip().removesuffix("b"))
        if value is None or not self.lowest <= value <= HIGHEST or self.snapped(value) != value:
            return None
        return value

    def _range(self) -> str:
        if self.by_energy and self._most < HIGHEST:
            return tr("by energy a mean from 2 to {most}, or 16", most=f"{self._most:g}")
        if self.by_energy:
            return tr("by energy a mean from 2 to 16")
        *widths, last = (f"{width:g}" for width in self._ladder)
        return tr("a matrix has {widths} or {last} bits", widths=", ".join(widths), last=last)


def _rounded_down(bits: Table, ladder: Sequence[float]) -> Table:
    """Return the largest width that is not above each value."""
    index = np.searchsorted(ladder, bits + EXACT, side="right") - 1
    return np.asarray(ladder)[np.maximum(index, 0)]


_WIDTHS, _MEANS = BitsValues(), BitsValues(by_energy=True)
_LADDER_OF_PLANES = (*sorted(map(float, PLANES_BITS)), HIGHEST)
_PLANES = BitsValues(ladder=_LADDER_OF_PLANES)
_MEANS_OF_PLANES = BitsValues(by_energy=True, ladder=_LADDER_OF_PLANES, most=float(PLANES_BITS[0]))


def values_for(settings: QuantizationSpec) -> BitsValues:
    """Return the values of a quantizer's settings."""
    if settings.quantizer == "planes":
        return _MEANS_OF_PLANES if settings.by_energy else _PLANES
    return _MEANS if settings.by_energy else _WIDTHS
