"""Figures as plain data, drawn by matplotlib: for files, for reports, and as programs.

A figure's program is this file with the figure at its end, so it imports nothing else of the project. Importing
matplotlib takes a second, so only the functions that draw import it: the window needs the plain data at its start.
"""

import io
import math
import textwrap
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

Line = Literal["solid", "dash", "dot", "dashdot", "dashdotdot", "none"]
Colour = str
"""As "#rrggbb" or "#rrggbbaa"."""


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
class FigureStyle:
    """Size and colours of a drawn figure."""

    width: float
    """Inches."""
    height: float
    """Inches."""
    text: Colour = "#1b1f24"
    muted: Colour = "#59616c"
    grid: Colour = "#e6e8ec"
    surface: Colour = "#ffffff"
    font_size: float = 9.0
    """Points."""
    across: int = 0
    """Largest number of panels in a row; 0 for all."""
    titled: bool = False
    """True to title a single panel of lines too."""

    def panel_points(self, panels: int) -> tuple[float, float]:
        """Return the estimated width and height of a panel's axes, in points."""
        across = min(panels, self.across or panels)
        return 0.7 * 72 * self.width / across, 0.75 * 72 * self.height / -(-panels // across)


_LOCK = threading.Lock()
"""Guards matplotlib's settings, which all threads share."""
_SETTINGS: Any = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "pdf.fonttype": 42,  # fonts as text
    "svg.fonttype": "none",  # words as text
    "svg.hashsalt": "wina",  # equal figures are equal files
    "text.parse_math": False,  # a "$" in a name is a "$"
}
_PATTERNS: dict[Line, Any] = {
    "solid": "-",
    "dash": "--",
    "dot": ":",
    "dashdot": "-.",
    "dashdotdot": (0, (3, 1, 1, 1, 1, 1)),
    "none": "none",
}
_POINTS_PER_PIXEL = 0.75
_LETTER = 0.55
"""Mean width of a letter in font sizes."""
_LEGEND_SHARE = 0.3
"""Largest share of a figure's width or height that the legend takes."""
_LETTERS_OF_HANDLE = 6
"""Width of the piece of line before a name in the legend, and of the space after it."""
_MAX_CELLS_WITH_TEXT = 2000


def render(figure: Figure, style: FigureStyle, format: str, dpi: float = 300.0, title: str = "") -> bytes:
    """Return a drawn figure as the content of a file.

    `format` is png, svg or pdf; `dpi` is the resolution of a PNG. Equal figures give equal bytes.
    """
    import matplotlib

    content = io.BytesIO()
    metadata = {"png": {"Title": title}, "svg": {"Title": title, "Date": None, "Creator": None}}
    dateless = {"Title": title, "CreationDate": None, "ModDate": None}
    if format == "png":  # matplotlib cuts a fraction of a pixel off
        width, height = ((round(side * dpi) + 0.01) / dpi for side in (style.width, style.height))
        style = replace(style, width=width, height=height)
    with _LOCK, matplotlib.rc_context(_SETTINGS):
        draw(figure, style).savefig(content, format=format, dpi=dpi, metadata=metadata.get(format, dateless))
    return content.getvalue()


def program(figure: Figure, style: FigureStyle) -> str:
    """Return a Python program that draws the figure with matplotlib alone.

    The figure's texts and numbers are literals, so that no name of a model, task or run is ever more than a text.
    """
    import inspect
    import sys
    from pprint import pformat

    source = inspect.getsource(sys.modules[__name__])
    literals = (
        f"{name} = {pformat(value, width=110, compact=True)}" for name, value in (("STYLE", style), ("FIGURE", figure))
    )
    return "\n".join([source, "", "from math import inf, nan  # numbers that are not known", "", *literals, _MAIN])


_MAIN = """
if __name__ == "__main__":  # python plot.py draws plot.png, python plot.py figure.pdf a PDF
    import sys
    from pathlib import Path

    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_suffix(".png")
    target.write_bytes(render(FIGURE, STYLE, target.suffix[1:].lower()))
    print(target)
"""


def draw(figure: Figure, style: FigureStyle) -> "Canvas":
    """Draw a figure's panels, at most `style.across` in a row, with one legend and one colour bar for each scale."""
    import matplotlib
    from matplotlib.figure import Figure as Canvas

    colours: Any = {"axes.labelcolor": style.text, "text.color": style.text, "axes.facecolor": style.surface}
    colours |= {"axes.edgecolor": style.muted, "xtick.color": style.muted, "ytick.color": style.muted}
    with matplotlib.rc_context({**_SETTINGS, **colours, "font.size": style.font_size}):
        across = min(len(figure), style.across or len(figure))
        canvas = Canvas(figsize=(style.width, style.height), layout="constrained", facecolor=style.surface)
        grid = list(canvas.subplots(-(-len(figure) // across), across, squeeze=False).flat)
        width, height = style.panel_points(len(figure))
        handles: dict[tuple[str, ...], Any] = {}
        for axes, panel in zip(grid, figure, strict=False):
            if isinstance(panel, MapPanel):
                _draw_map(axes, panel, style, width, height)
            else:
                handles |= _draw_lines(axes, panel, style, width, height)
            if style.titled or len(figure) > 1 or isinstance(panel, MapPanel):
                axes.set_title(_wrapped(panel.title, style, width), fontsize=style.font_size)
        for axes in grid[len(figure) :]:
            axes.remove()
        if handles:
            _draw_legend(canvas, handles, style)
        _draw_colour_bars(canvas, list(zip(grid, figure, strict=False)))
    return canvas


def _wrapped(text: str, style: FigureStyle, points: float) -> str:
    return textwrap.fill(text, max(20, int(points / (_LETTER * style.font_size))))


# ---- lines and bars --------------------------------------------------------------------------------------------


def _draw_lines(
    axes: "Axes", panel: LinePanel, style: FigureStyle, width: float, height: float
) -> dict[tuple[str, ...], Any]:
    """Draw a panel in axes of about `width` x `height` points; return the legend's handles by name and look."""
    from matplotlib.ticker import LogLocator, NullLocator

    handles: dict[tuple[str, ...], Any] = {}
    for one in panel.series:
        handle = _draw_series(axes, one, style)
        if one.name and one.named:
            handles[one.name, one.colour, one.marker, one.line] = handle
    for name, colour, y in panel.references:
        handle = axes.axhline(y, color=colour, linestyle="--", linewidth=1.2, zorder=1)
        if name:
            handles[name, colour] = handle
    axes.set(xscale="log" if panel.log_x else "linear", yscale="log" if panel.log_y else "linear")
    scales = (axes.xaxis, panel.log_x, panel.x_range), (axes.yaxis, panel.log_y, panel.y_range)
    for axis, is_log, (low, high) in scales:
        if is_log:
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 1e3 * low else (1.0,), numticks=12))
            axis.set_major_formatter("{x:g}")  # matplotlib's own needs math text
            axis.set_minor_locator(NullLocator())
    axes.set(xlim=panel.x_range, ylim=panel.y_range)
    axes.set(xlabel=_wrapped(panel.x_title, style, width), ylabel=_wrapped(panel.y_title, style, height))
    if panel.ticks:
        words = [word for _, word in panel.ticks]
        is_crowded = 1.3 * _LETTER * style.font_size * sum(map(len, words)) > width
        axes.set_xticks([x for x, _ in panel.ticks], words, rotation=30 if is_crowded else 0)
    axes.grid(color=style.grid, linewidth=0.6)
    axes.set_axisbelow(True)
    return handles


def _draw_series(axes: "Axes", series: Series, style: FigureStyle) -> Any:
    errors = [_lengths(series.low, series.y), _lengths(series.y, series.high)] if series.low else None
    if series.width:
        bars: dict[str, Any] = {"color": series.colour, "ecolor": style.text, "error_kw": {"linewidth": 0.8}}
        return axes.bar(series.x, series.y, series.width, yerr=errors, **bars)
    return axes.errorbar(
        series.x,
        series.y,
        yerr=errors,
        elinewidth=0.8,
        zorder=3 if series.hollow else 2,
        color=series.colour,
        linestyle=(0, series.dashes) if series.dashes and series.line != "none" else _PATTERNS[series.line],
        linewidth=1.5,
        marker=series.marker or "none",
        markersize=_POINTS_PER_PIXEL * series.size,
        markerfacecolor=style.surface if series.hollow else series.colour,
    )


def _lengths(low: Sequence[float], high: Sequence[float]) -> list[float]:
    """Return the lengths of error bars, 0 where an end is unknown."""
    return [max(0.0, end - start) if math.isfinite(end - start) else 0.0 for start, end in zip(low, high, strict=True)]


def _draw_legend(canvas: "Canvas", handles: dict[tuple[str, ...], Any], style: FigureStyle) -> None:
    """Draw the legend at the right, or below in columns where names are long; letters are smaller where it is full."""
    names = [name for name, *_ in handles]
    letters = int(72 * style.width / (_LETTER * style.font_size))
    longest = letters - _LETTERS_OF_HANDLE
    entry = max(map(len, names)) + _LETTERS_OF_HANDLE
    look: dict[str, Any] = {"loc": "outside right upper"}
    room, rows = 72 * style.height, len(names)
    if entry > _LEGEND_SHARE * letters:
        columns = max(1, min(len(names), letters // entry))
        look = {"loc": "outside lower left", "ncols": columns}
        room, rows = _LEGEND_SHARE * room, -(-len(names) // columns)
    texts = [name if len(name) <= longest else f"{name[: longest - 1]}…" for name in names]
    size = min(style.font_size, room / (1.6 * rows))
    canvas.legend(list(handles.values()), texts, frameon=False, fontsize=size, **look)


# ---- maps ------------------------------------------------------------------------------------------------------


def _draw_map(axes: "Axes", panel: MapPanel, style: FigureStyle, width: float, height: float) -> None:
    """Draw a map in axes of about `width` x `height` points, hatched where there is no data."""
    norm, colours = _scale(panel)
    axes.patch.set(hatch="////", edgecolor=style.muted, linewidth=0.0)
    # Cells that are NaN stay transparent, and show the hatches of the background.
    axes.pcolormesh(panel.values, cmap=colours, norm=norm)
    axes.invert_yaxis()
    rows, columns = len(panel.rows), len(panel.columns)
    step = math.ceil(1.3 * style.font_size * rows / height)
    axes.set_yticks([row + 0.5 for row in range(0, rows, step)], panel.rows[::step])
    is_crowded = 1.3 * _LETTER * style.font_size * sum(map(len, panel.columns)) > width
    axes.set_xticks([column + 0.5 for column in range(columns)], panel.columns, rotation=90 if is_crowded else 0)
    axes.tick_params(length=0.0)
    longest = max((len(text) for row in panel.texts for text in row), default=0)
    if not longest or rows * columns > _MAX_CELLS_WITH_TEXT:
        return
    size = min(style.font_size, 0.7 * height / rows, 0.75 * width / columns / (_LETTER * longest))
    for row, (values, texts) in enumerate(zip(panel.values, panel.texts, strict=True)):
        for column, (value, text) in enumerate(zip(values, texts, strict=True)):
            if text and math.isfinite(value):
                red, green, blue, _ = colours(norm(value))
                # The luma of Rec. 601 decides between white and black letters.
                ink = "#ffffff" if 0.299 * red + 0.587 * green + 0.114 * blue < 0.5 else "#000000"
                centre = (column + 0.5, row + 0.5)
                axes.text(*centre, text, ha="center", va="center_baseline", fontsize=size, color=ink)


def _scale(panel: MapPanel) -> tuple[Any, Any]:
    """Return matplotlib's norm and colours of a map."""
    from matplotlib.colors import LinearSegmentedColormap, Normalize

    is_known = math.isfinite(panel.low) and math.isfinite(panel.high)
    norm = Normalize(panel.low, panel.high) if is_known else Normalize(0.0, 1.0)
    return norm, LinearSegmentedColormap.from_list("map", panel.colours)


def _draw_colour_bars(canvas: "Canvas", panels: Sequence[tuple["Axes", Panel]]) -> None:
    from matplotlib.cm import ScalarMappable

    by_scale: dict[tuple[object, ...], list[tuple[Axes, MapPanel]]] = {}
    for axes, panel in panels:
        if isinstance(panel, MapPanel):
            by_scale.setdefault((panel.quantity, panel.low, panel.high, panel.colours), []).append((axes, panel))
    for maps in by_scale.values():
        bar = canvas.colorbar(
            ScalarMappable(*_scale(maps[0][1])), ax=[axes for axes, _ in maps], label=maps[0][1].quantity
        )
        bar.outline.set_visible(False)
        if bar.solids is not None:
            bar.solids.set(rasterized=False, edgecolor="face")  # vectors without seams
