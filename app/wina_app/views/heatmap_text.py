"""A heatmap in words: for the clipboard and for screen readers."""

import math
from collections.abc import Iterable, Sequence

import numpy as np

from wina_app.models.sparsity_selection import Selection
from wina_app.views.colour_maps import ColourScale
from wina_core.plan import Cell


def table_text(
    rows: Sequence[str], columns: Sequence[str], values: np.ndarray, scale: ColourScale, cells: Iterable[Cell]
) -> str:
    """The bounding rectangle of some cells as shown, under its headings, with tabs between."""
    chosen = set(cells)
    across = sorted({column for _, column in chosen})
    lines = [["layer", *(columns[column] for column in across)]]
    lines += [
        [rows[row], *(_shown(values[row, column], scale) for column in across)]
        for row in sorted({row for row, _ in chosen})
    ]
    return "\n".join("\t".join(line) for line in lines)


def cursor_text(
    rows: Sequence[str], columns: Sequence[str], values: np.ndarray, scale: ColourScale | None, selection: Selection
) -> str:
    """What the cursor is on and how much is selected."""
    if selection.cursor is None or scale is None:
        return f"{len(rows)} layers by {len(columns)} projections, nothing selected"
    row, column = selection.cursor
    shown = _shown(values[row, column], scale)
    value = f"{shown} {scale.unit}".strip() if shown else "no data"
    count = len(selection.cells)
    more = f"; {count} cells selected" if count > 1 else ""
    return f"layer {rows[row]}, {columns[column]}: {scale.title} {value}{more}"


def _shown(value: float, scale: ColourScale) -> str:
    return "" if math.isnan(value) else scale.text(float(value))
