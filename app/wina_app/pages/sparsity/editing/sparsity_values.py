"""Target sparsities as values of a plan's cells."""

import math

from wina_app.heatmap.clipboard import FRACTIONS
from wina_app.pages.sparsity.editing.budget_projection import Mask, Table, balanced
from wina_app.pages.sparsity.editing.cell_values import CellValues
from wina_app.plots.colour_maps import percent
from wina_app.style import number_format
from wina_app.style.number_format import fraction
from wina_app.style.translation import tr
from wina_core.errors import WinaError

HIGHEST = 0.999
"""Largest target of steps; a target must stay below 1."""


class SparsityValues(CellValues):
    """Fractions from 0 to under 1, shown in percent."""

    key = "sparsity"
    lowest, highest, empty = 0.0, HIGHEST, 0.0
    format = FRACTIONS
    name = tr("Target sparsity")
    decimals = 1
    suffix = " %"
    factor = 100.0
    resolution = 0.001

    def text(self, value: float) -> str:
        """Return a percentage with one decimal."""
        return number_format.percent(value)

    def number(self, value: float) -> str:
        """Return the percentage, with a decimal where it has one."""
        return percent(value)

    def parse(self, text: str) -> float:
        """Parse a percentage to a fraction: "62.5" -> 0.625."""
        try:
            value = fraction(float(text.strip().removesuffix("%").replace(",", ".")))
        except ValueError:
            value = math.nan
        if not 0 <= value < 1:
            quoted = text if len(text) <= 40 else text[:39] + "\N{HORIZONTAL ELLIPSIS}"
            raise WinaError(
                tr(
                    '"{text}" is not a target sparsity; type a percentage from 0 to under 100, for example 62.5.',
                    text=quoted,
                )
            )
        return value

    def stepped(self, value: float, step: int) -> float:
        """Add percentage points, within 0 and the highest target."""
        return self.shifted(value, step)

    def shifted(self, value: float, amount: float) -> float:
        """Add percentage points, within 0 and the highest target."""
        return min(max(round(value + amount / 100, 6), 0.0), HIGHEST)

    def snapped(self, value: float) -> float:
        """Return the value: every fraction is a target."""
        return value

    def step_text(self, cells: str, step: int) -> str:
        """Name the step."""
        return tr("change {cells} by {points} points", cells=cells, points=f"{step:+d}")

    def shift_text(self, cells: str, amount: float) -> str:
        """Name the drag."""
        return tr("move {cells} by {points} points", cells=cells, points=f"{amount:+.1f}")

    def balanced(self, values: Table, weights: Table, free: Mask, budget: float) -> Table:
        """Move all free cells by the same number of points until the budget is met."""
        return balanced(values, weights, free, budget, HIGHEST)


SPARSITY = SparsityValues()
