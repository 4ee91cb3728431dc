"""A study's stored results, gathered for its report, and the values of its tables."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from wina_core.analysis.comparison.study_runs import StudyRun, study_runs
from wina_core.analysis.results.measured import DEFAULT_COUNT, Count, SparsityKind, count_of, measured_sparsity
from wina_core.errors import WinaError
from wina_core.model_info.gguf_header import read_gguf_header
from wina_core.model_info.resolve import fingerprint, gguf_file
from wina_core.model_info.sharing import last_part
from wina_core.records import METRIC_UNITS, ModelSummary, has_mean, noise_of
from wina_core.records.intervals import t95, wilson
from wina_core.specs import SYNTHETIC, EvaluationSpec, ModelSource
from wina_core.specs.studies import StudySpec
from wina_core.store import LatencyRow, MetricFilter, MetricRow, RunRow, Store, UnitRow
from wina_core.studies.gallery import gallery
from wina_core.studies.published import ERROR_SIZE, base_metric, display_scale, preferred_metric

_TWO_DECIMALS = ("l2 norm", "fraction", "per token", "per word", "per byte")
"""Units of which the paper prints two decimals."""


@dataclass(frozen=True)
class Value:
    """A number as tables show it: fractions in percent."""

    value: float
    stderr: float | None
    metric: str
    """"mean" for means over tasks."""
    higher_is_better: bool | None = None
    deviation: float | None = None
    """Standard deviation over seeds, where the task reports one."""
    n: int | None = None
    """Number of documents, of a mean its smallest task's; None where unknown."""
    interval: tuple[float, float] | None = None
    """95 % confidence interval: Wilson's of a fraction, else by Student's t; None without a standard error."""
    metrics: tuple[tuple[str, str], ...] = ()
    """Task and metric of the values that a mean is over."""


@dataclass(frozen=True)
class Findings:
    """A study and its stored results."""

    study: StudySpec
    runs: tuple[StudyRun, ...]
    rows: tuple[MetricRow, ...]
    units: tuple[UnitRow, ...]
    statuses: Mapping[str, RunRow]
    """{run's hash: row}"""
    latency: tuple[LatencyRow, ...]
    has_template: bool = False
    """True where one of the models is known to have a chat template."""
    remarks: tuple[str, ...] = ()
    """What to know about the weights of models from GGUF files, as sentences."""
    by: SparsityKind = DEFAULT_COUNT
    """Sparsity that pairs runs and is on the plots' axes."""

    @property
    def count(self) -> Count:
        return count_of(self.by)

    def measured(self, run: StudyRun) -> float | None:
        """Return the measured sparsity of a run, 0 of a dense one; None while nothing is measured."""
        return 0.0 if run.is_dense else measured_sparsity(run, self.count)

    @cached_property
    def _by_unit(self) -> Mapping[tuple[str, str], Sequence[MetricRow]]:
        by_unit: dict[tuple[str, str], list[MetricRow]] = {}
        for row in self.rows:
            by_unit.setdefault((row.run, row.unit), []).append(row)
        return by_unit

    @cached_property
    def tasks(self) -> tuple[str, ...]:
        """The study's tasks in its order, without the workbench's own units."""
        return self.study.evaluation.task_names if self.study.models else ()

    def of(self, run: str, unit: str) -> Sequence[MetricRow]:
        """Return the rows of one unit of a run; empty while it is missing."""
        return self._by_unit.get((run, unit), ())

    def value(self, run: str, task: str, metric: str = "") -> Value | None:
        """Return a task's value by the metric, the study's choice or the published evaluation's preference.

        A group or tag without a value of its own has its members' mean. None while the value is missing.
        """
        evaluation = self.study.evaluation
        unit = SYNTHETIC if evaluation.synthetic else task
        rows = self.of(run, unit)
        if not metric and task in evaluation.task_names:
            metric = evaluation.task(task).metric or ""
        of_task = _value([row for row in rows if row.task == task], metric, evaluation)
        if of_task is not None or unit == SYNTHETIC:
            return of_task
        members = dict.fromkeys(row.task for row in rows)
        return _mean([_value([row for row in rows if row.task == member], metric, evaluation) for member in members])

    def mean(self, run: str, weights: Mapping[str, float]) -> tuple[Value | None, int]:
        """Return the weighted mean over tasks, its error as of independent ones, and the number of missing tasks.

        The mean is None while any is missing.
        """
        values = [self.value(run, task) for task in weights]
        mean = _mean(values, list(weights.values()))
        if mean is not None:
            metrics = ((task, value.metric) for task, value in zip(weights, values, strict=True) if value)
            mean = replace(mean, metrics=tuple(metrics))
        return mean, sum(value is None for value in values)

    def _metric_of(self, task: str) -> str:
        values = (self.value(run.run, task) for run in self.runs)
        return next((value.metric for value in values if value), "")

    @property
    def fractions(self) -> tuple[str, ...]:
        """Tasks whose values are fractions; only these have a meaningful mean."""
        metrics = {task: self._metric_of(task) for task in self.tasks}
        return tuple(task for task, metric in metrics.items() if metric == "mean" or has_mean(base_metric(metric)))

    def metric_title(self, task: str) -> str:
        return base_metric(self._metric_of(task))

    @property
    def missing(self) -> tuple[int, int]:
        """Number of missing measurements, and of all."""
        requested = {(run.run, unit) for run in self.runs for unit in run.evaluation.units}
        return len(requested - {(unit.run, unit.unit) for unit in self.units}), len(requested)

    @property
    def of_demo(self) -> tuple[str, ...]:
        """Roles of the shipped demo model, or its own name where it has none."""
        roles = [role.name for role in self.study.roles if role.location == "demo"]
        return (*roles, *(("demo",) if any(model.location == "demo" for model in self.study.models) else ()))

    @property
    def warnings(self) -> tuple[str, ...]:
        return (*_warnings(self), *self.remarks, *dict.fromkeys(row.warning for row in self.rows if row.warning))


def gather(store: Store, study: StudySpec, by: SparsityKind = DEFAULT_COUNT) -> Findings:
    """Read all that is stored of a launched study. Raises WinaError for one that was never launched here."""
    name = study.content_hash()
    latency = store.latency_rows(points=study.latency.hashes()) if study.latency else []
    models = {spec.model.content_hash(): spec.model for spec in store.run_specs(name).values()}
    summaries = {model: store.model_summary(model) for model in models.values()}
    return Findings(
        study=study,
        has_template=bool(study.evaluation.tasks)
        and any(summary is not None and summary.chat_template for summary in summaries.values()),
        remarks=gguf_remarks(summaries),
        runs=study_runs(store, study),
        rows=tuple(store.metric_rows(MetricFilter(study=name))) if study.models else (),
        units=tuple(store.units(name)),
        statuses={row.run: row for row in store.runs(name)} if study.models else {},
        latency=tuple(latency),
        by=by,
    )


def chat_template_text(evaluation: EvaluationSpec, has_template: bool) -> str:
    """Return whether tasks were asked within a chat template; empty where the model may have none."""
    if evaluation.chat_template:
        return "chat template applied"
    return "chat template not applied" if has_template else ""


# ---- numbers ---------------------------------------------------------------------------------------------------


def number(value: float, metric: str) -> str:
    """Write a value as the paper prints it: two decimals, for other units four significant digits."""
    if abs(value) < noise_of(metric):
        return "0"
    if not math.isfinite(value):
        return str(value)
    unit = METRIC_UNITS.get(base_metric(metric))
    return f"{value:.2f}" if metric == "mean" or unit in _TWO_DECIMALS else f"{value:.4g}"


def signed(value: float, metric: str) -> str:
    """Write a value with its sign, and a typographic minus."""
    return f"{'−' if value < 0 else '+'}{number(abs(value), metric)}"


def _value(rows: Collection[MetricRow], metric: str, evaluation: EvaluationSpec) -> Value | None:
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
        n=row.n,
        interval=_interval(row, scale, evaluation.independent_values(row.unit, row.n)),
    )


def _interval(row: MetricRow, scale: float, values: int | None) -> tuple[float, float] | None:
    """Return the 95 % interval of a mean over so many independent values."""
    # Wilson's interval needs independent documents; the tokens of a text come in a few rows.
    if row.stderr is None or not math.isfinite(row.value):
        return None
    if row.n == values and row.n and METRIC_UNITS.get(base_metric(row.metric)) == "fraction" and 0 <= row.value <= 1:
        low, high = wilson(row.value * row.n, row.n)
        return scale * low, scale * high
    half = t95(values) * row.stderr
    return scale * (row.value - half), scale * (row.value + half)


def _mean(values: Sequence[Value | None], weights: Sequence[float] | None = None) -> Value | None:
    present = [value for value in values if value is not None]
    if not present or len(present) < len(values):
        return None
    weights = weights or [1.0] * len(present)
    shares = [weight / sum(weights) for weight in weights]
    errors = [value.stderr for value in present if value.stderr is not None]
    metrics = {value.metric for value in present}
    better = {value.higher_is_better for value in present}
    sizes = [value.n for value in present if value.n is not None]
    return Value(
        value=sum(share * value.value for share, value in zip(shares, present, strict=True)),
        stderr=_independent(shares, errors) if len(errors) == len(present) else None,
        metric=metrics.pop() if len(metrics) == 1 else "mean",
        higher_is_better=better.pop() if len(better) == 1 else True,
        n=min(sizes) if len(sizes) == len(present) else None,
        interval=_mean_interval(present, shares),
    )


def _mean_interval(values: Sequence[Value], shares: Sequence[float]) -> tuple[float, float] | None:
    """Combine the tasks' intervals as of independent tasks, by the root of the squared distances' sum."""
    ends = [value.interval for value in values if value.interval is not None]
    if len(ends) < len(values):
        return None
    middle = sum(share * value.value for share, value in zip(shares, values, strict=True))
    below, above = (
        _independent(shares, [value.value - end[side] for value, end in zip(values, ends, strict=True)])
        for side in (0, 1)
    )
    return middle - below, middle + above


def _independent(shares: Sequence[float], errors: Sequence[float]) -> float:
    return math.hypot(*(share * error for share, error in zip(shares, errors, strict=True)))


# ---- warnings --------------------------------------------------------------------------------------------------


def _warnings(findings: Findings) -> Iterator[str]:
    study, evaluation = findings.study, findings.study.evaluation
    if findings.of_demo and study.paper:
        roles = ", ".join(findings.of_demo)
        yield f"The shipped demo model replaces {roles}: the published numbers are of other models."
    for role in study.roles:
        if role.beside and study.paper:
            yield (
                f"The published numbers beside {role.name} are those of {role.beside}: compare what each loses, not "
                "the numbers."
            )
    if evaluation.synthetic and study.paper and evaluation.synthetic.size != ERROR_SIZE:
        yield f"The published errors come out at size {ERROR_SIZE}, not at {evaluation.synthetic.size}."
    specs = [evaluation.task(name) for name in findings.tasks]
    if limited := [f"{task.name} ({task.limit})" for task in specs if task.limit is not None and not task.first]:
        yield f"Only the first documents of these tasks were evaluated: {', '.join(limited)}."
    if later := [f"{task.name} ({task.documents})" for task in specs if task.first]:
        yield f"Not all documents of these tasks were evaluated: {', '.join(later)}."
    if shots := [f"{task} ({examples}-shot)" for task, examples in _other_shots(findings)]:
        yield f"The published numbers have other numbers of examples in the prompt: {', '.join(shots)}."
    truncated: dict[str, int] = {}
    for row in findings.rows:
        if row.truncated:
            truncated[row.task] = max(truncated.get(row.task, 0), row.truncated)
    if truncated:
        tasks = ", ".join(f"{task} ({count} prompts)" for task, count in truncated.items())
        yield f"Prompts longer than the model's context lost their beginning: {tasks}."
    if len({(unit.device, unit.hardware, str(unit.versions)) for unit in findings.units}) > 1:
        yield "The results were computed on different hardware or libraries; see the appendix."


def _other_shots(findings: Findings) -> Iterator[tuple[str, int]]:
    """Yield the tasks with another number of examples than in the study that repeats the paper exactly."""
    study = findings.study
    published = [
        entry.study.evaluation
        for entry in gallery()
        if entry.kind == "paper" and entry.study and study.paper and entry.study.paper == study.paper
    ]
    for task in findings.tasks:
        examples = study.evaluation.task(task).num_fewshot
        papers = {other.task(task).num_fewshot for other in published if task in other.task_names}
        if examples is not None and papers and examples not in papers:
            yield task, examples


def gguf_remarks(summaries: Mapping[ModelSource, ModelSummary | None]) -> tuple[str, ...]:
    """Return how GGUF files held the weights of some models with their stored summaries, a text for each file."""
    remarks = {(last_part(model.location), _gguf_remark(model, summary)) for model, summary in summaries.items()}
    return tuple(sorted(f"{name}: {remark}" for name, remark in remarks if remark))


def _gguf_remark(model: ModelSource, summary: ModelSummary | None) -> str:
    """Return the remark of a model's file, or of its summary where the file is elsewhere; empty for other models."""
    try:
        file = gguf_file(model)
        if file is not None and fingerprint(file) == model.fingerprint:
            return read_gguf_header(file).remark
    except WinaError:  # it lies on another machine, or no longer here
        pass
    remarks = () if summary is None else summary.remarks
    return next((remark for remark in remarks if "GGUF file" in remark), "")
