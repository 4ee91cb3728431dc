"""The report's plots, as SVG that takes its text colour from the page, so that they are readable light and dark."""

import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from wina_core.comparison.study_runs import StudyRun
from wina_core.methods.colours import METHOD_COLOURS
from wina_core.records import METRIC_UNITS
from wina_core.report.findings import Findings
from wina_core.report.layout import Measure, measures, papers_number
from wina_core.results.measured import SparsityKind, sparsity_of
from wina_core.store import LayerMap, Store
from wina_core.studies.published import base_metric

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

_INK = "#012345"
"""Stands for the page's text colour until the SVG is written."""
_FURTHER = ("#7A7ADB", "#1B9E77", "#D95F02", "#C0578A", "#66A61E", "#A6761D")
_MARKERS = "osD^vPX*<>"
_MOST_MAPS = 6
_MOST_PANELS = 8
_SETTINGS: Any = {
    "text.parse_math": False,  # names are anybody's
    "svg.fonttype": "none",
    "svg.hashsalt": "wina",
    "font.family": "sans-serif",
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    **dict.fromkeys(
        ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color", "grid.color"), _INK
    ),
}


_X_TITLES: Mapping[SparsityKind, str] = {
    "counted": "Counted sparsity (%)",
    "full": "Full sparsity (%)",
    "target": "Target sparsity (%)",
}
_USUAL_END, _MARGIN = 75.0, 2.0
"""End of the x axis unless a point lies beyond it, and room around such points, in percent."""


class _PlotPoint(NamedTuple):
    x: float
    """Sparsity in percent, of the kind that the plot is by."""
    ours: float | None
    interval: tuple[float, float] | None
    """95 %."""
    nominal: float
    """Target sparsity in percent, at which the paper's number stands."""
    paper: float | None


@dataclass(frozen=True)
class Figure:
    """One plot."""

    name: str
    """For a file."""
    title: str
    caption: str
    """What it shows, for those who do not see it too."""
    svg: str
    """Inline, its ink `currentColor`."""


def figures(store: Store, findings: Findings) -> tuple[Figure, ...]:
    """The study's plots, as far as there are numbers for them. Loads matplotlib."""
    found = [_frontier(findings), _heatmaps(store, findings), _latency(findings)]
    return tuple(figure for figure in found if figure is not None)


def _frontier(findings: Findings) -> Figure | None:
    """Draw values against sparsity: a panel for each model (or network), a line for each arm, the paper's dashed."""
    chosen = _plotted(findings)
    panels = [
        (
            model if len(chosen) == 1 else f"{model} {measure.title}" if findings.tasks else measure.title,
            model,
            bits,
            measure,
        )
        for model, bits in dict.fromkeys((run.model, run.quantization) for run in findings.runs)
        for measure in chosen
    ]
    panels = [panel for panel in panels if _lines(findings, *panel[1:])][:_MOST_PANELS]
    if not panels:
        return None

    points = [point for panel in panels for line in _lines(findings, *panel[1:]).values() for point in line.points]

    def draw(all_axes: Sequence["Axes"]) -> None:
        for axes, (title, model, bits, measure) in zip(all_axes, panels, strict=True):
            for arm, line in _lines(findings, model, bits, measure).items():
                _draw_line(axes, arm, line)
            axes.set_title(title if bits == "none" else f"{title}, {bits.upper()}", fontsize=9, color=_INK)
            axes.set_xlim(*_x_range(points))
            axes.set_xlabel(_X_TITLES[findings.by])
            axes.set_ylabel(_unit(findings, measure))
            axes.legend(fontsize=7.5)

    notes = [f"{', '.join(dict.fromkeys(panel[3].title for panel in panels))} against {findings.by} sparsity"]
    notes += ["error bars are 95 % intervals"] if any(point.interval for point in points) else []
    if any(point.paper is not None for point in points):
        notes.append("dashed lines are the published numbers, at the paper's nominal sparsity")
    caption = f"{'; '.join(notes)}."
    return Figure("frontier", "Frontier", caption, _svg("frontier", len(panels), draw))


def _x_range(points: Sequence[_PlotPoint]) -> tuple[float, float]:
    """Return the usual range, widened by what would lie outside."""
    low, high = min(point.x for point in points), max(point.x for point in points)
    return (0.0 if low >= 0 else low - _MARGIN), max(_USUAL_END, high + _MARGIN)


def _unit(findings: Findings, measure: Measure) -> str:
    """Return the label of an axis of the measure."""
    if measure.weights is not None:
        return f"{measure.title} (%)"
    metric = base_metric(measure.metric) or findings.metric_title(measure.task)
    unit = METRIC_UNITS.get(metric, "")
    return f"{metric} ({'%' if unit == 'fraction' else unit})" if unit else metric


@dataclass(frozen=True)
class _Line:
    colour: str
    marker: str
    dense: bool
    points: tuple[_PlotPoint, ...]


def _plotted(findings: Findings) -> tuple[Measure, ...]:
    """The measure that sums the study up: its mean, else all of them, else the deviation from dense."""
    found = measures(findings)
    means = tuple(measure for measure in found if measure.weights is not None)
    if means or found:
        return means or found
    return (Measure("deviation", "KL (nats per token)", "kl"),) if findings.study.evaluation.deviation else ()


def _lines(findings: Findings, model: str, bits: str, measure: Measure) -> Mapping[str, _Line]:
    """By arm; those with no number are left out."""
    runs = [run for run in findings.runs if (run.model, run.quantization) == (model, bits)]
    several = len({run.allocation for run in runs if not run.is_dense}) > 1
    names = {run.run: f"{run.arm}, {run.allocation}" if several and not run.is_dense else run.arm for run in runs}
    looks = _looks(runs, names)
    found: dict[str, _Line] = {}
    for name in dict.fromkeys(names.values()):
        members = sorted((run for run in runs if names[run.run] == name), key=lambda run: sparsity_of(run, findings.by))
        points = tuple(_plot_point(findings, run, measure) for run in members)
        if any(point.ours is not None or point.paper is not None for point in points):
            found[name] = _Line(*looks[name], members[0].is_dense, points)
    return found


def _looks(runs: Sequence[StudyRun], names: Mapping[str, str]) -> Mapping[str, tuple[str, str]]:
    """Colour and marker of every line: the method's own colour for its first, further ones for others."""
    looks: dict[str, tuple[str, str]] = {}
    taken: set[str] = set()
    for run in runs:
        name = names[run.run]
        if name not in looks:
            own = _INK if run.is_dense else METHOD_COLOURS.get(run.method, "")
            spare = next((colour for colour in _FURTHER if colour not in taken), _INK)
            colour = own if own and own not in taken else spare
            taken.add(colour)
            looks[name] = colour, _MARKERS[len(looks) % len(_MARKERS)]
    return looks


def _plot_point(findings: Findings, run: StudyRun, measure: Measure) -> _PlotPoint:
    if measure.weights is not None:
        value, _ = findings.mean(run.run, measure.weights)
    else:
        value = findings.value(run.run, measure.task, measure.metric)
    paper, _ = papers_number(findings, run, measure, value)
    ours, interval = (None, None) if value is None else (value.value, value.interval)
    return _PlotPoint(100 * sparsity_of(run, findings.by), ours, interval, 100 * run.target_sparsity, paper)


def _draw_line(axes: "Axes", name: str, line: _Line) -> None:
    ours = [
        (point.x, point.ours, point.interval or (point.ours,) * 2) for point in line.points if point.ours is not None
    ]
    theirs = sorted((point.nominal, point.paper) for point in line.points if point.paper is not None)
    if line.dense:
        if ours:
            axes.axhline(ours[0][1], color=line.colour, linewidth=1, label=name)
        if theirs:
            axes.axhline(theirs[0][1], color=line.colour, linewidth=1, linestyle="--", alpha=0.7)
        return
    if ours:
        x, y, _ = zip(*ours, strict=True)
        errors = [[height - low for _, height, (low, _) in ours], [high - height for _, height, (_, high) in ours]]
        axes.errorbar(
            x, y, yerr=errors, color=line.colour, marker=line.marker, markersize=4,
            linewidth=1.4, elinewidth=0.7, label=name,
        )  # fmt: skip
    if theirs:
        label = None if ours else f"{name} (paper)"
        axes.plot(*zip(*theirs, strict=True), color=line.colour, linestyle="--", marker=line.marker, markersize=3,
                  markerfacecolor="none", linewidth=1, label=label)  # fmt: skip


def _heatmaps(store: Store, findings: Findings) -> Figure | None:
    """Draw measured sparsity over layers and projections of the first model's arms, at the highest target."""
    maps = _maps(store, findings)
    if not maps:
        return None

    from matplotlib import colormaps

    colours = colormaps["viridis"].resampled(40)  # of more, the colour bar would be a bitmap

    def draw(all_axes: Sequence["Axes"]) -> None:
        for axes, (title, found) in zip(all_axes, maps, strict=True):
            axes.grid(False)
            image = axes.pcolormesh(
                [[100 * value for value in row] for row in found.values], cmap=colours, vmin=0, vmax=100
            )
            axes.set_xticks([place + 0.5 for place in range(len(found.projections))], found.projections, fontsize=7.5)
            step = -(-len(found.values) // 12)
            layers = range(0, len(found.values), step)
            axes.set_yticks([layer + 0.5 for layer in layers], [str(layer) for layer in layers], fontsize=7.5)
            axes.set_ylabel("Decoder layer")
            axes.invert_yaxis()
            axes.set_title(title, fontsize=9, color=_INK)
            bar = axes.figure.colorbar(image, ax=axes, label="Measured sparsity (%)")
            bar.outline.set_visible(False)

    def told(found: LayerMap) -> str:
        cells = [value for row in found.values for value in row if value == value]
        return f"{100 * min(cells):.1f} to {100 * max(cells):.1f} %"

    caption = "Measured sparsity of every matrix, from the masks: " + "; ".join(
        f"{title}, {told(found)}" for title, found in maps
    )
    return Figure("layers", "Sparsity by layer", f"{caption}.", _svg("layers", len(maps), draw, width=2.9))


def _maps(store: Store, findings: Findings) -> list[tuple[str, LayerMap]]:
    found: list[tuple[str, LayerMap]] = []
    sparse = [run for run in findings.runs if not run.is_dense]
    highest = max((run.target_sparsity for run in sparse), default=0.0)
    first = [run for run in sparse if (run.model, run.quantization) == (sparse[0].model, sparse[0].quantization)]
    for run in first:
        layers = store.layer_map(run.run) if run.target_sparsity == highest and len(found) < _MOST_MAPS else None
        if layers is not None:
            spread = "" if run.allocation == "uniform" else f", {run.allocation}"
            found.append((f"{run.arm}{spread}, target {100 * run.target_sparsity:.4g} %", layers))
    return found


def _latency(findings: Findings) -> Figure | None:
    """Draw the speed-up against sparsity: a panel for each shape and method, a line for each batch."""
    by_target = findings.by == "target"
    lines: dict[str, dict[int, list[tuple[float, float]]]] = {}
    for row in findings.latency:
        if row.method != "dense":
            title = f"{row.method}, {row.outputs}x{row.inputs}, {row.dtype}, {row.backend}"
            sparsity = row.sparsity if by_target else row.measured_sparsity
            lines.setdefault(title, {}).setdefault(row.batch, []).append((100 * sparsity, row.speedup))
    panels = list(lines.items())[:_MOST_PANELS]
    if not panels:
        return None

    def draw(all_axes: Sequence["Axes"]) -> None:
        for axes, (title, batches) in zip(all_axes, panels, strict=True):
            for place, (batch, points) in enumerate(sorted(batches.items())):
                x, y = zip(*sorted(points), strict=True)
                axes.plot(x, y, color=_FURTHER[place % len(_FURTHER)], marker=_MARKERS[place % len(_MARKERS)],
                          markersize=4, label=f"batch {batch}")  # fmt: skip
            axes.axhline(1.0, color=_INK, linewidth=0.8)
            axes.set_title(title, fontsize=9, color=_INK)
            axes.set_xlabel("Target sparsity (%)" if by_target else "Measured sparsity (%)")
            axes.set_ylabel("Times as fast as dense")
            axes.legend(fontsize=7.5)

    caption = (
        "How many times as fast as PyTorch's dense product each sparse one is, against "
        f"{'target' if by_target else 'measured'} sparsity, a line per batch."
    )
    return Figure("speed-up", "Speed-up", caption, _svg("speed-up", len(panels), draw))


def _svg(name: str, panels: int, draw: Callable[[Sequence["Axes"]], None], width: float = 3.9) -> str:
    """Panels side by side, at most two to a row or three narrow ones, as inline SVG."""
    import matplotlib  # a second and more, only for reports
    from matplotlib.figure import Figure as Canvas

    across = min(panels, int(8.8 / width))
    down = -(-panels // across)
    with matplotlib.rc_context(_SETTINGS):
        canvas = Canvas(figsize=(width * across, 2.9 * down), layout="constrained")
        grid = [canvas.add_subplot(down, across, place + 1) for place in range(panels)]
        draw(grid)
        return _inline(_render(canvas), name)


def _render(canvas: "Canvas") -> str:
    content = io.StringIO()
    canvas.savefig(content, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return content.getvalue()


def _inline(svg: str, name: str) -> str:
    """Without what only a file of its own needs, its ids told apart from other plots' on the page."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r'(href="#|url\(#)', rf"\g<1>{name}-", svg)
    return svg.replace(_INK, "currentColor")
