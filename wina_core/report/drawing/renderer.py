"""The renderer of figures for files, scripts and reports, by matplotlib.

An exported script contains this file, so it imports matplotlib and the plain data alone. Importing matplotlib takes a
second: import this module where a figure is drawn.
"""

import io
import math
import textwrap
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import Colormap, LinearSegmentedColormap
from matplotlib.figure import Figure as Canvas
from matplotlib.legend import Legend

from wina_core.report.drawing.figure import Figure, Line, LinePanel, MapPanel, Series, Style
from wina_core.report.drawing.label_positions import spread
from wina_core.report.drawing.svg import portable

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
_LINES: dict[Line, Any] = {
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
_WIDEST_NAME = 0.35
"""Largest part of a panel's width that names take."""
_CELLS_WITH_TEXT = 2000
_HATCHES = 4
"""Lines across half of a cell without data."""


def render(figure: Figure, style: Style, format: str, dpi: float = 300.0, title: str = "") -> bytes:
    """Draw a figure as the content of a file.

    `format` is png, svg or pdf; `dpi` is the resolution of a PNG. Equal figures give equal bytes.
    """
    content = io.BytesIO()
    metadata = {"png": {"Title": title}, "svg": {"Title": title, "Date": None, "Creator": None}}
    dateless = {"Title": title, "CreationDate": None, "ModDate": None}
    if format == "png":  # whole pixels, and not one fewer
        width, height = ((round(side * dpi) + 0.01) / dpi for side in (style.width, style.height))
        style = replace(style, width=width, height=height)
    with _LOCK, matplotlib.rc_context(_SETTINGS):
        canvas = draw(figure, style)
        canvas.savefig(content, format=format, dpi=dpi, metadata=metadata.get(format, dateless))
    return portable(content.getvalue()) if format == "svg" else content.getvalue()


def draw(figure: Figure, style: Style) -> Canvas:
    """Draw a figure's panels, at most `style.across` in a row."""
    colours: Any = {"axes.labelcolor": style.text, "text.color": style.text, "axes.facecolor": style.surface}
    colours |= {"axes.edgecolor": style.muted, "xtick.color": style.muted, "ytick.color": style.muted}
    with matplotlib.rc_context({**_SETTINGS, **colours, "font.size": style.font_size}):
        across = min(len(figure), style.across or len(figure))
        canvas = Canvas(figsize=(style.width, style.height), layout="constrained", facecolor=style.surface)
        grid = list(canvas.subplots(-(-len(figure) // across), across, squeeze=False).flat)
        titled = style.titled or len(figure) > 1
        names: list[tuple[LinePanel, Axes, list[Legend]]] = []
        maps: list[tuple[MapPanel, Axes]] = []
        for axes, panel in zip(grid, figure, strict=False):
            if isinstance(panel, MapPanel):
                _draw_map(axes, panel, style)
                maps.append((panel, axes))
            else:
                _draw_lines(axes, panel, style)
                names.append((panel, axes, _name_lines(axes, panel, style)))
            if titled or isinstance(panel, MapPanel):
                axes.set_title(textwrap.fill(panel.title, _letters(axes, style)), fontsize=style.font_size)
        for axes in grid[len(figure) :]:
            axes.set_visible(False)
        layout = canvas.get_layout_engine()
        if layout is not None:
            layout.execute(canvas)
        for line_panel, axes, legends in names:
            _spread_names(axes, line_panel, legends, style)
        for map_panel, axes in maps:
            _write_cells(axes, map_panel, style)
    return canvas


def _letters(axes: Axes, style: Style) -> int:
    """Return how many letters fit across a panel."""
    place = axes.get_subplotspec()
    across = place.get_gridspec().ncols if place else 1
    return max(20, int(72 * style.width / across / (_LETTER * style.font_size)))


# ---- lines and bars --------------------------------------------------------------------------------------------


def _draw_lines(axes: Axes, panel: LinePanel, style: Style) -> None:
    for one in panel.series:
        _draw_series(axes, one, style)
    for _, colour, y in panel.references:
        axes.axhline(y, color=colour, linestyle="--", linewidth=1.2, zorder=1)
    axes.set(xscale="log" if panel.log_x else "linear", yscale="log" if panel.log_y else "linear")
    for axis, log in ((axes.xaxis, panel.log_x), (axes.yaxis, panel.log_y)):
        if log:
            _number_log(axis)
    axes.set(xlim=panel.x_range, ylim=panel.y_range, xlabel=panel.x_title, ylabel=panel.y_title)
    if panel.ticks:
        words = [word for _, word in panel.ticks]
        axes.set_xticks([x for x, _ in panel.ticks], words)
        crowded = sum(map(len, words)) > 0.6 * _letters(axes, style)
        axes.tick_params(axis="x", rotation=30 if crowded else 0)
    axes.grid(color=style.grid, linewidth=0.6)
    axes.set_axisbelow(True)


def _number_log(axis: Axis) -> None:
    """Give a logarithmic axis plain numbers at 1, 2 and 5 times powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=12))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())


def _draw_series(axes: Axes, one: Series, style: Style) -> None:
    errors = [_lengths(one.low, one.y), _lengths(one.y, one.high)] if one.low else None
    if one.width:
        axes.bar(one.x, one.y, one.width, color=one.colour, yerr=errors, ecolor=style.text, error_kw={"linewidth": 0.8})
    else:
        axes.errorbar(one.x, one.y, yerr=errors, elinewidth=0.8, zorder=3 if one.hollow else 2, **_look(one, style))


def _look(one: Series, style: Style) -> dict[str, Any]:
    """Return matplotlib's properties of a line."""
    return {
        "color": one.colour,
        "linestyle": (0, one.dashes) if one.dashes and one.line != "none" else _LINES[one.line],
        "linewidth": 1.5,
        "marker": one.marker or "none",
        "markersize": _POINTS_PER_PIXEL * one.size,
        "markerfacecolor": style.surface if one.hollow else one.colour,
    }


def _lengths(low: Sequence[float], high: Sequence[float]) -> list[float]:
    """Return the lengths of error bars, 0 where an end is unknown."""
    return [max(b - a, 0.0) if math.isfinite(b - a) else 0.0 for a, b in zip(low, high, strict=True)]


def _name_lines(axes: Axes, panel: LinePanel, style: Style) -> list[Legend]:
    """Write each name with a piece of its line at the right of the axes."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    letters = int(_WIDEST_NAME * _letters(axes, style))
    entries: list[tuple[str, Any]] = [
        (one.name, Patch(color=one.colour) if one.width else Line2D([], [], **_look(one, style)))
        for one in panel.series
        if one.name and one.named
    ]
    entries += [
        (name, Line2D([], [], color=colour, linestyle="--", linewidth=1.2))
        for name, colour, _ in panel.references
        if name
    ]
    legends = []
    for name, handle in entries:
        text = name if len(name) <= letters else name[: letters - 1] + "…"
        legend = Legend(
            axes, [handle], [text], loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, borderpad=0.0,
            borderaxespad=0.4, handlelength=1.6, handletextpad=0.5,
        )  # fmt: skip
        axes.add_artist(legend)
        legend.set_clip_on(False)  # the layout makes room for it
        legends.append(legend)
    return legends


def _spread_names(axes: Axes, panel: LinePanel, legends: Sequence[Legend], style: Style) -> None:
    """Move the names beside the ends of their lines, or below each other from the top."""
    if not legends:
        return
    points = 72 * axes.get_position().height * style.height
    size = min(style.font_size, points / (1.2 * len(legends)))
    gap = 1.3 * size / points
    if panel.legend:
        places = [1.0 - (row + 0.5) * gap for row in range(len(legends))]
    else:
        ends = [_last(one.y) for one in panel.series if one.name and one.named]
        ends += [y for name, _, y in panel.references if name]
        wanted = [_height(panel, y) for y in ends]
        places = spread(wanted, gap, 0.0, 1.0)
    for legend, place in zip(legends, places, strict=True):
        legend.set_bbox_to_anchor((1.0, place), transform=axes.transAxes)
        for text in legend.get_texts():
            text.set_fontsize(size)


def _height(panel: LinePanel, y: float) -> float:
    """Return the place of a value along the y axis, from 0 at the bottom to 1 at the top."""
    low, high = panel.y_range
    if panel.log_y:
        low, high, y = (math.log10(value) if value > 0.0 else -math.inf for value in (low, high, y))
    return min(max((y - low) / ((high - low) or 1.0), 0.0), 1.0)


def _last(values: Sequence[float]) -> float:
    return next((value for value in reversed(values) if math.isfinite(value)), 0.0)


# ---- maps ------------------------------------------------------------------------------------------------------


def _draw_map(axes: Axes, panel: MapPanel, style: Style) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.collections import LineCollection
    from matplotlib.colors import Normalize

    known = math.isfinite(panel.low) and math.isfinite(panel.high)
    scale = Normalize(panel.low, panel.high) if known else Normalize(0.0, 1.0)
    colours = _map_colours(panel)
    axes.set_facecolor(style.surface)
    axes.add_collection(LineCollection(_hatching(panel), colors=style.muted, linewidths=0.4))
    axes.pcolormesh(panel.values, cmap=colours, norm=scale)
    axes.invert_yaxis()
    axes.set_xticks([column + 0.5 for column in range(len(panel.columns))], panel.columns)
    axes.tick_params(length=0.0)
    bar = axes.figure.colorbar(ScalarMappable(scale, colours), ax=axes, label=panel.quantity)
    bar.outline.set_visible(False)
    if bar.solids is not None:
        bar.solids.set(rasterized=False, edgecolor="face")  # vectors without seams


def _hatching(panel: MapPanel) -> list[list[tuple[float, float]]]:
    """Return the lines across the cells without data: few renderers of SVG know a pattern."""
    empty = [(x, y) for y, row in enumerate(panel.values) for x, value in enumerate(row) if math.isnan(value)]
    lines = [step / _HATCHES for step in range(1, 2 * _HATCHES)]
    return [
        [(x + max(0.0, k - 1.0), y + min(1.0, k)), (x + min(1.0, k), y + max(0.0, k - 1.0))]
        for x, y in empty
        for k in lines
    ]


def _map_colours(panel: MapPanel) -> Colormap:
    return LinearSegmentedColormap.from_list("map", panel.colours)


def _write_cells(axes: Axes, panel: MapPanel, style: Style) -> None:
    """Name the rows and write the values, as large as the laid out cells allow."""
    area = axes.get_position()
    rows, columns = len(panel.rows), len(panel.columns)
    width, height = 72 * area.width * style.width / columns, 72 * area.height * style.height / rows
    step = max(1, math.ceil(1.2 * style.font_size / height))
    axes.set_yticks([row + 0.5 for row in range(0, rows, step)], panel.rows[::step])
    if sum(map(len, panel.columns)) * _LETTER * style.font_size > width * columns:
        axes.tick_params(axis="x", rotation=90)
    longest = max((len(text) for row in panel.texts for text in row), default=0)
    if not longest or rows * columns > _CELLS_WITH_TEXT:
        return
    size = min(style.font_size, 0.7 * height, 0.75 * width / (_LETTER * longest))
    colours = _map_colours(panel)
    span = (panel.high - panel.low) or 1.0
    for row, (values, texts) in enumerate(zip(panel.values, panel.texts, strict=True)):
        for column, (value, text) in enumerate(zip(values, texts, strict=True)):
            if text and math.isfinite(value):
                red, green, blue, _ = colours((value - panel.low) / span)
                ink = "#ffffff" if 0.299 * red + 0.587 * green + 0.114 * blue < 0.5 else "#000000"
                place = (column + 0.5, row + 0.5)
                axes.text(*place, text, ha="center", va="center_baseline", fontsize=size, color=ink)
