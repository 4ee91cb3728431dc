"""Comparison of stored runs with their references, paired by document where samples are stored.

The window, the report and the command line show several pairs.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from wina_core.analysis.comparison.compare_tasks import Comparison, Numbers, mean, paired, unpaired
from wina_core.analysis.statistics import holm_by_reference
from wina_core.errors import WinaError
from wina_core.records import SampleRecord, has_mean
from wina_core.records.intervals import FEWEST_ROWS
from wina_core.specs import COST, ORIGINAL, OWN_UNITS
from wina_core.specs.studies import StudySpec
from wina_core.store import MetricFilter, MetricRow
from wina_core.store.reader import Reader
from wina_core.studies.published import base_metric, mean_weights, preferred_metric, published


class RunComparisonResult(NamedTuple):
    """A run against its reference."""

    tasks: tuple[Comparison, ...]
    """One for each task that both have, the members of groups included; empty where the pair was refused."""
    mean: Comparison | None
    """The mean over the tasks in `averaged`; None where they have none."""
    averaged: tuple[str, ...]
    """The tasks that the mean is over."""
    refusal: str = ""
    """Reason why the pair cannot be compared."""

    @property
    def lines(self) -> tuple[Comparison, ...]:
        return (*self.tasks, *([self.mean] if self.mean else []))


def compare_pairs(
    store: Reader,
    pairs: Sequence[tuple[str, str]],
    study: StudySpec | None,
    *,
    allow_unpaired: bool = False,
    whole_tasks: bool = False,
    measure: tuple[str, str] | None = None,
) -> tuple[RunComparisonResult, ...]:
    """Compare each run with its reference, both given by their hashes, on every task that both have and on the mean.

    Each comparison has its p corrected by Holm for all runs with the same reference that have the test. The study
    decides the metrics, and the tasks and weights of the mean (`compare_with`): the one that is reported, or the
    `shared_study` of the runs.
    With `whole_tasks`, a group's members are replaced by the group. With `measure`, a task and a metric, only these are
    compared. A pair that cannot be compared has a refusal instead of results.
    """
    results = []
    for run, reference in pairs:
        try:
            if measure is None:
                result = compare_with(store, run, reference, study=study, allow_unpaired=allow_unpaired)
            else:
                of_task = compare_runs(store, run, reference, allow_unpaired=allow_unpaired, measure=measure)
                result = RunComparisonResult(of_task, None, ())
        except WinaError as error:
            result = RunComparisonResult((), None, (), str(error))
        results.append(result._replace(tasks=top_level(result.tasks)) if whole_tasks else result)
    # Untested comparisons are no members of a family: counting them would raise the p of the others.
    families = [{line.key: line.p for line in result.lines if not math.isnan(line.p)} for result in results]
    corrected = holm_by_reference([reference for _, reference in pairs], families)

    compared = []
    for result, ps in zip(results, corrected, strict=True):
        lines = [replace(line, corrected=ps.get(line.key, math.nan)) for line in result.lines]
        mean_line = lines.pop() if result.mean else None
        compared.append(result._replace(tasks=tuple(lines), mean=mean_line))
    return tuple(compared)


def compare_with(
    store: Reader, run: str, reference: str, *, study: StudySpec | None = None, allow_unpaired: bool = False
) -> RunComparisonResult:
    """Compare two runs, given by their hashes, on every task that both have, and on the mean over tasks.

    Tasks are compared by the metric that the study declares, else by the published evaluation's preference. The mean
    is over the tasks and with the weights of `weighted_tasks`. With `allow_unpaired`, tasks without stored samples are
    compared by their standard errors. Raises WinaError as `compare_runs`.
    """
    metrics, paper, tasks = (
        (study.evaluation.metrics, study.paper, study.evaluation.task_names) if study else ({}, "", ())
    )
    compared = compare_runs(store, run, reference, allow_unpaired=allow_unpaired, metrics=metrics)
    weighted = weighted_tasks(compared, paper, tasks)
    members, weights = [comparison for comparison, _ in weighted], [weight for _, weight in weighted]
    return RunComparisonResult(
        tasks=compared,
        mean=mean(members, weights) if members else None,
        averaged=tuple(comparison.task for comparison in members),
    )


def compare_runs(
    store: Reader,
    first: str,
    second: str,
    *,
    allow_unpaired: bool = False,
    metrics: Mapping[str, str] | None = None,
    measure: tuple[str, str] | None = None,
) -> tuple[Comparison, ...]:
    """Compare the runs with these hashes on every task that both have, by its preferred metric or the one in `metrics`;
    with `measure`, a task and a metric, on these alone.

    Paired by document; a group from its members' pairs, pooled or as their equal mean, whichever its value is. A group
    whose value is neither is compared by its standard errors, as `test` says, and so is, with `allow_unpaired`, a
    task whose samples are missing. What has no standard errors either is left out. Raises WinaError where the runs were
    asked different things or answered different documents, where samples are missing and may not be, and where no task
    is shared.
    """
    rows_1, rows_2 = _rows(store, first), _rows(store, second)
    comparisons: list[Comparison] = []
    unsure: list[str] = []
    for unit in (unit for unit in rows_1 if unit in rows_2):
        if measure is not None and measure[0] not in rows_1[unit]:
            continue
        has_documents = unit not in OWN_UNITS or unit == ORIGINAL
        samples = [store.samples(run, unit) for run in (first, second)] if has_documents else []
        for task in (task for task in rows_1[unit] if task in rows_2[unit]):
            if measure is not None and task != measure[0]:
                continue
            one, other = rows_1[unit][task], rows_2[unit][task]
            usual = "kl" if unit == ORIGINAL else preferred_metric([name for name in one if name in other])
            metric = measure[1] if measure else (metrics or {}).get(task) or usual
            if metric in one and metric in other:
                result = _compare(store, one[metric], other[metric], samples, allow_unpaired)
                comparisons += [] if result is None else [result]
                unsure += [task] if result is None else []
    if not comparisons and unsure:
        raise WinaError(
            f"Cannot compare {' and '.join(unsure)} of the runs {first[:8]} and {second[:8]}: neither samples nor "
            f"standard errors above 0, of {FEWEST_ROWS} documents or rows at least, are stored; evaluate more "
            "documents, or keep their samples."
        )
    if not comparisons:
        raise WinaError(
            f"The runs {first[:8]} and {second[:8]} have no task in common that can be compared; compare two runs of "
            "one study, or let their study be finished first."
        )
    return tuple(comparisons)


def _rows(store: Reader, run: str) -> dict[str, dict[str, dict[str, MetricRow]]]:
    """Return a run's metrics by unit, task and name."""
    rows_by_unit: dict[str, dict[str, dict[str, MetricRow]]] = {}
    for row in store.metric_rows(MetricFilter(runs=(run,))):
        if row.unit != COST:  # nothing about it is random
            rows_by_unit.setdefault(row.unit, {}).setdefault(row.task, {})[row.metric] = row
    return rows_by_unit


def _compare(
    store: Reader,
    first: MetricRow,
    second: MetricRow,
    samples: Sequence[Sequence[SampleRecord]],
    allow_unpaired: bool,
) -> Comparison | None:
    """Compare one task; None where it has neither documents nor standard errors."""
    if first.prompt_hash != second.prompt_hash:
        raise WinaError(
            f"The runs {first.run[:8]} and {second.run[:8]} were asked different prompts in {first.task} (few-shot, "
            "version or data differ), so they cannot be compared; compare runs of one study."
        )
    if not samples:
        return _unpaired(store, first, second) if allow_unpaired else None
    if all(samples):
        members = _paired_members(first, second, samples)
        built = _built(first, second, members)
        if built is None and [member.task for member in members] == [first.task] and not allow_unpaired:
            raise WinaError(
                f"{first.metric} of {first.task} is not a mean over its documents, so the runs cannot be compared in "
                "pairs; add --unpaired, or name another metric."
            )
        return built or _unpaired(store, first, second)
    if not allow_unpaired:
        lacking = first if not samples[0] else second
        raise WinaError(
            f"The run {lacking.run[:8]} has no samples of {first.unit} stored, which a paired comparison needs; "
            "compute them with wina study run STUDY --log-samples, or compare without pairs with --unpaired."
        )
    return _unpaired(store, first, second)


def _unpaired(store: Reader, first: MetricRow, second: MetricRow) -> Comparison | None:
    def rows(of: MetricRow) -> int | None:
        spec = store.run_spec(of.run)
        return of.n if spec is None else spec.evaluation.independent_values(of.unit, of.n)

    return unpaired(first, second, (rows(first), rows(second)))


class _Member(NamedTuple):
    """A task's documents in both runs, each [documents, 2]."""

    task: str
    first: Numbers
    second: Numbers


def _built(first: MetricRow, second: MetricRow, members: Sequence[_Member]) -> Comparison | None:
    """Compare a task or a group by its documents; None where they do not add up to the stored values.

    lm-eval's groups are the mean over their members, equally or weighted by size: the one that fits the values.
    """
    if not members:
        return None
    pooled = paired(first, *(np.concatenate([member[side] for member in members]) for side in (1, 2)))
    if _is_of(pooled, first, second):
        return pooled
    of_members = mean([paired(first, member.first, member.second) for member in members])
    if _is_of(of_members, first, second):
        return replace(of_members, unit=first.unit, task=first.task, metric=first.metric)
    return None


def _is_of(comparison: Comparison, first: MetricRow, second: MetricRow) -> bool:
    pairs = ((comparison.first, first.value), (comparison.second, second.value))
    return all(math.isclose(built, stored, rel_tol=1e-6, abs_tol=1e-9) for built, stored in pairs)


def _paired_members(
    first: MetricRow, second: MetricRow, samples: Sequence[Sequence[SampleRecord]]
) -> tuple[_Member, ...]:
    """Return the task itself or, for a group, all its members; none for a group within a group."""
    one, other = (_documents(of, first) for of in samples)
    if one.keys() != other.keys() or any(one[key].target != other[key].target for key in one):
        raise WinaError(
            f"The runs {first.run[:8]} and {second.run[:8]} answered different documents of {first.task} ({len(one)} "
            f"and {len(other)}), so they cannot be paired; compute both with the same limit and data."
        )
    keys: dict[str, list[tuple[str, int]]] = {}
    for key in one:
        keys.setdefault(key[0], []).append(key)

    def scores(of: Mapping[tuple[str, int], SampleRecord], task: str) -> Numbers:
        return np.array([of[key].scores[first.metric] for key in keys[task]], dtype=np.float64)

    return tuple(_Member(task, scores(one, task), scores(other, task)) for task in keys)


def _documents(samples: Collection[SampleRecord], row: MetricRow) -> dict[tuple[str, int], SampleRecord]:
    scored = {(sample.task, sample.doc): sample for sample in samples if row.metric in sample.scores}
    task_samples = {key: sample for key, sample in scored.items() if key[0] == row.task}
    return task_samples or (scored if row.task == row.unit else {})


def top_level(comparisons: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """Return one comparison per task of the study: a group's own where it is there, else the mean of its members. The
    workbench's own measurements stay as they are."""
    units: dict[str, list[Comparison]] = {}
    for comparison in comparisons:
        units.setdefault(comparison.unit if comparison.unit not in OWN_UNITS else comparison.task, []).append(
            comparison
        )
    return tuple(
        next((comparison for comparison in members if comparison.task == unit), None)
        or replace(mean(members), unit=unit, task=unit, metric=members[0].metric)
        for unit, members in units.items()
    )


def weighted_tasks(
    comparisons: Sequence[Comparison], paper: str = "", tasks: Collection[str] = ()
) -> tuple[tuple[Comparison, float], ...]:
    """Return the tasks that have a mean, each with its weight; none where there is no mean.

    In a study that repeats published numbers (`paper`), they are the tasks of the published mean, as far as the study
    has them among its `tasks`. In any other they are all fractions, equally weighted. There is no mean over one task,
    over tasks of which one is missing, and where the paper publishes none.
    """
    weights = {task: weight for task, weight in mean_weights(paper).items() if task in tasks}
    if weights:
        by_task = {comparison.task: comparison for comparison in top_level(comparisons)}
        weighted = [(by_task[task], weight) for task, weight in weights.items() if task in by_task]
        return tuple(weighted) if len(weights) == len(weighted) > 1 else ()
    if paper and any(number.task in tasks for number in published(paper)):
        return ()
    fractions = [
        comparison
        for comparison in top_level(comparisons)
        if comparison.unit not in OWN_UNITS and has_mean(base_metric(comparison.metric))
    ]
    return tuple((comparison, 1.0) for comparison in fractions) if len(fractions) > 1 else ()
