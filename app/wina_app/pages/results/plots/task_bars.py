"""Bars of tasks: every task's metric of each configuration's run nearest to one measured sparsity."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor

from wina_app.pages.results.plots.frontier import first_offered, models
from wina_app.pages.results.plots.panel import PlotPanel, left_out_note
from wina_app.pages.results.runs import Scope, name_runs
from wina_app.plots.data_plot import UNBOUNDED, DataPlot
from wina_app.plots.plot_items import Trace
from wina_app.shared.measured_sparsity import RunSparsity, mean_sparsity, sparsity_name, sparsity_parts
from wina_app.style.number_format import percent
from wina_app.style.theme import method_colour
from wina_app.widgets.combo_box import ComboBox
from wina_core.analysis.results.columns import WARNING
from wina_core.analysis.results.measured import (
    DEFAULT_COUNT,
    Count,
    SparsityRow,
    differ,
    difference_text,
    sparsity_of,
)
from wina_core.records import METRIC_UNITS
from wina_core.records.texts import count_text, error_text, number
from wina_core.specs import DENSE, OWN_UNITS
from wina_core.store.metric_frames import metric_rows_of
from wina_core.studies.published import base_metric, preferred_metric

if TYPE_CHECKING:  # SQLAlchemy takes a second to import: only the store's thread does
    import pandas as pd

    from wina_core.store import MetricRow

OWN_METRIC = ""
"""Each task's preferred one of its fractions; tasks without a fraction are left out."""
MOST_ARMS = 24
"""Most bars beside each other."""
_FIRST_CHOICE = 0.5


@dataclass(frozen=True)
class TaskBar:
    """One run on one task."""

    task: int
    """Index of the task."""
    metric: str
    value: float
    stderr: float | None
    n: int | None
    paper: float | None
    """The published value of the same cell, in stored units."""
    sparsity: RunSparsity | None = None
    """Measured on this task; None for the dense model."""


@dataclass(frozen=True)
class BarConfiguration:
    """One run's bars."""

    run: str
    name: str
    label: str
    """Name with measured and target sparsity, and a warning sign where the run misses the chosen one."""
    method: str
    """Method's name, for the colour."""
    bars: tuple[TaskBar, ...]


@dataclass(frozen=True)
class BarChart:
    """All bars at one sparsity."""

    metric: str
    """Title of the y axis, with its unit."""
    sparsity: float
    """The chosen sparsity."""
    tasks: tuple[str, ...]
    configurations: tuple[BarConfiguration, ...]
    dense: tuple[TaskBar, ...]
    """Bars of the dense model, where it was evaluated."""
    left_out: int = 0
    """Configurations beyond the most that are drawn."""
    count: Count = DEFAULT_COUNT
    """Kind of measured sparsity that is compared with the chosen one."""


def bar_metrics(table: "pd.DataFrame") -> list[str]:
    """Return the choices of the y axis: each task's own metric if any is a fraction, and every metric."""
    of_tasks = table.loc[~table["unit"].isin(list(OWN_UNITS)), "metric"].unique()
    own_metric = [OWN_METRIC] if any(map(_is_fraction, of_tasks)) else []
    return own_metric + sorted(table["metric"].unique())


def bar_sparsities(table: "pd.DataFrame", model: str) -> list[float]:
    """Return the targets of a model's runs in rising order."""
    sparse = table[(table["model_hash"] == model) & (table["method"] != DENSE.name)]
    return sorted({_rounded(row) for row in metric_rows_of(sparse.drop_duplicates("run"))})


def first_sparsity(offered: Sequence[float]) -> float | None:
    """Return the sparsity nearest to one half."""
    return min(offered, key=lambda sparsity: abs(sparsity - _FIRST_CHOICE), default=None)


class BarChoices(NamedTuple):
    """Metrics and sparsities that are offered, and those that are shown."""

    metrics: Sequence[str]
    metric: str | None
    sparsities: Sequence[float]
    sparsity: float | None


def bars_of(
    table: "pd.DataFrame",
    metrics: Iterable[str | None],
    sparsities: Iterable[float | None],
    model: str,
    scope: Scope | None,
    count: Count,
) -> tuple[dict[str, str], str, BarChoices, BarChart | None]:
    """Return the models by their hashes, the shown one, the choices, and the bars.

    Metric and sparsity are the first of the given ones that are offered, or else the usual ones.
    """
    named, offered_metrics = models(table), bar_metrics(table)
    model = model if model in named else next(iter(named), "")
    metric = first_offered(metrics, offered_metrics) or next(iter(offered_metrics), None)
    offered = bar_sparsities(table, model)
    sparsity = first_offered(sparsities, offered)
    sparsity = first_sparsity(offered) if sparsity is None else sparsity
    chart = None if metric is None else bar_chart(table, model, metric, sparsity or 0.0, scope, count)
    return named, model, BarChoices(offered_metrics, metric, offered, sparsity), chart


def bar_chart(
    table: "pd.DataFrame",
    model: str,
    metric: str,
    sparsity: float,
    scope: Scope | None,
    count: Count = DEFAULT_COUNT,
) -> BarChart:
    """Return one model's bars from exactly the given rows: of each configuration the run measured nearest to
    `sparsity`."""
    of_model = table[table["model_hash"] == model]
    chosen = _chosen_metrics(metric_rows_of(of_model.drop_duplicates(["task", "metric", "unit"])), metric)
    rows = metric_rows_of(of_model[of_model["metric"].isin(list(chosen.values()))])
    dense = [row for row in rows if row.method == DENSE.name]
    sparse = [row for row in rows if row.method != DENSE.name]
    sparse, dense = ([row for row in group if chosen.get(row.task) == row.metric] for group in (sparse, dense))
    by_run = _nearest_runs(sparse, sparsity, scope, count)
    tasks = tuple(sorted({row.task for rows in by_run.values() for row in rows} or {row.task for row in dense}))
    runs = list(by_run)[:MOST_ARMS]
    names = _names([by_run[run][0] for run in runs], scope)
    configurations = [
        _configuration(name, by_run[run], sparsity, _bars(by_run[run], tasks, scope), count)
        for run, name in zip(runs, names, strict=True)
    ]
    title = "own metric (fraction)" if metric == OWN_METRIC else _with_unit(metric)
    left_out = len(by_run) - len(runs)
    # `once`: no sparsity decides between several dense runs, so the first counts.
    return BarChart(
        title, sparsity, tasks, tuple(configurations), _bars(dense, tasks, scope, once=True), left_out, count
    )


def _nearest_runs(
    rows: "Iterable[MetricRow]", sparsity: float, scope: Scope | None, count: Count
) -> "dict[str, list[MetricRow]]":
    """Return the rows of each configuration's run nearest to a sparsity, by its hash; of equal ones the latest."""
    configurations: dict[tuple[str, ...], dict[str, list[MetricRow]]] = {}
    for row in rows:
        named = scope.configurations.get(row.run, "") if scope is not None else ""
        configuration = (named, row.method, row.rotation, row.selection, row.plan, row.settings)
        configurations.setdefault(configuration, {}).setdefault(row.run, []).append(row)

    def distance(of_run: "list[MetricRow]") -> tuple[float, float]:
        apart = abs(sparsity_of(mean_sparsity(of_run), count) - sparsity)
        # Rounded, or noise in the last digit would decide between equal sparsities in place of the date.
        return round(apart, 9), -max(row.finished for row in of_run)

    nearest = (min(runs.values(), key=distance) for runs in configurations.values())
    return {rows[0].run: rows for rows in nearest}


def _configuration(
    name: str, rows: "Sequence[MetricRow]", sparsity: float, bars: tuple[TaskBar, ...], count: Count
) -> BarConfiguration:
    mean, method = mean_sparsity(rows), rows[0].method.partition(" ")[0]
    reached = sparsity_of(mean, count)
    sign = f" {WARNING} " if differ(reached, sparsity) else ", "
    label = f"{name}{sign}{sparsity_name(mean, count)}"
    return BarConfiguration(rows[0].run, name, label, method, bars)


def bar_readout(name: str, chart: BarChart, bar: TaskBar) -> str:
    """Describe one bar in one line."""
    value = number(bar.value) + (f" ± {error_text(bar.stderr)}" if bar.stderr is not None else "")
    unit = METRIC_UNITS.get(base_metric(bar.metric), "")
    texts = [name, f"{chart.tasks[bar.task]}: {bar.metric} {value}" + (f" ({unit})" if unit else "")]
    if bar.n is not None:
        texts.append(f"n {count_text(bar.n)}")
    if bar.sparsity is not None:
        texts += sparsity_parts(bar.sparsity, chart.count)
        flag = difference_text(sparsity_of(bar.sparsity, chart.count), chart.sparsity)
        if flag and _rounded(bar.sparsity) != chart.sparsity:  # else the miss of its target says it already
            texts.append(f"{WARNING} {flag} than {percent(chart.sparsity)}")
    if bar.paper is not None:
        texts.append(f"paper {number(bar.paper)}")
    return "  \N{MIDDLE DOT}  ".join(texts)


def _bars(
    rows: "Iterable[MetricRow]", tasks: Sequence[str], scope: Scope | None, *, once: bool = False
) -> tuple[TaskBar, ...]:
    by_task: dict[str, TaskBar] = {}
    for row in rows:
        if row.task in tasks and not (once and row.task in by_task):
            paper = scope.paper_value(row) if scope is not None and scope.paper else None
            sparsity = None if row.method == DENSE.name else mean_sparsity([row])
            task = tasks.index(row.task)
            by_task[row.task] = TaskBar(task, row.metric, row.value, row.stderr, row.n, paper, sparsity)
    return tuple(by_task[task] for task in tasks if task in by_task)


def _chosen_metrics(rows: "Iterable[MetricRow]", metric: str) -> dict[str, str]:
    """Return the metric of each task's bars, without the tasks that have none."""
    if metric != OWN_METRIC:
        return {row.task: metric for row in rows if row.metric == metric}
    offered: dict[str, dict[str, None]] = {}
    for row in rows:
        if row.unit not in OWN_UNITS and _is_fraction(row.metric):
            offered.setdefault(row.task, {})[row.metric] = None
    preferred = {task: preferred_metric(tuple(metrics)) for task, metrics in offered.items()}
    return {task: name for task, name in preferred.items() if name is not None}


def _names(rows: "Sequence[MetricRow]", scope: Scope | None) -> Sequence[str]:
    configurations = [scope.configurations[row.run] for row in rows] if scope is not None else []
    return (
        configurations
        if configurations and len(set(configurations)) == len(configurations)
        else name_runs(rows, with_sparsity=False)
    )


def _is_fraction(metric: str) -> bool:
    return METRIC_UNITS.get(base_metric(metric)) == "fraction"


def _with_unit(metric: str) -> str:
    unit = METRIC_UNITS.get(base_metric(metric))
    return f"{metric} ({unit})" if unit else metric


def _rounded(row: SparsityRow) -> float:
    return round(row.target_sparsity, 3)


_GROUP = 0.8
"""Largest part of a task's place for its bars."""
_WIDEST = 0.2
"""Widest bar, in tasks' places."""
_SHADES = (100, 130, 160, 80, 190)
"""Darkness in percent of further configurations of one method."""


class BarsPlot(DataPlot):
    """Bars with the method as hue, the configuration as shade, and published values as hollow markers."""

    _chart: BarChart | None = None

    def __init__(self) -> None:
        super().__init__("Tasks: a metric of every task")
        self.getPlotItem().showGrid(x=False, y=True)

    def show_chart(self, chart: BarChart | None) -> None:
        """Draw the bars; None clears the plot."""
        before, self._chart = self._chart, chart
        if chart is None:
            self.set_ticks(())
            self.show_traces(())
            return
        self._show(chart)
        if before is None or (before.metric, before.tasks, before.sparsity) != (
            chart.metric,
            chart.tasks,
            chart.sparsity,
        ):
            self.reset_zoom()

    def reset_zoom(self) -> None:
        """Show all tasks, and the bars from 0 on."""
        super().reset_zoom()
        if self._chart is not None and self._chart.tasks:
            self.show_range(x=(-0.5, len(self._chart.tasks) - 0.5))

    def _restyle(self) -> None:
        super()._restyle()
        if self._chart is not None:
            self._show(self._chart)  # the reference's colour depends on the appearance

    def _show(self, chart: BarChart) -> None:
        self.set_axes("", chart.metric)
        self.getPlotItem().showGrid(x=False, y=True)  # `set_axes` has drawn the vertical lines again
        self.set_ticks(tuple(enumerate(chart.tasks)))
        width = min(_GROUP / max(len(chart.configurations), 1), _WIDEST)
        bars = [
            self._trace(chart, configuration, colour, width, (number - (len(chart.configurations) - 1) / 2) * width)
            for number, (configuration, colour) in enumerate(
                zip(chart.configurations, _colours(chart.configurations), strict=True)
            )
        ]
        published = [
            marks
            for trace, configuration in zip(bars, chart.configurations, strict=True)
            if (
                marks := _published(
                    chart, configuration.name, configuration.bars, trace.x, trace.colour, configuration.run
                )
            )
            is not None
        ]
        traces = [*bars, *_dense(chart), *published]
        lowest = min((y for trace in traces for y in trace.y if not math.isnan(y)), default=0.0)
        self.set_y_limits(0.0 if lowest >= 0.0 else -UNBOUNDED)
        self.show_traces(traces)

    def _trace(
        self, chart: BarChart, configuration: BarConfiguration, colour: QColor, width: float, offset: float
    ) -> Trace:
        errors = [math.nan if bar.stderr is None else bar.stderr for bar in configuration.bars]
        return Trace(
            name=configuration.label,
            colour=colour,
            x=[bar.task + offset for bar in configuration.bars],
            y=[bar.value for bar in configuration.bars],
            readout=lambda index: bar_readout(configuration.name, chart, configuration.bars[index]),
            errors=errors if any(map(math.isfinite, errors)) else (),
            keys=[configuration.run] * len(configuration.bars),
            width=width,
        )


def _colours(configurations: Sequence[BarConfiguration]) -> list[QColor]:
    """Return each configuration's colour: its method's hue, in other shades for its further configurations."""
    methods = [configuration.method for configuration in configurations]
    return [
        method_colour(method).darker(_SHADES[methods[:index].count(method) % len(_SHADES)])
        for index, method in enumerate(methods)
    ]


def _dense(chart: BarChart) -> list[Trace]:
    """Return dashed lines across each task, and the published dense values as markers."""
    if not chart.dense:
        return []
    colour = method_colour("dense")
    # The points of the line are the ends of its pieces: a second trace, without a line, has those to read.
    pieces = [(x, y) for bar in chart.dense for x, y in _piece(bar)]
    half = _GROUP / 2 + 0.05
    traces = [
        Trace("dense", colour, [x for x, _ in pieces], [y for _, y in pieces], None, style=Qt.PenStyle.DashLine),
        Trace(
            "dense",
            colour,
            [bar.task - half for bar in chart.dense],
            [bar.value for bar in chart.dense],
            lambda index: bar_readout("dense", chart, chart.dense[index]),
            style=Qt.PenStyle.NoPen,
            named=False,
        ),
    ]
    marks = _published(chart, "dense", chart.dense, [bar.task + half for bar in chart.dense], colour, "")
    return [*traces, marks] if marks is not None else traces


def _piece(bar: TaskBar) -> tuple[tuple[float, float], ...]:
    half = _GROUP / 2 + 0.05
    # NaN ends the line before the next task.
    return ((bar.task - half, bar.value), (bar.task + half, bar.value), (bar.task + half, math.nan))


def _published(
    chart: BarChart, name: str, bars: Sequence[TaskBar], x: Sequence[float], colour: QColor, run: str
) -> Trace | None:
    """Return hollow markers over a configuration's bars; None where nothing is published."""
    published = [(at, bar, bar.paper) for at, bar in zip(x, bars, strict=True) if bar.paper is not None]
    if not published:
        return None
    return Trace(
        name=f"{name}, paper",
        colour=colour,
        x=[at for at, _, _ in published],
        y=[paper for _, _, paper in published],
        readout=lambda index: bar_readout(name, chart, published[index][1]),
        symbol="o",
        style=Qt.PenStyle.NoPen,
        hollow=True,
        keys=[run] * len(published) if run else (),
    )


class TaskBarsPanel(PlotPanel):
    """All tasks' bars at one sparsity."""

    def __init__(self) -> None:
        self.measure, self.model = ComboBox("Metric of the tasks"), ComboBox("Model of the tasks")
        self.sparsity = ComboBox("Sparsity that the runs are nearest to")
        self.plot = BarsPlot()
        choices = (("Metric", self.measure), ("at", self.sparsity), ("of", self.model))
        super().__init__(choices, self.plot)

    def show_choices(self, choices: BarChoices) -> None:
        """Offer metrics and sparsities, and mark those that are shown."""
        titles = {OWN_METRIC: "each task's own"}
        self.measure.fill([(titles.get(metric, metric), metric) for metric in choices.metrics], choices.metric)
        self.sparsity.fill([(percent(sparsity), sparsity) for sparsity in choices.sparsities], choices.sparsity)

    def show_bars(self, chart: BarChart | None) -> None:
        """Draw the bars, and note how many are left out."""
        self.show_notes(left_out_note(chart.left_out) if chart else "")
        self.plot.show_chart(chart)
