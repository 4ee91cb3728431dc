"""A report's figures: quality against sparsity and against cost, sparsity by layer, speed-ups."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wina_core.analysis.comparison.axes import AXES, CostAxis, Quality, front_steps
from wina_core.analysis.comparison.frontier import frontier_points, originals
from wina_core.analysis.comparison.study_runs import StudyRun
from wina_core.analysis.results.measured import SparsityKind, sparsity_of
from wina_core.records import METRIC_UNITS, LatencyRecord
from wina_core.report.drawing import Figure, FigureStyle, LinePanel, MapPanel, Series, render
from wina_core.report.findings import Findings
from wina_core.report.layout import ReportMeasure, measured_value, measures, published_number
from wina_core.specs import FIDELITY, ORIGINAL, printed_quantization
from wina_core.specs.methods import method_colour
from wina_core.store import Store
from wina_core.store.metric_frames import metrics_frame
from wina_core.studies.published import base_metric

if TYPE_CHECKING:
    import pandas as pd

_INK = FigureStyle.text
_FURTHER_COLOURS = ("#7A7ADB", "#1B9E77", "#D95F02", "#C0578A", "#66A61E", "#A6761D")
_MARKERS = "osD^vPX*<>"
_BITS_MARKERS = "os^Dv*Ph"
"""Markers by bits; unquantized configurations have the first."""
_FADED = "59"
"""Opacity of dominated points, as two hex digits."""
_COSTS: tuple[CostAxis, ...] = ("bytes_read", "bits_read")
"""Costs to plot against: the first that the study counted."""
_MAX_MAPS = 6
_MAX_PANELS = 8
_MAX_LAYERS_WITH_TEXT = 16
_PANEL_WIDTH, _MAP_WIDTH, _PANEL_HEIGHT = 3.7, 2.7, 2.8
_LEGEND_WIDTH = 1.3
_PAGE_WIDTH = 8.8
"""Widths and heights are in inches."""
_X_TITLES: Mapping[SparsityKind, str] = {
    "gated": "Gated sparsity (%)",
    "net": "Net sparsity (%)",
    "target": "Target sparsity (%)",
}
_USUAL_END = 75.0
"""End of the x axis in percent, unless a point lies beyond it."""


@dataclass(frozen=True)
class ReportFigure:
    """One figure of a report."""

    name: str
    """Part of the file's name."""
    title: str
    caption: str
    """Description, also for readers who do not see the figure."""
    panels: Figure
    svg: bytes


def figures(store: Store, findings: Findings) -> tuple[ReportFigure, ...]:
    """Return the study's figures, as far as there are numbers for them. Loads matplotlib."""
    drawn = [_frontier(findings), _front(store, findings), _layer_maps(store, findings), _latency(findings)]
    return tuple(figure for figure in drawn if figure is not None)


def _draw(name: str, title: str, caption: str, panels: Sequence[LinePanel | MapPanel]) -> ReportFigure:
    """Draw panels, at most two in a row, or three maps."""
    is_map = isinstance(panels[0], MapPanel)
    width, side = (_MAP_WIDTH, 0.6) if is_map else (_PANEL_WIDTH, _LEGEND_WIDTH)
    across = min(len(panels), int(_PAGE_WIDTH / width))
    height = _PANEL_HEIGHT * -(-len(panels) // across)
    style = FigureStyle(width * across + side, height, across=across, titled=True)
    return ReportFigure(name, title, caption, tuple(panels), render(tuple(panels), style, "svg", title=title))


def _range(values: Iterable[float]) -> tuple[float, float]:
    """Return a range with some room around values."""
    numbers = list(values)
    low, high = min(numbers), max(numbers)
    room = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    return low - room, high + room


# ---- quality against sparsity ----------------------------------------------------------------------------------


def _frontier(findings: Findings) -> ReportFigure | None:
    """Plot values against sparsity: a panel for each model (or network), a line for each configuration, the paper's
    dashed."""
    chosen = _summarizing(findings)
    models = dict.fromkeys((run.model, run.quantization) for run in findings.runs)
    plots = [
        (model, bits, measure, series)
        for model, bits in models
        for measure in chosen
        if (series := _configuration_series(findings, model, bits, measure))
    ][:_MAX_PANELS]
    if not plots:
        return None
    drawn = [one for *_, series in plots for one in series]
    x = [value for one in drawn if one.marker for value in one.x] or [0.0]
    x_range = min(0.0, 1.05 * min(x)), max(_USUAL_END, 1.05 * max(x))
    panels = []
    for model, bits, measure, series in plots:
        title = model if len(chosen) == 1 else f"{model} {measure.title}" if findings.tasks else measure.title
        panels.append(
            LinePanel(
                title=", ".join(filter(None, (title, printed_quantization(bits)))),
                x_title=_X_TITLES[findings.by],
                y_title=_y_title(findings, measure),
                x_range=x_range,
                y_range=_range(y for one in series for y in (*one.y, *one.low, *one.high)),
                series=series,
            )
        )
    notes = [f"{', '.join(dict.fromkeys(measure.title for _, _, measure, _ in plots))} against {findings.by} sparsity"]
    notes += ["error bars are 95 % intervals"] if any(one.low != one.high for one in drawn) else []
    if any(one.line == "dash" for one in drawn):
        notes.append("dashed lines are the published numbers, at the paper's nominal sparsity")
    return _draw("frontier", "Frontier", f"{'; '.join(notes)}.", panels)


def _summarizing(findings: Findings) -> tuple[ReportMeasure, ...]:
    """Return the measure that sums the study up: its mean, else all of them, else the KL from the
    original, or from the model without gates."""
    main = measures(findings)
    evaluation = findings.study.evaluation
    if main:
        return tuple(measure for measure in main if measure.weights is not None) or main
    if evaluation.original:
        return (ReportMeasure(ORIGINAL, "KL from the original (nats per token)", "kl"),)
    return (ReportMeasure(FIDELITY, "KL (nats per token)", "kl"),) if evaluation.fidelity else ()


def _y_title(findings: Findings, measure: ReportMeasure) -> str:
    if measure.weights is not None:
        return f"{measure.title} (%)"
    metric = base_metric(measure.metric) or findings.metric_title(measure.task)
    unit = METRIC_UNITS.get(metric, "")
    return f"{metric} ({'%' if unit == 'fraction' else unit})" if unit else metric


def _configuration_series(findings: Findings, model: str, bits: str, measure: ReportMeasure) -> tuple[Series, ...]:
    """Return the lines of a model's configurations, in the method's colour or, where that is taken, a further one;
    none where all of them are published ones."""
    runs = [run for run in findings.runs if (run.model, run.quantization) == (model, bits)]
    by_name: dict[str, list[StudyRun]] = {}
    for run in runs:
        by_name.setdefault(_configuration_name(run, runs), []).append(run)
    series: list[Series] = []
    used_colours: set[str] = set()
    for index, (name, members) in enumerate(by_name.items()):
        usual = _INK if members[0].is_dense else method_colour(members[0].method)
        spare = next((colour for colour in _FURTHER_COLOURS if colour not in used_colours), _INK)
        colour = usual if usual and usual not in used_colours else spare
        used_colours.add(colour)
        series += _line(findings, measure, name, members, colour, _MARKERS[index % len(_MARKERS)])
    is_measured = any(one.line != "dash" for one in series)
    return tuple(series) if is_measured else ()


def _configuration_name(run: StudyRun, runs: Sequence[StudyRun]) -> str:
    allocations = {other.allocation for other in runs if other.configuration == run.configuration}
    return f"{run.configuration}, {run.allocation}" if len(allocations) > 1 else run.configuration


def _line(
    findings: Findings, measure: ReportMeasure, name: str, runs: Sequence[StudyRun], colour: str, marker: str
) -> list[Series]:
    """Return a configuration's values and the published ones; of the dense model as lines across the plot."""
    points: list[tuple[float, float, float, float]] = []
    published: list[tuple[float, float]] = []
    for run in runs:
        value, _ = measured_value(findings, run, measure)
        paper, _ = published_number(findings, run, measure, value)
        if value is not None:
            low, high = value.interval or (value.value, value.value)
            points.append((100 * sparsity_of(run, findings.by), value.value, low, high))
        if paper is not None:
            published.append((100 * run.target_sparsity, paper))
    across = (-100.0, 100.0)  # matplotlib clips it at the ends of the axis
    series = []
    if points and runs[0].is_dense:
        series.append(Series(name, colour, across, (points[0][1],) * 2))
    elif points:
        x, y, low_ends, high_ends = zip(*sorted(points), strict=True)
        series.append(Series(name, colour, x, y, low_ends, high_ends, marker, size=6))
    if published and runs[0].is_dense:
        series.append(Series("", colour, across, (published[0][1],) * 2, line="dash"))
    elif published:
        x, y = zip(*sorted(published), strict=True)
        label = "" if points else f"{name} (paper)"
        series.append(Series(label, colour, x, y, marker=marker, line="dash", hollow=True, size=5))
    return series


# ---- quality against cost --------------------------------------------------------------------------------------


def _front(store: Store, findings: Findings) -> ReportFigure | None:
    """Plot the KL from the original against cost, over all bits and rotations of a model."""
    panels = front_panels(store, findings)
    if not panels:
        return None
    costs = ", ".join(dict.fromkeys(panel.x_title[:1].lower() + panel.x_title[1:] for panel in panels))
    caption = (
        f"KL from the original against {costs}; the dashed line is the Pareto front, dominated configurations are "
        "faded; error bars are standard errors."
    )
    return _draw("front", "Quality against cost", caption, panels)


def front_panels(store: Store, findings: Findings) -> tuple[LinePanel, ...]:
    """Return a panel for each original of the study with two configurations or more; none where their KL from the
    original was not measured."""
    if not findings.study.evaluation.original:
        return ()
    metrics = metrics_frame(findings.rows)
    present = set(metrics["model_hash"])
    sources = {key: source for key, source in store.model_sources().items() if key in present}
    panels = []
    for model, name in originals(sources).items():
        for axis in _COSTS:
            points = frontier_points(metrics, sources, model, Quality(), axis)
            if len(points) > 1:
                panels.append(front_panel(name, points, axis))
                break
    return tuple(panels)


def front_panel(title: str, points: "pd.DataFrame", axis: CostAxis, quality: Quality | None = None) -> LinePanel:
    """Draw `frontier_points` of a quality, by default the KL from the original, with the steps of their front."""
    is_usual, points = quality in (None, Quality()), points.sort_values("x")
    quality = quality or Quality()
    points = points.assign(y=[quality.height(value) for value in points["y"]])
    on_front = points[points["front"]]
    steps = front_steps(list(zip(on_front["x"], on_front["y"], strict=True)), x_up=AXES[axis].higher_is_better)
    series = [Series("Pareto front", _INK, *steps, line="dash")]
    markers = dict(zip(dict.fromkeys(("", *points["bits"])), _BITS_MARKERS * 9, strict=False))
    for _, rows in points.groupby(["bits", "method", "front"], sort=False):
        first = next(rows.itertuples())
        bits, method, front = str(first.bits), str(first.method), bool(first.front)
        colour = _INK if method == "dense" else method_colour(method.split(" ")[0]) or _INK
        named = front or not ((points["bits"] == bits) & (points["method"] == method) & points["front"]).any()
        name = ", ".join(filter(None, (bits, method))) or "imported"
        errors: Any = rows["stderr"].astype(float).fillna(0.0)
        # A logarithmic axis has no place for ends at or below 0.
        low = tuple(max(value - error, value / 10) for value, error in zip(rows["y"], errors, strict=True))
        high = tuple(value + error for value, error in zip(rows["y"], errors, strict=True))
        colour, x, y = colour + ("" if front else _FADED), tuple(rows["x"]), tuple(rows["y"])
        series.append(Series(name, colour, x, y, low, high, markers[bits], "none", named=bool(named), size=6))
    values, low_y, high_y = points["x"], float(points["y"].min()), float(points["y"].max())
    room, height = 0.3 * (float(values.max() - values.min()) or 1.0), 0.3 * (high_y - low_y or 1.0)
    is_log = quality.is_divergence
    return LinePanel(
        title=title,
        x_title=AXES[axis].label,
        y_title="KL from the original (nats per token)" if is_usual else quality.title,
        x_range=(float(values.min()) - room, float(values.max()) + room),
        y_range=(low_y / 1.3, high_y * 1.3) if is_log else (low_y - height, high_y + height),
        series=tuple(series),
        log_y=is_log,
    )


# ---- layers and latency ----------------------------------------------------------------------------------------


def _layer_maps(store: Store, findings: Findings) -> ReportFigure | None:
    """Plot measured sparsity over layers and projections of the first model's configurations, at the highest target."""
    sparse = [run for run in findings.runs if not run.is_dense]
    highest = max((run.target_sparsity for run in sparse), default=0.0)
    panels: list[MapPanel] = []
    for run in sparse:
        of_first_model = (run.model, run.quantization) == (sparse[0].model, sparse[0].quantization)
        if not of_first_model or run.target_sparsity != highest or len(panels) == _MAX_MAPS:
            continue
        if layers := store.layer_map(run.run):
            title = f"{_configuration_name(run, sparse)}, target {100 * run.target_sparsity:.4g} %"
            panels.append(sparsity_panel(title, layers.projections, layers.values, "Measured sparsity (%)"))
    if not panels:
        return None
    ranges = []
    for panel in panels:
        measured = [value for row in panel.values for value in row if value == value]
        ranges.append(f"{panel.title}, {min(measured):.1f} to {max(measured):.1f} %")
    caption = f"Measured sparsity of every matrix, from the masks: {'; '.join(ranges)}."
    return _draw("layers", "Sparsity by layer", caption, panels)


def sparsity_panel(
    title: str, projections: tuple[str, ...], fractions: Sequence[Sequence[float]], quantity: str
) -> MapPanel:
    """Draw fractions [layer][projection] as a map in percent, NaN for no data."""
    from matplotlib import colormaps, colors

    viridis = colormaps["viridis"]
    colours = tuple(colors.to_hex(viridis(step / 31)) for step in range(32))
    values = tuple(tuple(100 * value for value in row) for row in fractions)
    with_text = len(values) <= _MAX_LAYERS_WITH_TEXT
    texts = tuple(tuple(f"{value:.0f}" if with_text else "" for value in row) for row in values)
    rows = tuple(map(str, range(len(values))))
    return MapPanel(title, rows, projections, values, texts, quantity, 0.0, 100.0, colours)


def _latency(findings: Findings) -> ReportFigure | None:
    """Plot the speed-up against sparsity: a panel for each shape and method, a line for each batch."""
    kind = "target" if findings.by == "target" else "measured"
    groups: dict[str, dict[int, list[LatencyRecord]]] = {}
    for record in (row.record for row in findings.latency):
        point = record.point
        if point.method != "dense":
            title = f"{point.method}, {point.shape.label}, {point.dtype}, {point.backend}"
            groups.setdefault(title, {}).setdefault(point.batch, []).append(record)
    panels = []
    for title, batches in list(groups.items())[:_MAX_PANELS]:
        series = []
        for index, (batch, records) in enumerate(sorted(batches.items())):
            points = sorted(
                (100 * (one.point.sparsity if kind == "target" else one.measured_sparsity), one.speedup)
                for one in records
            )
            x, y = zip(*points, strict=True)
            colour, marker = _FURTHER_COLOURS[index % len(_FURTHER_COLOURS)], _MARKERS[index % len(_MARKERS)]
            series.append(Series(f"batch {batch}", colour, x, y, marker=marker, size=6))
        panels.append(
            LinePanel(
                title=title,
                x_title=f"{kind.capitalize()} sparsity (%)",
                y_title="Speed-up over dense",
                x_range=_range(x for one in series for x in one.x),
                y_range=_range((1.0, *(y for one in series for y in one.y))),
                series=tuple(series),
                references=(("dense", _INK, 1.0),),
            )
        )
    if not panels:
        return None
    caption = f"Speed-up of each sparse product over PyTorch's dense one against {kind} sparsity, a line per batch."
    return _draw("speed-up", "Speed-up", caption, panels)
