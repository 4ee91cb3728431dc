"""Figures of the window: heatmaps as plain data, and lines in the colours of another appearance."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from wina_app.plots.colour_maps import ColourScale
from wina_core.report.drawing import Figure, MapPanel


def map_figure(
    title: str, rows: Sequence[str], columns: Sequence[str], values: np.ndarray, scale: ColourScale | None
) -> Figure:
    """Make a map of values [rows, columns]; an empty figure before there are rows and a scale.

    Fractions that the scale shows in percent or points become percentages.
    """
    if scale is None or not rows:
        return ()
    factor = 100.0 if scale.unit in ("%", "points") else 1.0
    table = values.tolist()
    return (
        MapPanel(
            title=title,
            rows=tuple(rows),
            columns=tuple(columns),
            values=tuple(tuple(factor * value for value in row) for row in table),
            texts=tuple(tuple("" if value != value else scale.text(value) for value in row) for row in table),
            quantity=scale.heading,
            low=factor * scale.low,
            high=factor * scale.high,
            colours=scale.ramp(),
        ),
    )


def recoloured(figure: Figure, colours: Mapping[str, str]) -> Figure:
    """Replace colours of lines, such as the neutral ones of another appearance, and keep their opacity."""

    def other(colour: str) -> str:
        return colours.get(colour[:7], colour[:7]) + colour[7:]

    return tuple(
        panel
        if isinstance(panel, MapPanel)
        else replace(
            panel,
            series=tuple(replace(one, colour=other(one.colour)) for one in panel.series),
            references=tuple((name, other(colour), y) for name, colour, y in panel.references),
        )
        for panel in figure
    )


def is_empty(figure: Figure) -> bool:
    """Return True where there is nothing to draw."""
    return not any(panel.rows if isinstance(panel, MapPanel) else panel.series or panel.references for panel in figure)
