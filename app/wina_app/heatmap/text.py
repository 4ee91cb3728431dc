"""Texts of a heatmap for the clipboard and screen readers."""

import math
from collections.abc import Iterable, Sequence

import numpy as np

from wina_app.heatmap.clipboard import tab_separated
from wina_app.heatmap.selection import Selection
from wina_app.plots.colour_maps import ColourScale
from wina_app.style.translation import tr
from wina_core.specs.plans import Cell


def table_text(
    rows: Sequence[str],
    columns: Sequence[str],
    values: np.ndarray,
    scale: ColourScale,
    cells: Iterable[Cell],
    headings: bool,
) -> str:
    """Write the bounding rectangle of some cells as tab-separated text; other cells in it are empty.

    Values have 12 digits; fractions are percentages with their sign, which spreadsheets read as such.
    """
    chosen = set(cells)
    down, across = (sorted({cell[axis] for cell in chosen}) for axis in (0, 1))
    table = [
        [_exact(float(values[row, column]), scale) if (row, column) in chosen else "" for column in across]
        for row in down
    ]
    if not headings:
        return tab_separated(table)
    return tab_separated(table, [rows[row] for row in down], [columns[column] for column in across])


def cursor_text(
    rows: Sequence[str],
    columns: Sequence[str],
    values: np.ndarray,
    scale: ColourScale | None,
    selection: Selection,
    notes: Sequence[Sequence[str]] = (),
) -> str:
    """Describe the cursor's cell with its note, and the size of the selection."""
    if selection.cursor is None or scale is None:
        return tr(
            "{layers} layers by {projections} projections, nothing selected",
            layers=len(rows),
            projections=len(columns),
        )
    row, column = selection.cursor
    number = _number(values[row, column], scale)
    text = tr(
        "layer {layer}, {projection}: {quantity} {value}",
        layer=rows[row],
        projection=columns[column],
        quantity=scale.title,
        value=f"{number} {scale.unit}".strip() if number else tr("no data"),
    )
    if notes:
        text = f"{text}, {notes[row][column]}"
    count = len(selection.cells)
    return tr("{cell}; {count} cells selected", cell=text, count=count) if count > 1 else text


def _exact(value: float, scale: ColourScale) -> str:
    if math.isnan(value):
        return ""
    return f"{100 * value:.12g}%" if scale.unit in ("%", "points") else f"{value:.12g}"


def _number(value: float, scale: ColourScale) -> str:
    return "" if math.isnan(value) else scale.text(float(value))
