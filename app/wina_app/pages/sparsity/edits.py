"""Pure functions of edited targets."""

import math
from collections.abc import Iterable

from wina_app.style.number_format import fraction
from wina_app.style.translation import tr
from wina_core.errors import WinaError
from wina_core.specs.plans import Cell, SparsityPlan

HIGHEST = 0.999
"""Largest target of steps; a target must stay below 1."""


def stepped(plan: SparsityPlan, cells: Iterable[Cell], points: float) -> dict[Cell, float]:
    """Return the cells' targets changed by percentage points, within 0 and the highest target."""
    return {(r, c): _clamped(plan.sparsity[r][c] + points / 100) for r, c in cells}


def target_span(plan: SparsityPlan, cells: Iterable[Cell]) -> tuple[float, float] | None:
    """Return the lowest and highest target of the cells; None without cells."""
    values = [plan.sparsity[row][column] for row, column in cells]
    return (min(values), max(values)) if values else None


def parse_percent(text: str) -> float:
    """Parse a percentage to a fraction: "62.5" -> 0.625. Raise WinaError for an invalid target."""
    try:
        value = fraction(float(text.strip().removesuffix("%").replace(",", ".")))
    except ValueError:
        value = math.nan
    if not 0 <= value < 1:
        shown = text if len(text) <= 40 else text[:39] + "\N{HORIZONTAL ELLIPSIS}"
        raise WinaError(
            tr(
                '"{text}" is not a target sparsity; type a percentage from 0 to under 100, for example 62.5.',
                text=shown,
            )
        )
    return value


def _clamped(value: float) -> float:
    return min(max(round(value, 6), 0.0), HIGHEST)
