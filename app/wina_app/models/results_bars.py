"""The bars of the Results page: every task's metric, the arms of one sparsity beside each other."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wina_app.models.results_rows import Entry
from wina_app.models.results_scope import Scope
from wina_app.models.run_names import name_runs
from wina_app.translation import tr
from wina_core.paper import base_metric, preferred_metric
from wina_core.records import METRIC_UNITS
from wina_core.results.texts import count_text, error_text, number
from wina_core.specs import DENSE, OWN_UNITS

if TYPE_CHECKING:  # SQLAlchemy takes a second to import: only the store's thread does
    from wina_core.store import MetricRow

OWN_METRIC = ""
"""Stands for each task's own preferred metric, of the tasks in which that is a fraction."""
MOST_ARMS = 24
"""Bars that are drawn beside each other at most."""
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
    """What the paper published for the same cell, in the units that are stored."""


@dataclass(frozen=True)
class BarArm:
    """One run's bars."""

    run: str
    name: str
    method: str
    """Decides the colour."""
    bars: tuple[Bar, ...]


@dataclass(frozen=True)
class BarChart:
    """All bars at one sparsity."""

    metric: str
    """What the ordinate is, with its unit."""
    sparsity: float
    tasks: tuple[str, ...]
    arms: tuple[BarArm, ...]
    dense: tuple[Bar, ...]
    """The dense model's, where it was evaluated."""
    left_out: int = 0
    """Arms beyond the most that are drawn."""


def bar_metrics(entries: Iterable[Entry]) -> list[str]:
    """What can be on the ordinate: each task's own where there are tasks with fractions, and every metric."""
    found = {(entry.row.metric, entry.row.unit in OWN_UNITS) for entry in entries}
    own = [OWN_METRIC] if any(not ours and _is_fraction(metric) for metric, ours in found) else []
    return own + sorted({metric for metric, _ in found})


def bar_sparsities(entries: Iterable[Entry], model: str) -> list[float]:
    """The targets that runs of a model were asked for, in rising order."""
    return sorted({_rounded(e.row) for e in entries if e.row.model_hash == model and e.row.method != DENSE.name})


def first_sparsity(offered: Sequence[float]) -> float | None:
    """One half where there is one, else the one nearest to it."""
    return min(offered, key=lambda sparsity: abs(sparsity - _FIRST_CHOICE), default=None)


def bar_chart(entries: Iterable[Entry], model: str, metric: str, sparsity: float, scope: Scope | None) -> BarChart:
    """The bars of one model's runs at one target sparsity, from exactly the given rows."""
    rows = [entry.row for entry in entries if entry.row.model_hash == model]
    dense = [row for row in rows if row.method == DENSE.name]
    sparse = [row for row in rows if row.method != DENSE.name and _rounded(row) == sparsity]
    chosen = _chosen_metrics((*dense, *sparse), metric)
    sparse, dense = ([row for row in part if chosen.get(row.task) == row.metric] for part in (sparse, dense))
    tasks = tuple(sorted({row.task for row in sparse} or {row.task for row in dense}))
    by_run: dict[str, list[MetricRow]] = {}
    for row in sparse:
        by_run.setdefault(row.run, []).append(row)
    runs = list(by_run)[:MOST_ARMS]
    names = _names([by_run[run][0] for run in runs], scope)
    arms = [
        BarArm(run, name, by_run[run][0].method.partition(" ")[0], _bars(by_run[run], tasks, scope))
        for run, name in zip(runs, names, strict=True)
    ]
    title = tr("own metric (fraction)") if metric == OWN_METRIC else _with_unit(metric)
    left_out = len(by_run) - len(runs)
    return BarChart(title, sparsity, tasks, tuple(arms), _bars(dense, tasks, scope, once=True), left_out)


def bar_readout(name: str, chart: BarChart, bar: Bar) -> str:
    """All that is known of one bar, in one line."""
    value = number(bar.value) + (f" ± {error_text(bar.stderr)}" if bar.stderr is not None else "")
    unit = METRIC_UNITS.get(base_metric(bar.metric), "")
    parts = [name, f"{chart.tasks[bar.task]}: {bar.metric} {value}" + (f" ({unit})" if unit else "")]
    if bar.n is not None:
        parts.append(f"n {count_text(bar.n)}")
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
            found[row.task] = Bar(tasks.index(row.task), row.metric, row.value, row.stderr, row.n, paper)
    return tuple(found[task] for task in tasks if task in found)


def _chosen_metrics(rows: "Iterable[MetricRow]", metric: str) -> dict[str, str]:
    """Task: the metric that its bars show; tasks without any are left out."""
    if metric != OWN_METRIC:
        return {row.task: metric for row in rows if row.metric == metric}
    offered: dict[str, dict[str, None]] = {}
    for row in rows:
        if row.unit not in OWN_UNITS and _is_fraction(row.metric):
            offered.setdefault(row.task, {})[row.metric] = None
    preferred = {task: preferred_metric(tuple(metrics)) for task, metrics in offered.items()}
    return {task: found for task, found in preferred.items() if found is not None}


def _names(rows: "Sequence[MetricRow]", scope: Scope | None) -> Sequence[str]:
    arms = [scope.arms[row.run] for row in rows] if scope is not None else []
    return arms if arms and len(set(arms)) == len(arms) else name_runs(rows, with_sparsity=False)


def _is_fraction(metric: str) -> bool:
    return METRIC_UNITS.get(base_metric(metric)) == "fraction"


def _with_unit(metric: str) -> str:
    unit = METRIC_UNITS.get(base_metric(metric))
    return f"{metric} ({unit})" if unit else metric


def _rounded(row: "MetricRow") -> float:
    return round(row.target_sparsity, 3)
