"""Laying a study's values out as the paper does: rows method x sparsity within model, columns as printed."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from wina_core.comparison.study_runs import StudyRun
from wina_core.report.findings import Findings, Value, own_metrics
from wina_core.results.measured import TOLERANCE, differ
from wina_core.specs import COST, DEVIATION
from wina_core.studies.published import MEAN, base_metric, mean_weights, published, published_value

Axis = Literal["model", "quantization", "task", "sparsity", "arm", "allocation"]
AXES: tuple[Axis, ...] = ("model", "quantization", "task", "sparsity", "arm", "allocation")
HEADS: Mapping[Axis, str] = {
    "model": "Model",
    "quantization": "Weights",
    "task": "Task",
    "sparsity": "Target",
    "arm": "Method",
    "allocation": "Allocation",
}
_BITS = {"none": "FP16", "int8": "INT8", "int4": "INT4"}
MEASURED = "Measured"
"""The head of the measured sparsity, beside that of the target."""
MISSES = "†"
"""Marks a measured sparsity that misses its target."""
ABSENT = "–"
FEWEST = 30
"""Documents of which it is said whether a published number lies within the error of ours."""


class _Layout(NamedTuple):
    columns: Axis
    split: Axis | None
    """One table for each of its values."""


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
    """One number of every run."""

    task: str
    title: str
    metric: str = ""
    """Empty for the preferred one."""
    weights: Mapping[str, float] | None = None
    """Of the tasks of a mean."""
    complete: bool = True
    """Whether it is all of what the paper's number of this name is made of."""


@dataclass(frozen=True)
class Cell:
    """Ours beside the paper's."""

    value: Value | None = None
    paper: float | None = None
    paper_deviation: float | None = None
    missing: int = 0
    """Measurements that are missing for it."""
    judged: bool = True
    """Whether ours was measured as the paper's, of as many documents, so that it can be said to agree."""
    best: bool = False
    """Of the sparse methods of its sparsity."""

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's."""
        return None if self.value is None or self.paper is None else self.value.value - self.paper

    @property
    def agrees(self) -> bool | None:
        """Whether the paper's lies within ours' 95 % interval; None where that cannot be told."""
        if self.paper is None or self.value is None or self.value.interval is None:
            return None
        if not self.judged or (self.value.n is not None and self.value.n < FEWEST):
            return None
        low, high = self.value.interval
        return low <= self.paper <= high


@dataclass(frozen=True)
class Row:
    """One line; `labels` under the table's heads."""

    labels: tuple[str, ...]
    cells: tuple[Cell, ...]
    dense: bool
    begins: bool
    """Whether a group of rows, of one model and sparsity, begins with it."""


@dataclass(frozen=True)
class Table:
    """One table of the report."""

    title: str
    heads: tuple[str, ...]
    columns: tuple[str, ...]
    metrics: tuple[str, ...]
    """Of each column; empty where it is said elsewhere."""
    rows: tuple[Row, ...]
    footnote: str = ""
    """Explains the marks of the rows; empty without any."""

    @property
    def has_paper(self) -> bool:
        """Whether any of its cells is published."""
        return any(cell.paper is not None for row in self.rows for cell in row.cells)


class _Point(NamedTuple):
    place: Mapping[Axis, str]
    run: StudyRun
    cell: Cell


def tables(findings: Findings) -> tuple[Table, ...]:
    """The study's tables: the paper's where it repeats the paper, else its tasks; then what the workbench measures."""
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
    """What the main tables show of every run: the paper's columns as far as the study measures them, or its tasks."""
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
        "quantization": _BITS[run.quantization],
        "task": measure.title,
        "sparsity": percent(run.target_sparsity),
        "arm": run.arm,
        "allocation": run.allocation,
    }
    tasks = measure.weights or (measure.task,)
    limited = any(findings.study.evaluation.task(task).limit for task in tasks if task in findings.tasks)
    judged = not limited and not findings.of_demo
    return _Point(place, run, Cell(value, paper, deviation, missing, judged))


def papers_number(
    findings: Findings, run: StudyRun, measure: Measure, value: Value | None
) -> tuple[float | None, float | None]:
    """What the paper has where ours is `value`, and its deviation over seeds; None where it has none, or used other
    metrics than we."""
    study = findings.study.paper
    if not study or not measure.complete:
        return None, None
    key = (study, run.model, "dense" if run.is_dense else run.arm, run.target_sparsity, measure.task)
    if measure.weights is not None:
        same = value is None or all(published_metric(study, task) in ("", metric) for task, metric in value.metrics)
        return (published_value(*key, quantization=run.quantization) if same else None), None
    metric = measure.metric or (value.metric if value else "")
    deviation = published_value(*key, f"{metric}_deviation") if metric else None
    return published_value(*key, metric, run.quantization), deviation


def published_metric(study: str, task: str) -> str:
    """The metric of a task in the paper's tables, of this study where it is there; empty for a task that has none."""
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
    """The paper's where the table is of its models, else what it is laid out as."""
    titles = dict.fromkeys(number.table for number in published(study) if model in ("", number.model)) if study else {}
    if titles:
        return next(iter(titles))
    others = dict.fromkeys(number.table for number in published(study)) if study else {}
    return f"{model}, laid out as {next(iter(others)).partition(':')[0]}" if others else model


def _table(
    findings: Findings, title: str, points: Sequence[_Point], columns: Axis, metrics: Mapping[str, str]
) -> Table:
    axes = [axis for axis in AXES if axis != columns and (axis in ("sparsity", "arm") or _varies(points, axis))]
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
        group = tuple(label for label, axis in zip(labels, axes, strict=True) if axis not in ("arm", "allocation"))
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
    """Whether an axis tells rows apart; a dense run, which has no allocation, tells nothing about that one."""
    return len({point.place[axis] for point in points if axis != "allocation" or not point.run.is_dense}) > 1


def _order(points: Sequence[_Point]) -> Callable[[_Point], tuple[float, ...]]:
    """Sorts by every axis in the order in which its values came, sparsities by number."""
    ranks = {
        axis: {name: rank for rank, name in enumerate(dict.fromkeys(point.place[axis] for point in points))}
        for axis in AXES
    }
    return lambda point: tuple(
        point.run.target_sparsity if axis == "sparsity" else ranks[axis][point.place[axis]] for axis in AXES
    )


def _best(points: Sequence[_Point]) -> set[int]:
    """Ids of the points that are the best of the sparse methods with the same model, sparsity, task and so on."""
    groups: dict[tuple[str, ...], list[_Point]] = {}
    for point in points:
        if not point.run.is_dense and point.cell.value is not None:
            same = tuple(point.place[axis] for axis in AXES if axis not in ("arm", "allocation"))
            groups.setdefault(same, []).append(point)
    found: set[int] = set()
    for group in groups.values():
        badness = [_badness(point.cell.value) for point in group if point.cell.value is not None]
        if min(badness) < max(badness):
            found |= {id(point) for point, bad in zip(group, badness, strict=True) if bad == min(badness)}
    return found


def _badness(value: Value) -> float:
    """Less is better. A stereotype score is best at 50 %, a value that says nothing about it best when high."""
    if base_metric(value.metric) == "pct_stereotype":
        return abs(value.value - 50)
    return value.value if value.higher_is_better is False else -value.value


def _metric_title(findings: Findings, measure: Measure) -> str:
    if measure.weights is not None:
        return f"mean of {len(measure.weights)}"
    return base_metric(measure.metric) or findings.metric_title(measure.task)


def _own_title(task: str, metric: str) -> str:
    if task == DEVIATION:
        return {"kl": "KL (nats per token)", "perplexity": "Perplexity", "top1_agreement": "Same first choice"}[metric]
    words = {"counted": "as the paper counts", "full": "everything counted"}
    kind, what, _ = metric.split("_")
    return f"{ {'flops': 'Operations', 'bytes': 'Bytes'}[what] } saved, {words[kind]}"
