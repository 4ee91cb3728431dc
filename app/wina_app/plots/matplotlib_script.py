"""A plot as a Python program and the data beside it: `python plot.py` draws it again with matplotlib alone."""

import csv
import io
import math
from pprint import pformat
from typing import Any

from wina_app.plots.figure import Figure, LinePanel, MapPanel, Series

_MILLIMETRES = 25.4
_MARKERS = {"t": "v", "t1": "^", "t2": ">", "t3": "<", "d": "D", "star": "*"}
"""matplotlib's names where they differ from pyqtgraph's."""
_LINES: dict[str, Any] = {
    "solid": "-",
    "dash": "--",
    "dot": ":",
    "dashdot": "-.",
    "dashdotdot": (0, (3, 1, 1, 1, 1, 1)),
    "none": "",
}
_COLUMNS = ("panel", "item", "name", "x", "y", "low", "high", "text")
"""Of the data: lines have (x, y) and the ends of error bars; cells of maps have their column and row as (x, y), their
value as `low`, which is all they need, and its text."""


def data_of(figure: Figure) -> str:
    """The numbers as CSV, every digit of them; what is unknown is empty."""
    content = io.StringIO()
    writer = csv.writer(content, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for number, panel in enumerate(figure):
        rows = _cells(panel) if isinstance(panel, MapPanel) else _points(panel)
        writer.writerows((number, *row) for row in rows)
    return content.getvalue()


def _points(panel: LinePanel) -> list[tuple[object, ...]]:
    def ends(one: Series, at: int) -> tuple[str, str]:
        return (_number(one.low[at]), _number(one.high[at])) if one.low else ("", "")

    return [
        (item, one.name, _number(x), _number(one.y[at]), *ends(one, at), "")
        for item, one in enumerate(panel.series)
        for at, x in enumerate(one.x)
    ]


def _cells(panel: MapPanel) -> list[tuple[object, ...]]:
    factor = _factor(panel)

    def text(value: float) -> str:
        return "" if math.isnan(value) else panel.text(value)

    return [
        (0, f"{panel.rows[y]} {panel.columns[x]}", x, y, _number(factor * value), "", text(value))
        for y, row in enumerate(panel.values)
        for x, value in enumerate(row)
    ]


def _number(value: float) -> str:
    return repr(value) if math.isfinite(value) else ""


def _factor(panel: MapPanel) -> float:
    """Percentages are stored as fractions."""
    return 100.0 if panel.unit in ("%", "points") else 1.0


def script_of(figure: Figure, data: str, width: float, height: float, colours: dict[str, list[str]]) -> str:
    """The program that draws the figure from the file named `data` beside it, `width` x `height` millimetres large.

    `colours` has, for each colour map by name, "#rrggbb" from low to high. The program has the figure's words and
    numbers as literals alone, so that no text of a model, task or run is ever more than a text.
    """
    panels = [_map_literal(one, colours) if isinstance(one, MapPanel) else _line_literal(one) for one in figure]
    size = (round(width / _MILLIMETRES, 3), round(height / _MILLIMETRES, 3))
    literals = {"DATA": data, "SIZE": size, "PANELS": panels}
    told = "\n".join(f"{name} = {pformat(value, width=110, sort_dicts=False)}" for name, value in literals.items())
    return f"{_HEAD}\n{told}\n{_BODY}"


def _line_literal(panel: LinePanel) -> dict[str, Any]:
    return {
        "kind": "lines",
        "title": panel.title,
        "x_title": panel.x_title,
        "y_title": panel.y_title,
        "x_range": _pair(panel.x_range),
        "y_range": _pair(panel.y_range),
        "ticks": list(panel.ticks),
        "legend": panel.legend,
        "references": [(name, colour[:7], float(y)) for name, colour, y in panel.references],
        "series": [_style(one) for one in panel.series],
    }


def _style(series: Series) -> dict[str, Any]:
    return {
        "name": series.name if series.named else "",
        "colour": series.colour,
        "marker": _MARKERS.get(series.marker, series.marker),
        "line": _LINES[series.line],
        "hollow": series.hollow,
        "width": series.width,
    }


def _map_literal(panel: MapPanel, colours: dict[str, list[str]]) -> dict[str, Any]:
    factor = _factor(panel)
    return {
        "kind": "map",
        "title": panel.title,
        "rows": list(panel.rows),
        "columns": list(panel.columns),
        "quantity": f"{panel.quantity} ({panel.unit})" if panel.unit else panel.quantity,
        "low": factor * panel.low,
        "high": factor * panel.high,
        "colours": colours[panel.colours],
    }


def _pair(ends: tuple[float, float]) -> tuple[float, float]:
    return float(ends[0]), float(ends[1])


_HEAD = '''"""Draws the data beside it: `python plot.py` writes plot.png, `python plot.py figure.pdf` another file.

Needs matplotlib; change what you like.
"""

import csv
import math
import sys
from math import inf, nan  # as numbers that are not known are written below
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.colors import LinearSegmentedColormap
'''
_BODY = '''

def main():
    here = Path(__file__)
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else here.with_suffix(".png")
    with here.with_name(DATA).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    plt.rcParams |= {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "svg.fonttype": "none"}
    plt.rcParams["text.parse_math"] = False  # a "$" in a name is a "$"
    figure, all_axes = plt.subplots(1, len(PANELS), figsize=SIZE, squeeze=False, layout="constrained")
    for number, (panel, axes) in enumerate(zip(PANELS, all_axes[0])):
        own = [row for row in rows if int(row["panel"]) == number]
        {"lines": draw_lines, "map": draw_map}[panel["kind"]](axes, panel, own, len(PANELS) > 1)
    figure.savefig(target, dpi=300)
    print(target)


def draw_lines(axes, panel, rows, titled):
    names = []
    for item, style in enumerate(panel["series"]):
        own = [row for row in rows if int(row["item"]) == item]
        x, y, low, high = ([number(row[key]) for row in own] for key in ("x", "y", "low", "high"))
        colour = style["colour"]
        errors = [[known(b - a) for a, b in zip(low, y)], [known(b - a) for a, b in zip(y, high)]]
        has_errors = any(not math.isnan(value) for value in low)
        if style["width"]:
            drawn = axes.bar(x, y, style["width"], color=colour, yerr=errors if has_errors else None)
        else:
            face = "white" if style["hollow"] else colour
            drawn = axes.errorbar(
                x, y, yerr=errors if has_errors else None, color=colour, marker=style["marker"] or "none",
                linestyle=style["line"] or "none", markerfacecolor=face, markersize=5, linewidth=1.5, elinewidth=0.8,
                zorder=3 if style["hollow"] else 2,
            )
        if style["name"]:
            names.append((style["name"], colour, drawn, last_point(x, y)))
    for name, colour, y in panel["references"]:
        drawn = axes.axhline(y, color=colour, linestyle="--", linewidth=1.2, zorder=1)
        names.append((name, colour, drawn, (panel["x_range"][1], y)))
    axes.set(xlim=panel["x_range"], ylim=panel["y_range"], xlabel=panel["x_title"], ylabel=panel["y_title"])
    if panel["ticks"]:
        axes.set_xticks([x for x, _ in panel["ticks"]], [text for _, text in panel["ticks"]])
        axes.tick_params(axis="x", rotation=30 if len(panel["ticks"]) > 6 else 0)
    axes.grid(alpha=0.2)
    axes.set_axisbelow(True)
    if titled:
        axes.set_title(panel["title"], fontsize=9)
    alike = len({colour for _, colour, *_ in names}) < len(names)
    if panel["legend"] or alike or len(names) > 20:
        handles, texts = [drawn for _, _, drawn, _ in names], [name for name, *_ in names]
        axes.legend(handles, texts, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    else:
        name_lines(axes, panel, names)


def name_lines(axes, panel, names):
    """Each name beside the end of its line, at least a line's height apart."""
    low, high = panel["y_range"]
    height = 12 / 72 / (0.75 * SIZE[1]) * (high - low)
    free = -math.inf
    for name, colour, _, (_, y) in sorted(names, key=lambda one: one[3][1]):
        free = max(min(max(y, low), high), free + height)
        axes.annotate(name, (1.01, free), xycoords=("axes fraction", "data"), color=colour, va="center")


def draw_map(axes, panel, rows, titled):
    shape = len(panel["rows"]), len(panel["columns"])
    values = [[math.nan] * shape[1] for _ in range(shape[0])]
    colours = LinearSegmentedColormap.from_list("map", panel["colours"])
    for row in rows:
        values[int(row["y"])][int(row["x"])] = number(row["low"])
    axes.set_facecolor("white")
    axes.patch.set(hatch="////", edgecolor="0.7")
    image = axes.imshow(values, cmap=colours, vmin=panel["low"], vmax=panel["high"], aspect="auto")
    if shape[0] * shape[1] <= 400:
        for row in rows:
            shade = image.cmap(image.norm(number(row["low"])))
            dark = 0.299 * shade[0] + 0.587 * shade[1] + 0.114 * shade[2] < 0.5
            axes.text(int(row["x"]), int(row["y"]), row["text"], ha="center", va="center", fontsize=7,
                      color="white" if dark else "black")
    axes.set_xticks(range(shape[1]), panel["columns"])
    step = max(1, shape[0] // 16)
    axes.set_yticks(range(0, shape[0], step), panel["rows"][::step])
    axes.set_title(panel["title"], fontsize=9)
    axes.figure.colorbar(image, ax=axes, label=panel["quantity"])


def number(text):
    return float(text) if text else math.nan


def known(value):
    return 0.0 if math.isnan(value) else max(value, 0.0)


def last_point(x, y):
    finite = [(a, b) for a, b in zip(x, y) if not math.isnan(b)]
    return finite[-1] if finite else (0.0, 0.0)


if __name__ == "__main__":
    main()
'''
