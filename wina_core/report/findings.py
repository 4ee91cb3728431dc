"""What the store knows about a study, gathered for its report, and the values that its tables show."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from wina_core.paper import base_metric, display_scale, preferred_metric
from wina_core.records import METRIC_UNITS
from wina_core.specs import COST, DEVIATION, SYNTHETIC
from wina_core.store import LatencyRow, MetricFilter, MetricRow, RunRow, Store, UnitRow
from wina_core.study_runs import StudyRun, study_runs
from wina_core.study_specs import StudySpec
from wina_core.synthetic.paper import SIZE


@dataclass(frozen=True)
class Value:
    """A number as tables show it: fractions in percent."""

    value: float
    stderr: float | None
    metric: str
    """"mean" for means over tasks."""
    higher_is_better: bool | None = None
    deviation: float | None = None
    """Over seeds, where the task reports one."""


@dataclass(frozen=True)
class Findings:
    """A study and all that is stored of it."""

    study: StudySpec
    runs: tuple[StudyRun, ...]
    rows: tuple[MetricRow, ...]
    units: tuple[UnitRow, ...]
    statuses: Mapping[str, RunRow]
    """By the run's hash."""
    latency: tuple[LatencyRow, ...]

    @cached_property
    def _by_unit(self) -> Mapping[tuple[str, str], Sequence[MetricRow]]:
        found: dict[tuple[str, str], list[MetricRow]] = {}
        for row in self.rows:
            found.setdefault((row.run, row.unit), []).append(row)
        return found

    @cached_property
    def tasks(self) -> tuple[str, ...]:
        """What the study measures beside the workbench's own units, in its order."""
        return self.study.evaluation.task_names if self.study.models else ()

    def of(self, run: str, unit: str) -> Sequence[MetricRow]:
        """The rows of one unit of a run; empty while it is missing."""
        return self._by_unit.get((run, unit), ())

    def value(self, run: str, task: str, metric: str = "") -> Value | None:
        """A task's value by the metric, the study's choice or the published evaluation's preference; of a group or tag
        without a value of its own, the mean over its members. None while it is missing."""
        unit = SYNTHETIC if self.study.evaluation.synthetic else task
        rows = self.of(run, unit)
        chosen = metric or self._chosen(task)
        own = _value([row for row in rows if row.task == task], chosen)
        if own is not None or unit == SYNTHETIC:
            return own
        members = dict.fromkeys(row.task for row in rows)
        return _mean([_value([row for row in rows if row.task == member], chosen) for member in members])

    def mean(self, run: str, weights: Mapping[str, float]) -> tuple[Value | None, int]:
        """The weighted mean over tasks, errors propagated as of independent ones, and how many are missing; None while
        any is."""
        values = [self.value(run, task) for task in weights]
        missing = sum(value is None for value in values)
        return (None if missing else _mean(values, list(weights.values()))), missing

    def _chosen(self, task: str) -> str:
        evaluation = self.study.evaluation
        return (evaluation.task(task).metric or "") if task in evaluation.task_names else ""

    @property
    def fractions(self) -> tuple[str, ...]:
        """The tasks whose values are fractions, which alone have a mean that says something."""
        return tuple(task for task in self.tasks if _is_fraction(self._metric_of(task)))

    def _metric_of(self, task: str) -> str:
        found = (self.value(run.run, task) for run in self.runs)
        return next((value.metric for value in found if value), "")

    def metric_title(self, task: str) -> str:
        """The metric that stands for a task in tables; empty while nothing is stored."""
        return base_metric(self._metric_of(task))

    @property
    def missing(self) -> tuple[int, int]:
        """How many measurements are missing, of how many."""
        wanted = {(run.run, unit) for run in self.runs for unit in run.evaluation.units}
        return len(wanted - {(unit.run, unit.unit) for unit in self.units}), len(wanted)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What whoever reads the numbers should know, each sentence once."""
        sentences = []
        demo = [role.name for role in self.study.roles if role.location == "demo"]
        if demo and self.study.paper:
            sentences.append(f"The shipped demo model stands for {', '.join(demo)}: the published numbers are not its.")
        synthetic = self.study.evaluation.synthetic
        if synthetic and self.study.paper and synthetic.size != SIZE:
            sentences.append(f"The published errors come out at size {SIZE}, not at {synthetic.size}.")
        limits = {task: self.study.evaluation.task(task).limit for task in self.tasks}
        limited = [f"{task} ({limit})" for task, limit in limits.items() if limit is not None]
        if limited:
            sentences.append(f"Only the first documents of these tasks were asked: {', '.join(limited)}.")
        cut: dict[str, int] = {}
        for row in self.rows:
            if row.truncated:
                cut[row.task] = max(cut.get(row.task, 0), row.truncated)
        if cut:
            named = ", ".join(f"{task} ({count} prompts)" for task, count in cut.items())
            sentences.append(f"Prompts longer than the model's context lost their beginning: {named}.")
        if len({(unit.device, unit.hardware, str(unit.versions)) for unit in self.units}) > 1:
            sentences.append("Not all was computed on the same hardware and libraries; the appendix tells which.")
        return (*sentences, *dict.fromkeys(row.warning for row in self.rows if row.warning))


def gather(store: Store, study: StudySpec) -> Findings:
    """All that is stored of a launched study; WinaError for one that was never launched here."""
    name = study.content_hash()
    latency = store.latency_rows(points=study.latency.hashes()) if study.latency else []
    return Findings(
        study=study,
        runs=study_runs(store, study),
        rows=tuple(store.metric_rows(MetricFilter(study=name))) if study.models else (),
        units=tuple(store.units(name)),
        statuses={row.run: row for row in store.runs(name)} if study.models else {},
        latency=tuple(latency),
    )


def own_metrics(study: StudySpec) -> tuple[tuple[str, str], ...]:
    """Task and metric of what the workbench itself measures in a study."""
    evaluation = study.evaluation
    if evaluation.synthetic or not study.models:
        return ()
    deviation = ("kl", "perplexity", "top1_agreement") if evaluation.deviation else ()
    cost = ("counted_flops_saving", "full_flops_saving", "full_bytes_saving") if evaluation.cost_context else ()
    return (*((DEVIATION, metric) for metric in deviation), *((COST, metric) for metric in cost))


def _is_fraction(metric: str) -> bool:
    return metric == "mean" or METRIC_UNITS.get(base_metric(metric)) == "fraction"


def _value(rows: Collection[MetricRow], metric: str) -> Value | None:
    by_name = {row.metric: row for row in rows}
    name = metric if metric in by_name else preferred_metric(list(by_name)) if not metric else None
    if name is None:
        return None
    row, scale = by_name[name], display_scale(name)
    deviation = by_name.get(f"{name}_deviation")
    return Value(
        value=scale * row.value,
        stderr=None if row.stderr is None else scale * row.stderr,
        metric=name,
        higher_is_better=row.higher_is_better,
        deviation=None if deviation is None else scale * deviation.value,
    )


def _mean(values: Sequence[Value | None], weights: Sequence[float] | None = None) -> Value | None:
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    total = weights or [1.0] * len(known)
    shares = [weight / sum(total) for weight in total]
    errors = [value.stderr for value in known]
    stderr = (
        math.hypot(*(share * error for share, error in zip(shares, errors, strict=True) if error is not None))
        if all(error is not None for error in errors)
        else None
    )
    metrics = {value.metric for value in known}
    better = {value.higher_is_better for value in known}
    return Value(
        value=sum(share * value.value for share, value in zip(shares, known, strict=True)),
        stderr=stderr,
        metric=metrics.pop() if len(metrics) == 1 else "mean",
        higher_is_better=better.pop() if len(better) == 1 else True,
    )
