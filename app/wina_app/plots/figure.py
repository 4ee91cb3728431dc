"""What a plot shows, as plain data: enough to draw it again elsewhere, on paper or by another program."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np

Line = Literal["solid", "dash", "dot", "dashdot", "dashdotdot", "none"]


@dataclass(frozen=True)
class Series:
    """One line, or one set of bars where `width` is not 0."""

    name: str
    colour: str
    """ "#rrggbb", or "#rrggbbaa" with its opacity last."""
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    """Lower ends of the error bars, NaN where there is none; empty when there are none at all."""
    high: tuple[float, ...] = ()
    marker: str = ""
    """pyqtgraph's name; empty for none."""
    line: Line = "solid"
    hollow: bool = False
    width: float = 0.0
    """Of bars that begin at 0, in units of x."""
    named: bool = True
    """Whether it has a name of its own in the plot."""
    size: int = 8
    """Of the markers, in pixels."""


@dataclass(frozen=True)
class LinePanel:
    """Lines or bars over one axis, within the ranges that are shown."""

    title: str
    x_title: str
    y_title: str
    x_range: tuple[float, float]
    y_range: tuple[float, float]
    series: tuple[Series, ...] = ()
    references: tuple[tuple[str, str, float], ...] = ()
    """(name, colour, y) of the dashed horizontal lines."""
    ticks: tuple[tuple[float, str], ...] = ()
    """Words in place of the numbers below the x axis."""
    legend: bool = False
    """Whether names are listed, rather than each beside the end of its line."""


@dataclass(frozen=True)
class MapPanel:
    """A table of numbers as colours."""

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]
    """[row][column], NaN where there is no data."""
    quantity: str
    unit: str
    low: float
    high: float
    text: Callable[[float], str]
    """How a value reads in its cell."""
    colours: str
    """Name of the colour map."""


class Scale(Protocol):
    """What a map's colours stand for, as `views.colour_maps.ColourScale`."""

    title: str
    unit: str
    low: float
    high: float
    name: str
    text: Callable[[float], str]


Panel = LinePanel | MapPanel
Figure = tuple[Panel, ...]
"""Panels beside each other."""


def map_figure(
    title: str, rows: Sequence[str], columns: Sequence[str], values: np.ndarray, scale: Scale | None
) -> Figure:
    """A map of values [rows, columns]; nothing before it has a scale."""
    if scale is None or not rows:
        return ()
    table = tuple(tuple(map(float, row)) for row in values)
    return (
        MapPanel(
            title, tuple(rows), tuple(columns), table, scale.title, scale.unit, scale.low, scale.high, scale.text,
            scale.name,
        ),
    )  # fmt: skip


def recoloured(figure: Figure, colours: Mapping[str, str]) -> Figure:
    """The figure with other colours in place of some, as the neutral ones of another appearance; opacity stays."""

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
    """Whether there is nothing to draw."""
    return not any(panel.rows if isinstance(panel, MapPanel) else panel.series or panel.references for panel in figure)
