"""Figures of the window as plain data, and as files: pixels, vectors, or a program that draws them."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from wina_app.plots.colour_maps import ColourScale
from wina_app.style.stylesheet import LIGHT, Tokens
from wina_app.style.theme import tokens
from wina_core.files.tables import write_atomically
from wina_core.report.drawing import Figure, FigureStyle, MapPanel, program, render


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
            texts=tuple(tuple("" if math.isnan(value) else scale.text(value) for value in row) for row in table),
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
    return not any(panel.rows if isinstance(panel, MapPanel) else panel.series or panel.references for panel in figure)


PlotFormat = Literal["png", "svg", "pdf", "py"]
FORMATS: dict[PlotFormat, tuple[str, str]] = {
    "png": ("PNG image", "Pixels, as many to the inch as chosen"),
    "svg": ("SVG drawing", "Vectors, with its words as text"),
    "pdf": ("PDF page", "Vectors on one page of just this size, with its fonts"),
    "py": ("Python script", "A program for matplotlib with the numbers in it"),
}
"""Suffix: (name, explanation)."""
MILLIMETRES = 25.4
"""Millimetres in an inch."""


class PlotFile(BaseModel):
    """The choice for one file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: PlotFormat = "png"
    width: Annotated[float, Field(ge=20, le=1000)] = 160.0
    """Millimetres."""
    height: Annotated[float, Field(ge=20, le=1000)] = 100.0
    """Millimetres."""
    dpi: Annotated[int, Field(ge=36, le=1200)] = 300
    """Dots per inch of an image."""
    light: bool = True
    """True for print, False for the window's colours."""

    @property
    def pixels(self) -> tuple[int, int]:
        width, height = self.inches
        return round(width * self.dpi), round(height * self.dpi)

    @property
    def inches(self) -> tuple[float, float]:
        return self.width / MILLIMETRES, self.height / MILLIMETRES


class LastChoice:
    """The last choice, of this session or of the one before."""

    def __init__(self) -> None:
        self._choice = PlotFile()
        self._write: Callable[[dict[str, object]], None] = lambda _: None

    def keep(self, written: dict[str, object], write: Callable[[dict[str, object]], None]) -> None:
        """Begin with the choice that was written before, if it is valid, and write every further one."""
        self._write = write
        try:
            self._choice = PlotFile.model_validate(written)
        except ValidationError:
            self._choice = PlotFile()

    @property
    def choice(self) -> PlotFile:
        return self._choice

    @choice.setter
    def choice(self, choice: PlotFile) -> None:
        self._choice = choice
        self._write(choice.model_dump())


last_choice = LastChoice()
"""The window's last choice."""


_NEUTRAL = ("text", "muted", "dense", "accent", "border", "surface")
"""Colours of lines that differ between the appearances."""


def save_figure(figure: Figure, path: Path, choice: PlotFile, look: Tokens | None = None) -> None:
    """Write a figure as chosen.

    `look` is the appearance in which the figure was made, by default the one in force. Raises WinaError. May run on
    any thread.
    """
    look = look or tokens()
    if choice.light:
        figure = recoloured(figure, {getattr(look, name): getattr(LIGHT, name) for name in _NEUTRAL})
        look = LIGHT
    style = FigureStyle(*choice.inches, text=look.text, muted=look.muted, grid=look.grid, surface=look.surface)
    if choice.format == "py":
        content = program(figure, style).encode()
    else:
        content = render(figure, style, choice.format, choice.dpi, "; ".join(panel.title for panel in figure))
    write_atomically(path, content)
