"""A study's values in the paper's layout: rows method x sparsity within model, columns as printed."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from wina_core.analysis.comparison.study_runs import StudyRun
from wina_core.analysis.results.measured import TOLERANCE, differ
from wina_core.report.findings import Findings, Value, own_metrics
from wina_core.specs import COST, FIDELITY, ORIGINAL, printed_quantization
from wina_core.studies.published import MEAN, base_metric, mean_weights, published, published_value

Axis = Literal["model", "quantization", "task", "sparsity", "configuration", "allocation"]
AXES: tuple[Axis, ...] = ("model", "quantization", "task", "sparsity", "configuration", "allocation")
HEADS: Mapping[Axis, str] = {
    "model": "Model",
    "quantization": "Weights",
    "task": "Task",
    "sparsity": "Target",
    "configuration": "Method",
    "allocation": "Allocation",
}
MEASURED = "Measured"
"""Column title of the measured sparsity."""
MISSES = "†"
"""Mark of a measured sparsity that misses its target."""
ABSENT = "–"
FEWEST = 30
"""Fewest documents for a comparison with the published number's error."""


class _Layout(NamedTuple):
    columns: Axis
    split: Axis | None
    """Axis with a table for each of its values."""


_LAYOUTS: Mapping[str, _Layout] = {
    "quantization": _Layout("quantization", "model"),
    "ablation": _Layout("model", None),
    "gsm8k": _Layout("model", None),
    "crows_pairs": _Layout("task", None),
    "synthetic": _Layout("sparsity", None),
    "gflops": _Layout("task", None),
}
_USUAL = _Layout("task", "model")


@dataclass(frozen=True)
class Measure:
    """One quantity of every run."""

    task: str
    title: str
    metric: str = ""
    """Metric; empty for the preferred one."""
    weights: Mapping[str, float] | None = None
    """Weights of the tasks of a mean."""
    complete: bool = True
    """True for a mean over all tasks of the paper's mean."""


@dataclass(frozen=True)
class Cell:
    """Our value beside the published one."""

    value: Value | None = None
    paper: float | None = None
    paper_deviation: float | None = None
    missing: int = 0
    """Number of missing measurements."""
    judged: bool = True
    """True where ours was measured as the paper's, of as many documents."""
    same_model: bool = True
    """False where the published number is of another model, so that their difference means nothing."""
    best: bool = False
    """True for the best sparse method at its sparsity."""

    @property
    def difference(self) -> float | None:
        """Ours minus the published value, where both are of the same model."""
        if self.value is None or self.paper is None or not self.same_model:
            return None
        return self.value.value - self.paper

    @property
    def agrees(self) -> bool | None:
        """True where the published value lies in our 95 % interval; None where unknown."""
        if self.paper is None or self.value is None or self.value.interval is None:
            return None
        if not self.judged or not self.same_model or (self.value.n is not None and self.value.n < FEWEST):
            return None
        low, high = self.value.interval
        return low <= self.paper <= high


@dataclass(frozen=True)
class Row:
    """One row; `labels` are under the table's heads."""

    labels: tuple[str, ...]
    cells: tuple[Cell, ...]
    dense: bool
    begins: bool
    """True for the first row of a model and sparsity."""


@dataclass(frozen=True)
class Table:
    """One table of the report."""

    title: str
    heads: tuple[str, ...]
    columns: tuple[str, ...]
    metrics: tuple[str, ...]
    """Unit of each column; empty where it is named elsewhere."""
    rows: tuple[Row, ...]
    footnote: str = ""
    """Explanation of the rows' marks; may be empty."""

    @property
    def has_paper(self) -> bool:
        """True with any published value."""
        return any(cell.paper is not None for row in self.rows for cell in row.cells)


class _Point(NamedTuple):
    place: Mapping[Axis, str]
    run: StudyRun
    cell: Cell


def tables(findings: Findings) -> tuple[Table, ...]:
    """Return the study's tables: the paper's or its tasks, then the workbench's own measurements."""
    study = findings.study.paper
    layout = _LAYOUTS.get(study, _USUAL)
    main = measures(findings)
    points = [_point(findings, run, measure) for run in findings.runs for measure in main]
    titles = {measure.title: _metric_title(findings, measure) for measure in main}
    found = _split(findings, points, layout, titles)
    shown = {(measure.task, measure.metric) for measure in main}
    own = [Measure(task, _own_title(task, metric), metric) for task, metric in own_metrics(findings.study)]
    further = [
        _point(findings, run, each) for run in findings.runs for each in own if (each.task, each.metric) not in shown
    ]
    if further:
        found.append(_table(findings, "Measured by the workbench", further, "task", {}))
    return tuple(found)


def measures(findings: Findings) -> tuple[Measure, ...]:
    """Return the main tables' columns: the paper's as far as the study measures them, or its tasks."""
    study, own = findings.study.paper, {COST} if findings.study.evaluation.cost_context else set()
    measured = {*findings.tasks, *own}
    if findings.study.evaluation.synthetic:
        return tuple(Measure(name, name, "error") for name in findings.study.evaluation.synthetic.networks)
    weights = {task: weight for task, weight in mean_weights(study).items() if task in measured}
    found: dict[str, Measure] = {}
    by_task = _LAYOUTS.get(study, _USUAL).columns == "task"
    for number in published(study) if study else ():
        title = number.column if by_task else number.task
        if number.task == MEAN and weights:
            found[number.task] = Measure(
                MEAN, title, weights=weights, complete=len(weights) == len(mean_weights(study))
            )
        elif number.task in measured:
            found[number.task] = Measure(number.task, title, number.metric if number.task == COST else "")
    in_means = set(weights) if found else set()
    rest = [Measure(task, task) for task in findings.tasks if task not in found and task not in in_means]
    fractions = findings.fractions
    if not found and len(fractions) > 1:
        rest.append(Measure(MEAN, "Mean", weights=dict.fromkeys(fractions, 1.0), complete=False))
    return (*found.values(), *rest)


def _point(findings: Findings, run: StudyRun, measure: Measure) -> _Point:
    if measure.weights is not None:
        value, missing = findings.mean(run.run, measure.weights)
    else:
        value = findings.value(run.run, measure.task, measure.metric)
        missing = int(value is None)
    paper, deviation = papers_number(findings, run, measure, value)
    place: dict[Axis, str] = {
        "model": run.model,
        "quantization": printed_quantization(run.quantization) or "FP16",
        "task": measure.title,
        "sparsity": percent(run.target_sparsity),
        "configuration": run.configuration,
        "allocation": run.allocation,
    }
    tasks = measure.weights or (measure.task,)
    asked = [findings.study.evaluation.task(task) for task in tasks if task in findings.tasks]
    limited = any(task.limit or task.first for task in asked)
    judged = not limited and not findings.of_demo
    same_model = findings.study.published_model(run.model) == run.model
    return _Point(place, run, Cell(value, paper, deviation, missing, judged, same_model))


def papers_number(
    findings: Findings, run: StudyRun, measure: Measure, value: Value | None
) -> tuple[float | None, float | None]:
    """Return the published number beside our `value`, and its deviation over seeds; None where nothing is published, or
    of other metrics than ours."""
    study = findings.study.paper
    if not study or not measure.complete:
        return None, None
    model = findings.study.published_model(run.model)
    key = (study, model, "dense" if run.is_dense else run.configuration, run.target_sparsity, measure.task)
    if measure.weights is not None:
        same = value is None or all(published_metric(study, task) in ("", metric) for task, metric in value.metrics)
        return (published_value(*key, quantization=run.quantization) if same else None), None
    metric = measure.metric or (value.metric if value else "")
    deviation = published_value(*key, f"{metric}_deviation") if metric else None
    return published_value(*key, metric, run.quantization), deviation


def published_metric(study: str, task: str) -> str:
    """Return the metric of a task in the paper's tables; empty for a task without one."""
    numbers = (number for name in (study, "") for number in published(name) if number.task == task)
    return next((number.metric for number in numbers), "")


def percent(sparsity: float) -> str:
    """Write a target as tables show it, with every digit that sets it apart."""
    return f"{100 * sparsity:.10g} %"


def _split(findings: Findings, points: Sequence[_Point], layout: _Layout, metrics: Mapping[str, str]) -> list[Table]:
    study = findings.study.paper
    groups: dict[str, list[_Point]] = {}
    for point in points:
        groups.setdefault(point.place[layout.split] if layout.split else "", []).append(point)
    return [_table(findings, _title(study, value), group, layout.columns, metrics) for value, group in groups.items()]


def _title(study: str, model: str) -> str:
    """Return the paper's title where the table is of its models, else the layout's."""
    titles = dict.fromkeys(number.table for number in published(study) if model in ("", number.model)) if study else {}
    if titles:
        return next(iter(titles))
    others = dict.fromkeys(number.table for number in published(study)) if study else {}
    return f"{model}, laid out as {next(iter(others)).partition(':')[0]}" if others else model


def _table(
    findings: Findings, title: str, points: Sequence[_Point], columns: Axis, metrics: Mapping[str, str]
) -> Table:
    axes = [
        axis for axis in AXES if axis != columns and (axis in ("sparsity", "configuration") or _varies(points, axis))
    ]
    names = tuple(dict.fromkeys(point.place[columns] for point in points))
    lines: dict[tuple[str, ...], dict[str, _Point]] = {}
    for point in sorted(points, key=_order(points)):
        line = lines.setdefault(tuple(point.place[axis] for axis in axes), {})
        if point.place[columns] in line:
            there = line[point.place[columns]].run.run
            raise ValueError(f"the runs {there} and {point.run.run} would stand in one cell of {title!r}")
        line[point.place[columns]] = point
    best = _best(points)
    rows: list[Row] = []
    before: tuple[str, ...] | None = None
    for labels, cells in lines.items():
        first = next(iter(cells.values()))
        group = tuple(
            label for label, axis in zip(labels, axes, strict=True) if axis not in ("configuration", "allocation")
        )
        found = (cells.get(name) for name in names)
        measured = _measured(findings, {point.run for point in cells.values()})
        rows.append(
            Row(
                _with_measured(labels, axes, measured),
                tuple(Cell() if each is None else replace(each.cell, best=id(each) in best) for each in found),
                dense=first.run.is_dense,
                begins=group != before,
            )
        )
        before = group
    return Table(
        title,
        _with_measured([HEADS[axis] for axis in axes], axes, MEASURED),
        names,
        tuple(metrics.get(name, "") for name in names),
        tuple(rows),
        _footnote(findings) if any(MISSES in label for row in rows for label in row.labels) else "",
    )


def _with_measured(labels: Sequence[str], axes: Sequence[Axis], measured: str) -> tuple[str, ...]:
    """Put the measured sparsity before the target; columns that are targets have no single measured one."""
    if "sparsity" not in axes:
        return tuple(labels)
    place = axes.index("sparsity")
    return (*labels[:place], measured, *labels[place:])


def _measured(findings: Findings, runs: Collection[StudyRun]) -> str:
    """Write the measured sparsities of a row's runs as one value or their range, marked where one misses its target."""
    pairs = [(found, run.target_sparsity) for run in runs if (found := findings.measured(run)) is not None]
    if not pairs:
        return ABSENT
    if all(run.is_dense for run in runs):
        return percent(0.0)
    low, high = (f"{100 * end(found for found, _ in pairs):.1f}" for end in (min, max))
    mark = MISSES if any(differ(found, target) for found, target in pairs) else ""
    return f"{low} %{mark}" if low == high else f"{low} to {high} %{mark}"


def _footnote(findings: Findings) -> str:
    return f"{MISSES} The {findings.count} sparsity of a run misses its target by more than {100 * TOLERANCE:g} points."


def _varies(points: Iterable[_Point], axis: Axis) -> bool:
    """Return True where an axis distinguishes rows; dense runs have no allocation."""
    return len({point.place[axis] for point in points if axis != "allocation" or not point.run.is_dense}) > 1


def _order(points: Sequence[_Point]) -> Callable[[_Point], tuple[float, ...]]:
    """Return the sort key: every axis in the order of its values, sparsities by number."""
    ranks = {
        axis: {name: rank for rank, name in enumerate(dict.fromkeys(point.place[axis] for point in points))}
        for axis in AXES
    }
    return lambda point: tuple(
        point.run.target_sparsity if axis == "sparsity" else ranks[axis][point.place[axis]] for axis in AXES
    )


def _best(points: Sequence[_Point]) -> set[int]:
    """Return the ids of the best points among the sparse methods of the same model, sparsity and task."""
    groups: dict[tuple[str, ...], list[_Point]] = {}
    for point in points:
        if not point.run.is_dense and point.cell.value is not None:
            same = tuple(point.place[axis] for axis in AXES if axis not in ("configuration", "allocation"))
            groups.setdefault(same, []).append(point)
    found: set[int] = set()
    for group in groups.values():
        badness = [_badness(point.cell.value) for point in group if point.cell.value is not None]
        if min(badness) < max(badness):
            found |= {id(point) for point, bad in zip(group, badness, strict=True) if bad == min(badness)}
    return found


def _badness(value: Value) -> float:
    """Return a number that is lower for a better value; a stereotype score is best at 50 %."""
    if base_metric(value.metric) == "pct_stereotype":
        return abs(value.value - 50)
    return value.value if value.higher_is_better is False else -value.value


def _metric_title(findings: Findings, measure: Measure) -> str:
    if measure.weights is not None:
        return f"mean of {len(measure.weights)}"
    return base_metric(measure.metric) or findings.metric_title(measure.task)


def _own_title(task: str, metric: str) -> str:
    if task == ORIGINAL:
        return {
            "kl": "KL from the original (nats per token)",
            "kl_p99": "99 % of tokens below (nats)",
            "top1_agreement": "Original's first choice",
            "perplexity_ratio": "Perplexity ratio to the original",
        }[metric]
    if task == FIDELITY:
        return {"kl": "KL (nats per token)", "perplexity": "Perplexity", "top1_agreement": "Same first choice"}[metric]
    words = {"gated": "as the paper counts", "net": "everything counted"}
    kind, what, _ = metric.split("_")
    return f"{ {'flops': 'Operations', 'bytes': 'Bytes'}[what] } saved, {words[kind]}"
