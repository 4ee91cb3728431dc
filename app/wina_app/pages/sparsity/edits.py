"""Targets after an edit, and how typed text is read: pure functions."""

import math
from collections.abc import Iterable

from wina_app.style.number_format import fraction
from wina_app.style.translation import tr
from wina_core.errors import WinaError
from wina_core.specs.plans import Cell, SparsityPlan

HIGHEST = 0.999
"""The largest target that stepping reaches; a target must stay under 1."""


def stepped(plan: SparsityPlan, cells: Iterable[Cell], points: float) -> dict[Cell, float]:
    """The targets of the given cells changed by percentage points, within 0 and the highest target."""
    return {(r, c): _clamped(plan.sparsity[r][c] + points / 100) for r, c in cells}


def target_span(plan: SparsityPlan, cells: Iterable[Cell]) -> tuple[float, float] | None:
    """The lowest and the highest target among the given cells, None when there are none."""
    values = [plan.sparsity[row][column] for row, column in cells]
    return (min(values), max(values)) if values else None


def parse_percent(text: str) -> float:
    """A typed percentage as a fraction: "62.5" -> 0.625. Raises WinaError for what is no target sparsity."""
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
