"""A study's values in the paper's layout: rows method x sparsity within model, columns as printed."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from wina_core.analysis.comparison.study_runs import StudyRun
from wina_core.analysis.results.measured import TOLERANCE, differ
from wina_core.report.findings import Findings, Value, number, signed
from wina_core.specs import COST, FIDELITY, ORIGINAL, printed_quantization
from wina_core.studies.published import MEAN, base_metric, mean_weights, published, published_value

if TYPE_CHECKING:  # pandas takes seconds to import
    import pandas as pd

Axis = Literal["model", "quantization", "task", "sparsity", "configuration", "allocation"]
HEADS: Mapping[Axis, str] = {
    "model": "Model",
    "quantization": "Weights",
    "task": "Task",
    "sparsity": "Target",
    "configuration": "Method",
    "allocation": "Allocation",
}
"""Column titles in the order in which rows are sorted."""
_OF_METHOD = ("configuration", "allocation")
"""Axes on which methods are compared."""
MEASURED = "Measured"
"""Column title of the measured sparsity."""
MISSES = "†"
"""Mark of a measured sparsity that misses its target."""
ABSENT = "–"
AGREES, DIFFERS = "≈", "≠"
MIN_DOCUMENTS = 30
"""Fewest documents for a comparison with the published number's error."""
_WORKBENCH_TITLES: Mapping[str, Mapping[str, str]] = {
    ORIGINAL: {
        "kl": "KL from the original (nats per token)",
        "kl_p99": "99 % of tokens below (nats)",
        "top1_agreement": "Original's first choice",
        "perplexity_ratio": "Perplexity ratio to the original",
    },
    FIDELITY: {"kl": "KL (nats per token)", "perplexity": "Perplexity", "top1_agreement": "Same first choice"},
    COST: {
        "gated_flops_saving": "Operations saved, as the paper counts",
        "net_flops_saving": "Operations saved, everything counted",
        "net_bytes_saving": "Bytes saved, everything counted",
    },
}
"""Titles of the workbench's own measurements, by unit and metric."""


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
class ReportMeasure:
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
class ReportCell:
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
        if not self.judged or not self.same_model or (self.value.n is not None and self.value.n < MIN_DOCUMENTS):
            return None
        low, high = self.value.interval
        return low <= self.paper <= high

    @property
    def text(self) -> str:
        """Our value, with its deviation over seeds or its distance from neutral."""
        value = self.value
        if value is None:
            return f"{ABSENT} ({self.missing} missing)" if self.missing else ""
        text = number(value.value, value.metric)
        if value.deviation is not None:
            return f"{text} ± {number(value.deviation, value.metric)}"
        if base_metric(value.metric) == "pct_stereotype":
            return f"{text} ({number(abs(value.value - 50), value.metric)})"
        return text

    @property
    def error_text(self) -> str:
        """Standard error of our value; empty where unknown, or where `text` has a deviation."""
        value = self.value
        if value is None or value.stderr is None or value.deviation is not None:
            return ""
        return f"± {number(value.stderr, value.metric)}"

    @property
    def paper_text(self) -> str:
        """The published value, ours minus it, and its agreement; empty without a published value."""
        if self.paper is None:
            return ""
        metric = self.value.metric if self.value else "mean"
        text = number(self.paper, metric)
        if self.paper_deviation is not None:
            text += f" ± {number(self.paper_deviation, metric)}"
        if self.difference is not None:
            mark = {True: f" {AGREES}", False: f" {DIFFERS}", None: ""}[self.agrees]
            text += f", {signed(self.difference, metric)}{mark}"
        return text


@dataclass(frozen=True)
class ReportRow:
    """One row; `labels` are under the table's heads."""

    labels: tuple[str, ...]
    cells: tuple[ReportCell, ...]
    dense: bool
    begins: bool
    """True for the first row of a model and sparsity."""


@dataclass(frozen=True)
class ReportTable:
    """One table of the report."""

    title: str
    heads: tuple[str, ...]
    columns: tuple[str, ...]
    metrics: tuple[str, ...]
    """Unit of each column; empty where it is named elsewhere."""
    rows: tuple[ReportRow, ...]
    footnote: str = ""
    """Explanation of the rows' marks; may be empty."""

    @property
    def has_paper(self) -> bool:
        return any(cell.paper is not None for row in self.rows for cell in row.cells)


@dataclass(frozen=True)
class TextTable:
    """A table of words."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def tables(findings: Findings) -> tuple[ReportTable, ...]:
    """Return the study's tables: the paper's or its tasks, then the workbench's own measurements."""
    layout = _LAYOUTS.get(findings.study.paper, _USUAL)
    main = measures(findings)
    titles = {measure.title: _metric_title(findings, measure) for measure in main}
    points = _points(findings, main)
    groups: Iterable[tuple[Any, pd.DataFrame]] = [("", points)] if len(points) else []
    if layout.split:
        groups = points.groupby(layout.split, sort=False)
    result = [
        _table(findings, _title(findings.study.paper, str(model)), group, layout.columns, titles)
        for model, group in groups
    ]
    main_keys = {(measure.task, measure.metric) for measure in main}
    further = [measure for measure in _workbench_measures(findings) if (measure.task, measure.metric) not in main_keys]
    points = _points(findings, further)
    return (*result, *([_table(findings, "Measured by the workbench", points, "task", {})] if len(points) else []))


def _workbench_measures(findings: Findings) -> list[ReportMeasure]:
    """Return the workbench's own measurements in the study."""
    evaluation = findings.study.evaluation
    if evaluation.synthetic or not findings.study.models:
        return []
    requested = {ORIGINAL: evaluation.original, FIDELITY: evaluation.fidelity, COST: evaluation.cost_context}
    return [
        ReportMeasure(unit, title, metric)
        for unit, titles in _WORKBENCH_TITLES.items()
        for metric, title in titles.items()
        if requested[unit]
    ]


def measures(findings: Findings) -> tuple[ReportMeasure, ...]:
    """Return the main tables' columns: the paper's as far as the study measures them, or its tasks."""
    study = findings.study.paper
    measured = {*findings.tasks, *({COST} if findings.study.evaluation.cost_context else ())}
    if findings.study.evaluation.synthetic:
        return tuple(ReportMeasure(name, name, "error") for name in findings.study.evaluation.synthetic.networks)
    weights = {task: weight for task, weight in mean_weights(study).items() if task in measured}
    papers: dict[str, ReportMeasure] = {}
    by_task = _LAYOUTS.get(study, _USUAL).columns == "task"
    for entry in published(study) if study else ():
        title = entry.column if by_task else entry.task
        if entry.task == MEAN and weights:
            is_complete = len(weights) == len(mean_weights(study))
            papers[entry.task] = ReportMeasure(MEAN, title, weights=weights, complete=is_complete)
        elif entry.task in measured:
            papers[entry.task] = ReportMeasure(entry.task, title, entry.metric if entry.task == COST else "")
    in_means = set(weights) if papers else set()
    further = [ReportMeasure(task, task) for task in findings.tasks if task not in papers and task not in in_means]
    fractions = findings.fractions
    if not papers and len(fractions) > 1:
        further.append(ReportMeasure(MEAN, "Mean", weights=dict.fromkeys(fractions, 1.0), complete=False))
    return (*papers.values(), *further)


def measured_value(findings: Findings, run: StudyRun, measure: ReportMeasure) -> tuple[Value | None, int]:
    """Return a run's value of a measure, and the number of missing measurements."""
    if measure.weights is not None:
        return findings.mean(run.run, measure.weights)
    value = findings.value(run.run, measure.task, measure.metric)
    return value, int(value is None)


def _points(findings: Findings, of_measures: Sequence[ReportMeasure]) -> pd.DataFrame:
    """Return a line for each run and measure: its label on each axis, its target, its run and its cell."""
    import pandas as pd

    lines = [
        {
            "model": run.model,
            "quantization": printed_quantization(run.quantization) or "FP16",
            "task": measure.title,
            "sparsity": percent(run.target_sparsity),
            "configuration": run.configuration,
            "allocation": run.allocation,
            "target": run.target_sparsity,
            "run": run,
            "cell": _cell(findings, run, measure),
        }
        for run in findings.runs
        for measure in of_measures
    ]
    return pd.DataFrame(lines, columns=[*HEADS, "target", "run", "cell"])


def _cell(findings: Findings, run: StudyRun, measure: ReportMeasure) -> ReportCell:
    value, missing = measured_value(findings, run, measure)
    paper, deviation = published_number(findings, run, measure, value)
    tasks = measure.weights or (measure.task,)
    specs = [findings.study.evaluation.task(task) for task in tasks if task in findings.tasks]
    # Of fewer or of other documents, ours need not agree with the published number.
    judged = not any(spec.limit or spec.first for spec in specs) and not findings.of_demo
    same_model = findings.study.published_model(run.model) == run.model
    return ReportCell(value, paper, deviation, missing, judged, same_model)


def published_number(
    findings: Findings, run: StudyRun, measure: ReportMeasure, value: Value | None
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
    entries = (entry for name in (study, "") for entry in published(name) if entry.task == task)
    return next((entry.metric for entry in entries), "")


def percent(sparsity: float) -> str:
    """Write a target as tables show it, with every digit that sets it apart."""
    return f"{100 * sparsity:.10g} %"


def _title(study: str, model: str) -> str:
    """Return the paper's title where the table is of its models, else the layout's."""
    entries = published(study) if study else ()
    titles = [entry.table for entry in entries if model in ("", entry.model)]
    if titles:
        return titles[0]
    return f"{model}, laid out as {entries[0].table.partition(':')[0]}" if entries else model


def _table(
    findings: Findings, title: str, points: pd.DataFrame, columns: Axis, metrics: Mapping[str, str]
) -> ReportTable:
    # Dense runs have no allocation, so they alone do not make it distinguish rows.
    sparse = points[[not run.is_dense for run in points["run"]]]
    varying = {axis for axis in HEADS if (sparse if axis == "allocation" else points)[axis].nunique() > 1}
    axes = [axis for axis in HEADS if axis != columns and axis in {"sparsity", "configuration", *varying}]
    names = points[columns].unique()
    ranks = points[list(HEADS)].apply(lambda labels: labels.factorize()[0]).assign(sparsity=points["target"])
    points = points.assign(best=_is_best(points)).loc[ranks.sort_values(list(HEADS), kind="stable").index]
    rows: list[ReportRow] = []
    previous_group: list[str] | None = None
    for _, line in points.groupby(axes, sort=False):
        labels = [str(label) for label in line[axes].iloc[0]]
        if line[columns].duplicated().any():
            raise ValueError(f"two runs would stand in one cell of {title!r}: {labels}")
        cells = {
            name: replace(cell, best=best)
            for name, cell, best in zip(line[columns], line["cell"], line["best"], strict=True)
        }
        group = [label for label, axis in zip(labels, axes, strict=True) if axis not in _OF_METHOD]
        rows.append(
            ReportRow(
                _with_measured(labels, axes, _measured(findings, set(line["run"]))),
                tuple(cells.get(name, ReportCell()) for name in names),
                dense=line["run"].iloc[0].is_dense,
                begins=group != previous_group,
            )
        )
        previous_group = group
    has_misses = any(MISSES in label for row in rows for label in row.labels)
    distance = f"{100 * TOLERANCE:g} points"
    footnote = f"{MISSES} The {findings.count} sparsity of a run misses its target by more than {distance}."
    return ReportTable(
        title,
        heads=_with_measured([HEADS[axis] for axis in axes], axes, MEASURED),
        columns=tuple(names),
        metrics=tuple(metrics.get(name, "") for name in names),
        rows=tuple(rows),
        footnote=footnote if has_misses else "",
    )


def _with_measured(labels: Sequence[str], axes: Sequence[Axis], measured: str) -> tuple[str, ...]:
    """Put the measured sparsity before the target; columns that are targets have no single measured one."""
    if "sparsity" not in axes:
        return tuple(labels)
    index = axes.index("sparsity")
    return (*labels[:index], measured, *labels[index:])


def _measured(findings: Findings, runs: Collection[StudyRun]) -> str:
    """Write the measured sparsities of a row's runs as one value or their range, marked where one misses its target."""
    pairs = [(value, run.target_sparsity) for run in runs if (value := findings.measured(run)) is not None]
    if not pairs:
        return ABSENT
    if all(run.is_dense for run in runs):
        return percent(0.0)
    low, high = (f"{100 * end(value for value, _ in pairs):.1f}" for end in (min, max))
    mark = MISSES if any(differ(value, target) for value, target in pairs) else ""
    return f"{low} %{mark}" if low == high else f"{low} to {high} %{mark}"


def _is_best(points: pd.DataFrame) -> pd.Series[bool]:
    """Return the best points among the sparse methods of the same model, target and task, unless all are equal."""
    import pandas as pd

    cells = zip(points["run"], points["cell"], strict=True)
    badness = pd.Series(
        [math.nan if run.is_dense or cell.value is None else _badness(cell.value) for run, cell in cells], points.index
    )
    groups = badness.groupby([points[axis] for axis in HEADS if axis not in _OF_METHOD])
    lowest = groups.transform("min")
    return badness.eq(lowest) & lowest.lt(groups.transform("max"))


def _badness(value: Value) -> float:
    """Return a number that is lower for a better value; a stereotype score is best at 50 %."""
    if base_metric(value.metric) == "pct_stereotype":
        return abs(value.value - 50)
    return value.value if value.higher_is_better is False else -value.value


def _metric_title(findings: Findings, measure: ReportMeasure) -> str:
    if measure.weights is not None:
        return f"mean of {len(measure.weights)}"
    return base_metric(measure.metric) or findings.metric_title(measure.task)
