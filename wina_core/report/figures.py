"""The report's plots, as SVG that takes its text colour from the page, so that they are readable light and dark."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from wina_core.analysis.comparison.study_runs import StudyRun
from wina_core.analysis.results.measured import SparsityKind, sparsity_of
from wina_core.records import METRIC_UNITS
from wina_core.report.drawing.figure import Figure as Panels
from wina_core.report.drawing.figure import LinePanel, MapPanel, Series, Style
from wina_core.report.findings import Findings
from wina_core.report.front import front_panels
from wina_core.report.layout import Measure, measures, papers_number
from wina_core.specs import FIDELITY, ORIGINAL, printed_quantization
from wina_core.specs.methods.colours import method_colour
from wina_core.store import LatencyRow, LayerMap, Store
from wina_core.studies.published import base_metric

_INK = "#012345"
"""Placeholder of the page's text colour until the SVG is written."""
_FURTHER = ("#7A7ADB", "#1B9E77", "#D95F02", "#C0578A", "#66A61E", "#A6761D")
_MARKERS = "osD^vPX*<>"
_MOST_MAPS = 6
_MOST_PANELS = 8
_MOST_LAYERS_WITH_TEXT = 16
_WIDTH, _MAP_WIDTH, _HEIGHT = 3.9, 2.9, 2.9
"""Inches of a panel."""
_PAGE_WIDTH = 8.8
_X_TITLES: Mapping[SparsityKind, str] = {
    "gated": "Gated sparsity (%)",
    "net": "Net sparsity (%)",
    "target": "Target sparsity (%)",
}
_USUAL_END, _MARGIN = 75.0, 2.0
"""End of the x axis unless a point lies beyond it, and room around such points, in percent."""


class _PlotPoint(NamedTuple):
    x: float
    """Measured or target sparsity in percent."""
    ours: float | None
    interval: tuple[float, float] | None
    """95 % confidence interval."""
    nominal: float
    """Target sparsity of the published number in percent."""
    paper: float | None


@dataclass(frozen=True)
class Figure:
    """One plot."""

    name: str
    """Part of the file's name."""
    title: str
    caption: str
    """Description, also for readers who do not see the plot."""
    panels: Panels
    svg: str
    """Inline SVG, its ink `currentColor`."""


def figures(store: Store, findings: Findings) -> tuple[Figure, ...]:
    """Return the study's plots, as far as there are numbers for them. Loads matplotlib."""
    found = [_frontier(findings), _front(store, findings), _heatmaps(store, findings), _latency(findings)]
    return tuple(figure for figure in found if figure is not None)


def _frontier(findings: Findings) -> Figure | None:
    """Plot values against sparsity: a panel for each model (or network), a line for each configuration, the paper's
    dashed."""
    chosen = _plotted(findings)
    weights = dict.fromkeys((run.model, run.quantization) for run in findings.runs)
    plots = [
        (model, bits, measure, lines)
        for model, bits in weights
        for measure in chosen
        if (lines := _lines(findings, model, bits, measure))
    ][:_MOST_PANELS]
    if not plots:
        return None
    points = [point for *_, lines in plots for line in lines.values() for point in line.points]
    x_range = _x_range(points)
    panels = []
    for model, bits, measure, lines in plots:
        title = model if len(chosen) == 1 else f"{model} {measure.title}" if findings.tasks else measure.title
        series = tuple(one for name, line in lines.items() for one in _series(name, line, x_range))
        panels.append(
            LinePanel(
                title=", ".join(filter(None, (title, printed_quantization(bits)))),
                x_title=_X_TITLES[findings.by],
                y_title=_unit(findings, measure),
                x_range=x_range,
                y_range=_range(y for one in series for y in (*one.y, *one.low, *one.high)),
                series=series,
            )
        )
    notes = [f"{', '.join(dict.fromkeys(measure.title for _, _, measure, _ in plots))} against {findings.by} sparsity"]
    notes += ["error bars are 95 % intervals"] if any(point.interval for point in points) else []
    if any(point.paper is not None for point in points):
        notes.append("dashed lines are the published numbers, at the paper's nominal sparsity")
    return _figure("frontier", "Frontier", f"{'; '.join(notes)}.", panels, _WIDTH)


def _x_range(points: Sequence[_PlotPoint]) -> tuple[float, float]:
    """Return the usual range, widened by what would lie outside."""
    low, high = min(point.x for point in points), max(point.x for point in points)
    return (0.0 if low >= 0 else low - _MARGIN), max(_USUAL_END, high + _MARGIN)


def _range(values: Iterable[float]) -> tuple[float, float]:
    """Return a range with some room around values."""
    known = list(values)
    low, high = min(known), max(known)
    room = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    return low - room, high + room


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
    """Return the measure that sums the study up: its mean, else all of them, else the KL from the
    original, or from the model without gates."""
    found = measures(findings)
    means = tuple(measure for measure in found if measure.weights is not None)
    if means or found:
        return means or found
    evaluation = findings.study.evaluation
    if evaluation.original:
        return (Measure(ORIGINAL, "KL from the original (nats per token)", "kl"),)
    return (Measure(FIDELITY, "KL (nats per token)", "kl"),) if evaluation.fidelity else ()


def _lines(findings: Findings, model: str, bits: str, measure: Measure) -> Mapping[str, _Line]:
    """Return the line of each configuration with any number."""
    runs = [run for run in findings.runs if (run.model, run.quantization) == (model, bits)]
    several = len({run.allocation for run in runs if not run.is_dense}) > 1
    names = {
        run.run: f"{run.configuration}, {run.allocation}" if several and not run.is_dense else run.configuration
        for run in runs
    }
    looks = _looks(runs, names)
    found: dict[str, _Line] = {}
    for name in dict.fromkeys(names.values()):
        members = sorted((run for run in runs if names[run.run] == name), key=lambda run: sparsity_of(run, findings.by))
        points = tuple(_plot_point(findings, run, measure) for run in members)
        if any(point.ours is not None or point.paper is not None for point in points):
            found[name] = _Line(*looks[name], members[0].is_dense, points)
    return found


def _looks(runs: Sequence[StudyRun], names: Mapping[str, str]) -> Mapping[str, tuple[str, str]]:
    """Return colour and marker of every line: the method's own colour for its first, further ones for others."""
    looks: dict[str, tuple[str, str]] = {}
    taken: set[str] = set()
    for run in runs:
        name = names[run.run]
        if name not in looks:
            own = _INK if run.is_dense else method_colour(run.method)
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


def _series(name: str, line: _Line, x_range: tuple[float, float]) -> list[Series]:
    """Return a configuration's own values and the published ones; of the dense model as lines across the plot."""
    ours = [point for point in line.points if point.ours is not None]
    published = sorted((point.nominal, point.paper) for point in line.points if point.paper is not None)
    found = []
    if line.dense:
        found += [Series(name, line.colour, x_range, (ours[0].ours,) * 2)] if ours and ours[0].ours is not None else []
        found += [Series("", line.colour, x_range, (published[0][1],) * 2, line="dash")] if published else []
        return found
    if ours:
        y = tuple(point.ours for point in ours if point.ours is not None)
        ends = [point.interval or (value, value) for point, value in zip(ours, y, strict=True)]
        low, high = zip(*ends, strict=True)
        x = tuple(point.x for point in ours)
        found.append(Series(name, line.colour, x, y, low, high, line.marker, size=6))
    if published:
        x, y = zip(*published, strict=True)
        label = "" if ours else f"{name} (paper)"
        found.append(Series(label, line.colour, x, y, marker=line.marker, line="dash", hollow=True, size=5))
    return found


def _front(store: Store, findings: Findings) -> Figure | None:
    """Plot the KL from the original against cost, over all bits and rotations of a model."""
    panels = front_panels(store, findings, _INK)
    if not panels:
        return None
    costs = ", ".join(dict.fromkeys(panel.x_title.lower() for panel in panels))
    caption = (
        f"KL from the original against {costs}; the dashed line is the Pareto front, dominated configurations are "
        "faded; error bars are standard errors."
    )
    return _figure("front", "Quality against cost", caption, panels, _WIDTH)


def _heatmaps(store: Store, findings: Findings) -> Figure | None:
    """Plot measured sparsity over layers and projections of the first model's configurations, at the highest target."""
    maps = _maps(store, findings)
    if not maps:
        return None
    panels = [sparsity_panel(title, found.projections, found.values, "Measured sparsity (%)") for title, found in maps]
    ranges = []
    for panel in panels:
        known = [value for row in panel.values for value in row if value == value]
        ranges.append(f"{panel.title}, {min(known):.1f} to {max(known):.1f} %")
    caption = f"Measured sparsity of every matrix, from the masks: {'; '.join(ranges)}."
    return _figure("layers", "Sparsity by layer", caption, panels, _MAP_WIDTH)


def sparsity_panel(
    title: str, projections: tuple[str, ...], fractions: Sequence[Sequence[float]], quantity: str
) -> MapPanel:
    """Draw fractions [layer][projection] as a map in percent, NaN for no data."""
    from cmap import Colormap

    colours = tuple(colour.hex for colour in Colormap("viridis").iter_colors(32))
    values = tuple(tuple(100 * value for value in row) for row in fractions)
    with_text = len(values) <= _MOST_LAYERS_WITH_TEXT
    texts = tuple(tuple(f"{value:.0f}" if with_text else "" for value in row) for row in values)
    return MapPanel(
        title, tuple(map(str, range(len(values)))), projections, values, texts, quantity, 0.0, 100.0, colours
    )


def _maps(store: Store, findings: Findings) -> list[tuple[str, LayerMap]]:
    found: list[tuple[str, LayerMap]] = []
    sparse = [run for run in findings.runs if not run.is_dense]
    highest = max((run.target_sparsity for run in sparse), default=0.0)
    first = [run for run in sparse if (run.model, run.quantization) == (sparse[0].model, sparse[0].quantization)]
    for run in first:
        layers = store.layer_map(run.run) if run.target_sparsity == highest and len(found) < _MOST_MAPS else None
        if layers is not None:
            spread = "" if run.allocation == "uniform" else f", {run.allocation}"
            found.append((f"{run.configuration}{spread}, target {100 * run.target_sparsity:.4g} %", layers))
    return found


def _latency(findings: Findings) -> Figure | None:
    """Plot the speed-up against sparsity: a panel for each shape and method, a line for each batch."""
    by_target = findings.by == "target"
    groups: dict[str, dict[int, list[LatencyRow]]] = {}
    for row in findings.latency:
        if row.method != "dense":
            title = f"{row.method}, {row.outputs}x{row.inputs}, {row.dtype}, {row.backend}"
            groups.setdefault(title, {}).setdefault(row.batch, []).append(row)
    panels = []
    for title, batches in list(groups.items())[:_MOST_PANELS]:
        series = []
        for place, (batch, rows) in enumerate(sorted(batches.items())):
            points = sorted((100 * (row.sparsity if by_target else row.measured_sparsity), row.speedup) for row in rows)
            x, y = zip(*points, strict=True)
            colour, marker = _FURTHER[place % len(_FURTHER)], _MARKERS[place % len(_MARKERS)]
            series.append(Series(f"batch {batch}", colour, x, y, marker=marker, size=6))
        panels.append(
            LinePanel(
                title=title,
                x_title="Target sparsity (%)" if by_target else "Measured sparsity (%)",
                y_title="Speed-up over dense",
                x_range=_range(x for one in series for x in one.x),
                y_range=_range((1.0, *(y for one in series for y in one.y))),
                series=tuple(series),
                references=(("dense", _INK, 1.0),),
            )
        )
    if not panels:
        return None
    kind = "target" if by_target else "measured"
    caption = f"Speed-up of each sparse product over PyTorch's dense one against {kind} sparsity, a line per batch."
    return _figure("speed-up", "Speed-up", caption, panels, _WIDTH)


def _figure(name: str, title: str, caption: str, panels: Sequence[LinePanel | MapPanel], width: float) -> Figure:
    """Draw panels, at most two in a row or three narrow ones."""
    from wina_core.report.drawing.renderer import render  # loads matplotlib, which takes a second

    across = min(len(panels), int(_PAGE_WIDTH / width))
    size = (width * across, _HEIGHT * -(-len(panels) // across))
    style = Style(*size, _INK, _INK, grid=f"{_INK}40", surface="none", across=across, titled=True)
    svg = render(tuple(panels), style, "svg").decode()
    return Figure(name, title, caption, tuple(panels), _inline(svg, name))


def _inline(svg: str, name: str) -> str:
    """Drop what only a file of its own needs, and make the ids unique on a page with other plots."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r'(href="#|url\(#)', rf"\g<1>{name}-", svg)
    return svg.replace(_INK, "currentColor")
