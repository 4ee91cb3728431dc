"""Figures as files: pixels, vectors, or a program that draws them."""

from pathlib import Path

from wina_app.plots.export_settings import PlotFile
from wina_app.plots.figure import recoloured
from wina_app.style.stylesheet import LIGHT, Tokens
from wina_app.style.theme import tokens
from wina_core.files.tables import write_atomically
from wina_core.report.drawing import Figure, FigureStyle, program, render

_NEUTRAL = ("text", "muted", "dense", "accent", "border", "surface")
"""Colours of lines that differ between the appearances."""


def save_figure(figure: Figure, path: Path, choice: PlotFile, look: Tokens | None = None) -> None:
    """Write a figure as chosen.

    `look` is the appearance in which the figure was made, by default the one in force. Raises WinaError. May run on
    any thread.
    """
    figure, style = styled(figure, choice, look or tokens())
    if choice.format == "py":
        content = program(figure, style).encode()
    else:
        content = image_of(figure, style, choice.format, choice.dpi)
    write_atomically(path, content)


def image_of(figure: Figure, style: FigureStyle, format: str, dpi: float) -> bytes:
    """Draw a figure as png, svg or pdf; the first takes a second longer, for loading matplotlib."""
    return render(figure, style, format, dpi, "; ".join(panel.title for panel in figure))


def styled(figure: Figure, choice: PlotFile, look: Tokens) -> tuple[Figure, FigureStyle]:
    """Return the figure and its style as chosen: light for print, else in the window's colours."""
    if choice.light:
        figure = recoloured(figure, {getattr(look, name): getattr(LIGHT, name) for name in _NEUTRAL})
        look = LIGHT
    return figure, style_of(look, *choice.inches)


def style_of(look: Tokens, width: float, height: float) -> FigureStyle:
    """Return the style of an appearance, for a size in inches."""
    return FigureStyle(width, height, text=look.text, muted=look.muted, grid=look.grid, surface=look.surface)


def preview(figure: Figure, choice: PlotFile, width: int, height: int, look: Tokens) -> bytes:
    """Draw what would be saved as a PNG of at most `width` x `height` pixels."""
    figure, style = styled(figure, choice, look)
    return image_of(figure, style, "png", min(width / style.width, height / style.height))
