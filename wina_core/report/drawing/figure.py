"""Figures as plain data, and their numbers as CSV.

An exported script contains this file and `formulas`, so both import the standard library alone.
"""

import csv
import io
import math
from dataclasses import dataclass, replace
from typing import Literal

from wina_core.files.formulas import neutralized, restored

Line = Literal["solid", "dash", "dot", "dashdot", "dashdotdot", "none"]
Colour = str
"""As "#rrggbb" or "#rrggbbaa"."""
COLUMNS = ("panel", "item", "name", "x", "y", "low", "high", "text")
"""Columns of the CSV. A point has x, y and the ends of its error bar; a cell of a map has its column and row as x and
y, its value as low, and its text."""


@dataclass(frozen=True)
class Series:
    """One line, or one set of bars where `width` is not 0."""

    name: str
    colour: Colour
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    """Lower ends of the error bars, NaN where unknown; empty for a series without error bars."""
    high: tuple[float, ...] = ()
    marker: str = ""
    """matplotlib's name of the marker; empty for none."""
    line: Line = "solid"
    hollow: bool = False
    width: float = 0.0
    """Width of bars, which begin at 0, in units of x."""
    named: bool = True
    """True to write the name into the figure."""
    size: int = 8
    """Size of the markers in pixels at 96 to the inch."""
    dashes: tuple[float, ...] = ()
    """Dash and gap in line widths of a line that lets the one below it through; empty for the line's own pattern."""


@dataclass(frozen=True)
class LinePanel:
    """Lines or bars over one axis, within the given ranges."""

    title: str
    x_title: str
    y_title: str
    x_range: tuple[float, float]
    y_range: tuple[float, float]
    series: tuple[Series, ...] = ()
    references: tuple[tuple[str, Colour, float], ...] = ()
    """(name, colour, y) of the dashed horizontal lines."""
    ticks: tuple[tuple[float, str], ...] = ()
    """Words in place of the numbers below the x axis."""
    legend: bool = False
    """True for a list of names, False for each name beside the end of its line."""
    log_x: bool = False
    log_y: bool = False
    """True for axes of powers of ten; ranges and points are the values themselves."""


@dataclass(frozen=True)
class MapPanel:
    """A table of numbers as colours."""

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]
    """[row][column], NaN for no data."""
    texts: tuple[tuple[str, ...], ...]
    """Text of each cell, [row][column]."""
    quantity: str
    """Title of the colour bar, with the unit."""
    low: float
    high: float
    colours: tuple[Colour, ...]
    """Colours at equal distances from low to high."""


Panel = LinePanel | MapPanel
Figure = tuple[Panel, ...]
"""Panels beside each other."""


@dataclass(frozen=True)
class Style:
    """Size and colours of a drawn figure."""

    width: float
    """Inches."""
    height: float
    """Inches."""
    text: Colour = "#1b1f24"
    muted: Colour = "#59616c"
    grid: Colour = "#e6e8ec"
    surface: Colour = "#ffffff"
    """Background; "none" for a transparent one."""
    font_size: float = 9.0
    """Points."""
    across: int = 0
    """Most panels in a row; 0 for all."""
    titled: bool = False
    """True to title a single panel of lines too."""


def without_data(figure: Figure) -> Figure:
    """Return the figure without the numbers that its CSV has."""
    return tuple(
        replace(panel, values=(), texts=())
        if isinstance(panel, MapPanel)
        else replace(panel, series=tuple(replace(one, x=(), y=(), low=(), high=()) for one in panel.series))
        for panel in figure
    )


def data_of(figure: Figure) -> str:
    """Return the numbers as CSV with every digit; an unknown one is empty, and no text is a formula."""
    content = io.StringIO()
    writer = csv.writer(content, lineterminator="\n")
    writer.writerow(COLUMNS)
    for number, panel in enumerate(figure):
        rows = _cells(panel) if isinstance(panel, MapPanel) else _points(panel)
        writer.writerows((number, *row) for row in rows)
    return content.getvalue()


def with_data(figure: Figure, data: str) -> Figure:
    """Fill a figure with the numbers of a CSV that `data_of` wrote."""
    rows = list(csv.DictReader(io.StringIO(data)))
    return tuple(
        _with_rows(panel, [row for row in rows if int(row["panel"]) == number]) for number, panel in enumerate(figure)
    )


def _points(panel: LinePanel) -> list[tuple[object, ...]]:
    return [
        (item, _one_line(one.name), *map(_written, (x, y, low, high)), "")
        for item, one in enumerate(panel.series)
        for x, y, low, high in zip(one.x, one.y, _ends(one, one.low), _ends(one, one.high), strict=True)
    ]


def _ends(series: Series, ends: tuple[float, ...]) -> tuple[float, ...]:
    return ends or (math.nan,) * len(series.x)


def _cells(panel: MapPanel) -> list[tuple[object, ...]]:
    return [
        (0, _one_line(f"{panel.rows[y]} {panel.columns[x]}"), x, y, _written(value), "", neutralized(panel.texts[y][x]))
        for y, row in enumerate(panel.values)
        for x, value in enumerate(row)
    ]


def _with_rows(panel: Panel, rows: list[dict[str, str]]) -> Panel:
    if isinstance(panel, MapPanel):
        cells = {(int(row["y"]), int(row["x"])): row for row in rows}
        table = [[cells[y, x] for x in range(len(panel.columns))] for y in range(len(panel.rows))]
        values = tuple(tuple(_read(cell["low"]) for cell in row) for row in table)
        return replace(
            panel, values=values, texts=tuple(tuple(restored(cell["text"]) for cell in row) for row in table)
        )
    filled = []
    for item, one in enumerate(panel.series):
        own = [row for row in rows if int(row["item"]) == item]
        x, y, low, high = (tuple(_read(row[key]) for row in own) for key in ("x", "y", "low", "high"))
        known = any(map(math.isfinite, (*low, *high)))
        filled.append(replace(one, x=x, y=y, low=low if known else (), high=high if known else ()))
    return replace(panel, series=tuple(filled))


def _one_line(name: str) -> str:
    """Return a name for readers of the CSV, which is not read back."""
    return neutralized(" ".join(name.splitlines()))


def _written(value: float) -> str:
    return repr(value) if math.isfinite(value) else ""


def _read(text: str) -> float:
    return float(text) if text else math.nan
