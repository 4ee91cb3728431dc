"""Bars of the Results page: every task's metric of each configuration's run nearest to one measured sparsity."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wina_app.pages.results.run_names import name_runs
from wina_app.pages.results.study_filter import Scope
from wina_app.shared.measured_sparsity import RunSparsity, mean_sparsity, sparsity_name, sparsity_parts
from wina_app.style.number_format import percent
from wina_app.style.translation import tr
from wina_core.analysis.results.columns import WARNING
from wina_core.analysis.results.measured import DEFAULT_COUNT, Count, Measured, differ, difference_text, sparsity_of
from wina_core.records import METRIC_UNITS
from wina_core.records.texts import count_text, error_text, number
from wina_core.specs import DENSE, OWN_UNITS
from wina_core.store.metric_frames import metric_rows_of
from wina_core.studies.published import base_metric, preferred_metric

if TYPE_CHECKING:  # SQLAlchemy takes a second to import: only the store's thread does
    import pandas as pd

    from wina_core.store import MetricRow

OWN_METRIC = ""
"""Each task's own preferred metric, of the tasks in which that is a fraction."""
MOST_ARMS = 24
"""Most bars beside each other."""
_FIRST_CHOICE = 0.5


@dataclass(frozen=True)
class Bar:
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
    flag: str
    """Distance of the measured sparsity from the chosen one, "" within tolerance."""
    method: str
    """Method's name, for the colour."""
    bars: tuple[Bar, ...]


@dataclass(frozen=True)
class BarChart:
    """All bars at one sparsity."""

    metric: str
    """Title of the y axis, with its unit."""
    sparsity: float
    """The chosen sparsity."""
    tasks: tuple[str, ...]
    configurations: tuple[BarConfiguration, ...]
    dense: tuple[Bar, ...]
    """Bars of the dense model, where it was evaluated."""
    left_out: int = 0
    """Configurations beyond the most that are drawn."""
    count: Count = DEFAULT_COUNT
    """Kind of measured sparsity that is compared with the chosen one."""

    @property
    def flagged(self) -> int:
        """The number of configurations that miss the chosen sparsity."""
        return sum(bool(each.flag) for each in self.configurations)


def bar_metrics(table: "pd.DataFrame") -> list[str]:
    """Return the choices of the y axis: each task's own metric if any is a fraction, and every metric."""
    of_tasks = table.loc[~table["unit"].isin(list(OWN_UNITS)), "metric"].unique()
    own = [OWN_METRIC] if any(map(_is_fraction, of_tasks)) else []
    return own + sorted(table["metric"].unique())


def bar_sparsities(table: "pd.DataFrame", model: str) -> list[float]:
    """Return the targets of a model's runs in rising order."""
    sparse = table[(table["model_hash"] == model) & (table["method"] != DENSE.name)]
    return sorted({_rounded(row) for row in metric_rows_of(sparse.drop_duplicates("run"))})


def first_sparsity(offered: Sequence[float]) -> float | None:
    """Return the sparsity nearest to one half."""
    return min(offered, key=lambda sparsity: abs(sparsity - _FIRST_CHOICE), default=None)


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
    sparse, dense = ([row for row in part if chosen.get(row.task) == row.metric] for part in (sparse, dense))
    by_run = _nearest_runs(sparse, sparsity, scope, count)
    tasks = tuple(sorted({row.task for rows in by_run.values() for row in rows} or {row.task for row in dense}))
    runs = list(by_run)[:MOST_ARMS]
    names = _names([by_run[run][0] for run in runs], scope)
    configurations = [
        _configuration(name, by_run[run], sparsity, _bars(by_run[run], tasks, scope), count)
        for run, name in zip(runs, names, strict=True)
    ]
    title = tr("own metric (fraction)") if metric == OWN_METRIC else _with_unit(metric)
    left_out = len(by_run) - len(runs)
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
        return round(apart, 9), -max(row.finished for row in of_run)

    nearest = (min(runs.values(), key=distance) for runs in configurations.values())
    return {rows[0].run: rows for rows in nearest}


def _configuration(
    name: str, rows: "Sequence[MetricRow]", sparsity: float, bars: tuple[Bar, ...], count: Count
) -> BarConfiguration:
    mean, method = mean_sparsity(rows), rows[0].method.partition(" ")[0]
    reached = sparsity_of(mean, count)
    sign = f" {WARNING} " if differ(reached, sparsity) else ", "
    label = f"{name}{sign}{sparsity_name(mean, count)}"
    return BarConfiguration(rows[0].run, name, label, difference_text(reached, sparsity), method, bars)


def bar_readout(name: str, chart: BarChart, bar: Bar) -> str:
    """Describe one bar in one line."""
    value = number(bar.value) + (f" ± {error_text(bar.stderr)}" if bar.stderr is not None else "")
    unit = METRIC_UNITS.get(base_metric(bar.metric), "")
    parts = [name, f"{chart.tasks[bar.task]}: {bar.metric} {value}" + (f" ({unit})" if unit else "")]
    if bar.n is not None:
        parts.append(f"n {count_text(bar.n)}")
    if bar.sparsity is not None:
        parts += sparsity_parts(bar.sparsity, chart.count)
        flag = difference_text(sparsity_of(bar.sparsity, chart.count), chart.sparsity)
        if flag and _rounded(bar.sparsity) != chart.sparsity:  # else the miss of its target says it already
            parts.append(
                f"{WARNING} " + tr("{difference} than {sparsity}", difference=flag, sparsity=percent(chart.sparsity))
            )
    if bar.paper is not None:
        parts.append(tr("paper {value}", value=number(bar.paper)))
    return "  \N{MIDDLE DOT}  ".join(parts)


def _bars(
    rows: "Iterable[MetricRow]", tasks: Sequence[str], scope: Scope | None, *, once: bool = False
) -> tuple[Bar, ...]:
    found: dict[str, Bar] = {}
    for row in rows:
        if row.task in tasks and not (once and row.task in found):
            paper = scope.paper_value(row) if scope is not None and scope.paper else None
            sparsity = None if row.method == DENSE.name else mean_sparsity([row])
            found[row.task] = Bar(tasks.index(row.task), row.metric, row.value, row.stderr, row.n, paper, sparsity)
    return tuple(found[task] for task in tasks if task in found)


def _chosen_metrics(rows: "Iterable[MetricRow]", metric: str) -> dict[str, str]:
    """Return the metric of each task's bars, without the tasks that have none."""
    if metric != OWN_METRIC:
        return {row.task: metric for row in rows if row.metric == metric}
    offered: dict[str, dict[str, None]] = {}
    for row in rows:
        if row.unit not in OWN_UNITS and _is_fraction(row.metric):
            offered.setdefault(row.task, {})[row.metric] = None
    preferred = {task: preferred_metric(tuple(metrics)) for task, metrics in offered.items()}
    return {task: found for task, found in preferred.items() if found is not None}


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


def _rounded(row: Measured) -> float:
    return round(row.target_sparsity, 3)
