"""Statistical comparison of two stored runs, paired by document where samples are stored."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wina_core.errors import WinaError
from wina_core.records import METRIC_UNITS, SampleRecord
from wina_core.specs import COST, OWN_UNITS
from wina_core.specs.studies import StudySpec
from wina_core.statistics.proportions import Z95, mcnemar_p, newcombe, normal_p
from wina_core.statistics.sign_flip import sign_flips
from wina_core.store import MetricFilter, MetricRow
from wina_core.store.reader import Reader
from wina_core.studies.published import base_metric, mean_weights, preferred_metric, published

MCNEMAR, BOOTSTRAP, UNPAIRED = "exact McNemar", "paired bootstrap", "unpaired z"
FLIPPED, PROPAGATED = "sign flips", "propagated"
INTERVALS = {
    MCNEMAR: "Newcombe's score interval for paired proportions",
    BOOTSTRAP: "percentiles of 10,000 paired resamples",
    UNPAIRED: "normal, from both standard errors as if independent",
    FLIPPED: "the effects that the test does not reject, widened to the tasks' combined intervals as far as p allows",
    PROPAGATED: "the tasks' intervals combined, their distances from the effects squared and added",
}
"""What each test's 95 % interval is."""

MEAN_OF_TASKS = "mean of tasks"
RESAMPLES = 10_000

Numbers = NDArray[np.float64]
TestKey = tuple[str, str, str]
"""Unit, task and metric of a test."""
_SEED = 20_000
_AT_ONCE = 2_000_000
"""Numbers drawn at a time, to bound the memory of resampling."""
_PERPLEXITIES = ("perplexity", "word_perplexity", "byte_perplexity")
_OF_SUMS = (*_PERPLEXITIES, "bits_per_byte")
"""Metrics that are not a mean over documents but come from sums."""


@dataclass(frozen=True)
class Comparison:
    """The first run against the second on one task, in the metric's own unit."""

    unit: str
    task: str
    metric: str
    n: int | None
    """Documents."""
    first: float
    second: float
    low: float
    """95 % interval of the effect: INTERVALS[test]."""
    high: float
    stderr: float
    """Of the effect."""
    p: float
    """Two-sided."""
    test: str
    first_only: int | None = None
    """Documents that the first run got right and the second wrong; None where documents are not right or wrong."""
    second_only: int | None = None
    documents: "tuple[Numbers, Numbers] | None" = field(default=None, repr=False, compare=False)
    """Contribution of each document to the effect, and its share in it; both [documents]. None where documents were not
    paired, or do not simply add up."""

    @property
    def key(self) -> TestKey:
        """Unit, task and metric."""
        return self.unit, self.task, self.metric

    @property
    def effect(self) -> float:
        """First minus second."""
        return self.first - self.second


# ---- resampling ------------------------------------------------------------------------------------------------


def aggregate(metric: str, total: Numbers | float, weight: Numbers | float) -> Numbers:
    """Compute a task's value from the sums of its documents' scores and weights (log-likelihoods for perplexities)."""
    ratio = np.asarray(total, dtype=np.float64) / weight
    name = base_metric(metric)
    if name in _PERPLEXITIES:
        return np.exp(-ratio)
    return -ratio / math.log(2) if name == "bits_per_byte" else ratio


def bootstrap(metric: str, first: Numbers, second: Numbers) -> tuple[float, float, float, float]:
    """Return low and high end of the effect's 95 % interval, its p and its standard error from RESAMPLES resamples of
    the documents; always the same for the same scores.

    `first`, `second`: [documents, 2], score and weight. p is twice the smaller share of resampled effects on one side
    of zero, itself counted as one more resample.
    """
    draw = np.random.default_rng(_SEED)
    n = len(first)
    effects = []
    scores = np.concatenate([first, second], axis=1)  # [documents, 4]
    for size in _portions(RESAMPLES, max(1, _AT_ONCE // n)):
        times = draw.multinomial(n, np.full(n, 1 / n), size=size).astype(np.float64)
        sums = times @ scores
        effects.append(aggregate(metric, sums[:, 0], sums[:, 1]) - aggregate(metric, sums[:, 2], sums[:, 3]))
    effect = np.concatenate(effects)
    low, high = np.quantile(effect, (0.025, 0.975))
    side = min(int((effect <= 0).sum()), int((effect >= 0).sum()))
    return float(low), float(high), min(1.0, 2 * (1 + side) / (1 + RESAMPLES)), float(effect.std(ddof=1))


def _portions(total: int, most: int) -> list[int]:
    return [min(most, total - start) for start in range(0, total, most)]


# ---- one task --------------------------------------------------------------------------------------------------


def paired(row: MetricRow, scores_1: Numbers, scores_2: Numbers) -> Comparison:
    """Compare two runs on the same documents. `row`, of either, names the metric; `scores_1`, `scores_2`:
    [documents, 2], score and weight."""
    n = len(scores_1)
    first, second = (float(aggregate(row.metric, *scores.sum(axis=0))) for scores in (scores_1, scores_2))
    one: int | None = None
    other: int | None = None
    if _right_or_wrong(scores_1) and _right_or_wrong(scores_2):
        right_1, right_2 = scores_1[:, 0] == 1, scores_2[:, 0] == 1
        both, one, other = (int(found.sum()) for found in (right_1 & right_2, right_1 & ~right_2, ~right_1 & right_2))
        low, high = newcombe(both, one, other, n - both - one - other)
        p, test = mcnemar_p(one, other), MCNEMAR
        stderr = float(np.std(scores_1[:, 0] - scores_2[:, 0], ddof=1)) / math.sqrt(n) if n > 1 else math.inf
    else:
        low, high, p, stderr = bootstrap(row.metric, scores_1, scores_2)
        test = BOOTSTRAP
    documents = None
    if np.array_equal(scores_1[:, 1], scores_2[:, 1]) and base_metric(row.metric) not in _OF_SUMS:
        documents = (scores_1[:, 0] - scores_2[:, 0]) / scores_1[:, 1].sum(), scores_1[:, 1] / scores_1[:, 1].sum()
    return Comparison(
        row.unit, row.task, row.metric, n, first, second, low, high, stderr, p, test, one, other, documents
    )


def _right_or_wrong(scores: Numbers) -> bool:
    return bool(np.isin(scores[:, 0], (0.0, 1.0)).all() and (scores[:, 1] == 1).all())


def unpaired(first: MetricRow, second: MetricRow) -> Comparison | None:
    """Compare two runs by values and standard errors alone, as if independent: wider than paired, as runs agree on most
    documents. None without standard errors, and where one is 0: a few documents with the same score give no estimate
    of the error."""
    if not first.stderr or not second.stderr:
        return None
    effect, stderr = first.value - second.value, math.hypot(first.stderr, second.stderr)
    return Comparison(
        unit=first.unit,
        task=first.task,
        metric=first.metric,
        n=first.n,
        first=first.value,
        second=second.value,
        low=effect - Z95 * stderr,
        high=effect + Z95 * stderr,
        stderr=stderr,
        p=normal_p(effect, stderr),
        test=UNPAIRED,
    )


def mean(comparisons: Sequence[Comparison], weights: Sequence[float] | None = None) -> Comparison:
    """Average the tasks, equally or by weights. Where all are paired, test by flipping the signs of all their documents
    (`sign_flips`). Else from the tasks' intervals, their distances from the effects squared and added (Zou and Donner,
    Statistics in Medicine 27, 2008, 1693-1702), with the p of a normal distribution of just that interval.

    Flips of documents that hardly differ leave a narrow interval; where the tasks' own reach further, it does too, but
    never over 0 where p < 0.05: 0 is outside of the interval exactly where p says so."""
    total = weights or [1.0] * len(comparisons)
    shares = [weight / sum(total) for weight in total]

    def added(of: Callable[[Comparison], float]) -> float:
        return sum(share * of(each) for share, each in zip(shares, comparisons, strict=True))

    def in_squares(of: Callable[[Comparison], float]) -> float:
        return math.hypot(*(share * of(each) for share, each in zip(shares, comparisons, strict=True)))

    first, second = added(lambda each: each.first), added(lambda each: each.second)
    effect = first - second
    together = _together(comparisons, shares)
    low = effect - in_squares(lambda each: each.effect - each.low)
    high = effect + in_squares(lambda each: each.high - each.effect)
    if together is None:
        p = normal_p(effect, (effect - low if effect > 0 else high - effect) / Z95)
    else:
        p, inner_low, inner_high = sign_flips(*together)
        low = inner_low if low <= 0 < inner_low else min(low, inner_low)
        high = inner_high if inner_high < 0 <= high else max(high, inner_high)
    return Comparison(
        unit="",
        task=MEAN_OF_TASKS,
        metric="mean",
        n=sum(each.n for each in comparisons if each.n is not None),
        first=first,
        second=second,
        low=low,
        high=high,
        stderr=in_squares(lambda each: each.stderr),
        p=p,
        test=PROPAGATED if together is None else FLIPPED,
        documents=together,
    )


def _together(comparisons: Sequence[Comparison], shares: Sequence[float]) -> tuple[Numbers, Numbers] | None:
    """Join the documents of all tasks; None where one task has none."""
    known = [each.documents for each in comparisons if each.documents is not None]
    if not known or len(known) < len(comparisons):
        return None
    contributions, weights = (
        np.concatenate([share * each[side] for share, each in zip(shares, known, strict=True)]) for side in (0, 1)
    )
    return contributions, weights


# ---- two runs --------------------------------------------------------------------------------------------------


class RunComparisonResult(NamedTuple):
    """A run against its reference."""

    tasks: tuple[Comparison, ...]
    """One for each task that both have, the members of groups included."""
    mean: Comparison | None
    """The mean over the tasks in `averaged`; None where they have none."""
    averaged: tuple[str, ...]
    """The tasks that the mean is over."""

    @property
    def lines(self) -> tuple[Comparison, ...]:
        """Return the tasks, then the mean if there is one."""
        return (*self.tasks, *([self.mean] if self.mean else []))


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
    members, weights = [each for each, _ in weighted], [weight for _, weight in weighted]
    return RunComparisonResult(
        tasks=compared,
        mean=mean(members, weights) if members else None,
        averaged=tuple(each.task for each in members),
    )


def compare_runs(
    store: Reader, first: str, second: str, *, allow_unpaired: bool = False, metrics: Mapping[str, str] | None = None
) -> tuple[Comparison, ...]:
    """Compare the runs with these hashes on every task that both have, by its preferred metric or the one in `metrics`.

    Paired by document; a group from its members' pairs, pooled or as their equal mean, whichever its value is. A group
    whose value is neither is compared by its standard errors, as `test` says, and so is, with `allow_unpaired`, a
    task whose samples are missing. What has no standard errors either is left out. Raises WinaError where the runs were
    asked different things or answered different documents, where samples are missing and may not be, and where no task
    is shared.
    """
    rows_1, rows_2 = _rows(store, first), _rows(store, second)
    found: list[Comparison] = []
    unsure: list[str] = []
    for unit in (unit for unit in rows_1 if unit in rows_2):
        samples = [] if unit in OWN_UNITS else [store.samples(run, unit) for run in (first, second)]
        for task in (task for task in rows_1[unit] if task in rows_2[unit]):
            one, other = rows_1[unit][task], rows_2[unit][task]
            metric = (metrics or {}).get(task) or preferred_metric([name for name in one if name in other])
            if metric in one and metric in other:
                result = _compare(one[metric], other[metric], samples, allow_unpaired)
                found += [] if result is None else [result]
                unsure += [task] if result is None else []
    if not found and unsure:
        raise WinaError(
            f"Cannot compare {' and '.join(unsure)} of the runs {first[:8]} and {second[:8]}: neither samples nor "
            "standard errors above 0 are stored; evaluate more documents, or keep their samples."
        )
    if not found:
        raise WinaError(
            f"The runs {first[:8]} and {second[:8]} have no task in common that can be compared; compare two runs of "
            "one study, or let their study be finished first."
        )
    return tuple(found)


def _rows(store: Reader, run: str) -> dict[str, dict[str, dict[str, MetricRow]]]:
    """Return a run's metrics by unit, task and name."""
    found: dict[str, dict[str, dict[str, MetricRow]]] = {}
    for row in store.metric_rows(MetricFilter(runs=(run,))):
        if row.unit != COST:  # nothing about it is random
            found.setdefault(row.unit, {}).setdefault(row.task, {})[row.metric] = row
    return found


def _compare(
    first: MetricRow, second: MetricRow, samples: Sequence[Sequence[SampleRecord]], allow_unpaired: bool
) -> Comparison | None:
    """Compare one task; None where it has neither documents nor standard errors."""
    if first.prompt_hash != second.prompt_hash:
        raise WinaError(
            f"The runs {first.run[:8]} and {second.run[:8]} were asked different prompts in {first.task} (few-shot, "
            "version or data differ), so they cannot be compared; compare runs of one study."
        )
    if not samples:
        return unpaired(first, second) if allow_unpaired else None
    if all(samples):
        members = _paired_members(first, second, samples)
        built = _built(first, second, members)
        if built is None and [each.task for each in members] == [first.task] and not allow_unpaired:
            raise WinaError(
                f"{first.metric} of {first.task} is not a mean over its documents, so the runs cannot be compared in "
                "pairs; add --unpaired, or name another metric."
            )
        return built or unpaired(first, second)
    if not allow_unpaired:
        lacking = first if not samples[0] else second
        raise WinaError(
            f"The run {lacking.run[:8]} has no samples of {first.unit} stored, which a paired comparison needs; "
            "compute them with wina study run STUDY --log-samples, or compare without pairs with --unpaired."
        )
    return unpaired(first, second)


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
    pooled = paired(first, *(np.concatenate([each[side] for each in members]) for side in (1, 2)))
    if _is_of(pooled, first, second):
        return pooled
    of_members = mean([paired(first, each.first, each.second) for each in members])
    if _is_of(of_members, first, second):
        return replace(of_members, unit=first.unit, task=first.task, metric=first.metric)
    return None


def _is_of(found: Comparison, first: MetricRow, second: MetricRow) -> bool:
    pairs = ((found.first, first.value), (found.second, second.value))
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
    own = {key: sample for key, sample in scored.items() if key[0] == row.task}
    return own or (scored if row.task == row.unit else {})


def top_level(comparisons: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """Return one comparison per task of the study: a group's own where it is there, else the mean of its members. The
    workbench's own measurements stay as they are."""
    units: dict[str, list[Comparison]] = {}
    for each in comparisons:
        units.setdefault(each.unit if each.unit not in OWN_UNITS else each.task, []).append(each)
    return tuple(
        next((each for each in members if each.task == unit), None)
        or replace(mean(members), unit=unit, task=unit, metric=members[0].metric)
        for unit, members in units.items()
    )


def averageable(comparisons: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """Return the tasks whose metric is a fraction that is better when higher: only these have a meaningful mean (a
    stereotype score is best at one half)."""
    return tuple(
        each for each in top_level(comparisons) if each.unit not in OWN_UNITS and has_mean(base_metric(each.metric))
    )


def has_mean(metric: str) -> bool:
    """Return whether values of a metric can be averaged over tasks."""
    return METRIC_UNITS.get(metric) == "fraction" and metric not in ("pct_stereotype", "distance_from_unbiased")


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
        by_task = {each.task: each for each in top_level(comparisons)}
        found = [(by_task[task], weight) for task, weight in weights.items() if task in by_task]
        return tuple(found) if len(weights) == len(found) > 1 else ()
    if paper and any(number.task in tasks for number in published(paper)):
        return ()
    several = averageable(comparisons)
    return tuple((each, 1.0) for each in several) if len(several) > 1 else ()
