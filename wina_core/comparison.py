"""Is one stored run better than another? Paired by document where samples are stored, so that "better" has evidence."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from wina_core.errors import WinaError
from wina_core.paper import base_metric, preferred_metric
from wina_core.records import METRIC_UNITS, SampleRecord
from wina_core.specs import COST
from wina_core.store import MetricFilter, MetricRow
from wina_core.store.reader import OWN_UNITS, Reader

MCNEMAR, BOOTSTRAP, UNPAIRED, PROPAGATED = "exact McNemar", "paired bootstrap", "unpaired z", "propagated"
INTERVALS = {
    MCNEMAR: "Newcombe's score interval for paired proportions",
    BOOTSTRAP: "percentiles of 10,000 paired resamples",
    UNPAIRED: "normal, from both standard errors as if independent",
    PROPAGATED: "the tasks' intervals, their distances from the effects squared and added",
}
"""What each test's 95 % interval is."""

MEAN_OF_TASKS = "mean of tasks"
RESAMPLES = 10_000
Z95 = NormalDist().inv_cdf(0.975)

Numbers = NDArray[np.float64]
_SEED = 20_000
_AT_ONCE = 2_000_000
"""Numbers drawn at a time, to bound the memory of resampling."""
_PERPLEXITIES = ("perplexity", "word_perplexity", "byte_perplexity")


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

    @property
    def effect(self) -> float:
        """First minus second."""
        return self.first - self.second


# ---- statistics ------------------------------------------------------------------------------------------------


def mcnemar_p(first_only: int, second_only: int) -> float:
    """Two-sided exact McNemar test: of the discordant documents, each run wins half by chance."""
    from scipy.stats import binomtest  # a second, in a module that the window imports

    discordant = first_only + second_only
    return float(binomtest(first_only, discordant, 0.5).pvalue) if discordant else 1.0


def newcombe(both: int, first_only: int, second_only: int, neither: int) -> tuple[float, float]:
    """95 % interval of the difference of paired proportions: Newcombe's method 10 (Statistics in Medicine 17, 1998,
    2635-2650), Wilson intervals of the two proportions joined by their continuity-corrected correlation."""
    n = both + first_only + second_only + neither
    yes_first, yes_second = both + first_only, both + second_only
    first, second = yes_first / n, yes_second / n
    (low_1, high_1), (low_2, high_2) = _wilson(yes_first, n), _wilson(yes_second, n)
    margins = yes_first * (n - yes_first) * yes_second * (n - yes_second)
    excess = both * neither - first_only * second_only
    phi = (max(excess - n / 2, 0.0) if excess > 0 else excess) / math.sqrt(margins) if margins else 0.0

    def joined(one: float, other: float) -> float:
        return math.sqrt(max(one**2 - 2 * phi * one * other + other**2, 0.0))

    effect = first - second
    return effect - joined(first - low_1, high_2 - second), effect + joined(high_1 - first, second - low_2)


def _wilson(successes: int, n: int) -> tuple[float, float]:
    share, z2 = successes / n, Z95**2
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = Z95 / (1 + z2 / n) * math.sqrt(share * (1 - share) / n + z2 / (4 * n**2))
    return (0.0 if successes == 0 else centre - half), (1.0 if successes == n else centre + half)


def aggregate(metric: str, total: Numbers | float, weight: Numbers | float) -> Numbers:
    """A task's value from the sums of its documents' scores and weights; perplexities' scores are log-likelihoods."""
    ratio = np.asarray(total, dtype=np.float64) / weight
    name = base_metric(metric)
    if name in _PERPLEXITIES:
        return np.exp(-ratio)
    return -ratio / math.log(2) if name == "bits_per_byte" else ratio


def bootstrap(metric: str, first: Numbers, second: Numbers) -> tuple[float, float, float, float]:
    """Low and high end of the effect's 95 % interval, its p and its standard error, from RESAMPLES resamples of the
    documents; always the same for the same scores.

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


def normal_p(effect: float, stderr: float) -> float:
    """Two-sided p of an effect with a known standard error."""
    if stderr == 0:
        return 1.0 if effect == 0 else 0.0
    return math.erfc(abs(effect) / stderr / math.sqrt(2))


# ---- one task --------------------------------------------------------------------------------------------------


def paired(row: MetricRow, scores_1: Numbers, scores_2: Numbers) -> Comparison:
    """Two runs on the same documents; `row`, of either, names the metric; `scores_1`, `scores_2`: [documents, 2], score
    and weight."""
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
    return Comparison(
        row.unit, row.task, row.metric, n, first, second, low, high, stderr, p, test, first_only=one, second_only=other
    )


def _right_or_wrong(scores: Numbers) -> bool:
    return bool(np.isin(scores[:, 0], (0.0, 1.0)).all() and (scores[:, 1] == 1).all())


def unpaired(first: MetricRow, second: MetricRow) -> Comparison | None:
    """Two runs from their values and standard errors alone, as if independent: wider than paired where, as usual, runs
    agree on most documents. None without standard errors."""
    if first.stderr is None or second.stderr is None:
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
    """The mean over tasks, equally or by weights, errors propagated as of independent tasks: p from their standard
    errors, the interval from their intervals (Zou and Donner, Statistics in Medicine 27, 2008, 1693-1702), which keeps
    its width where few documents all agree."""
    total = weights or [1.0] * len(comparisons)
    shares = [weight / sum(total) for weight in total]

    def added(of: Callable[[Comparison], float]) -> float:
        return sum(share * of(each) for share, each in zip(shares, comparisons, strict=True))

    def in_squares(of: Callable[[Comparison], float]) -> float:
        return math.hypot(*(share * of(each) for share, each in zip(shares, comparisons, strict=True)))

    first, second = added(lambda each: each.first), added(lambda each: each.second)
    effect, stderr = first - second, in_squares(lambda each: each.stderr)
    return Comparison(
        unit="",
        task=MEAN_OF_TASKS,
        metric="mean",
        n=sum(each.n for each in comparisons if each.n is not None),
        first=first,
        second=second,
        low=effect - in_squares(lambda each: each.effect - each.low),
        high=effect + in_squares(lambda each: each.high - each.effect),
        stderr=stderr,
        p=normal_p(effect, stderr),
        test=PROPAGATED,
    )


# ---- two runs --------------------------------------------------------------------------------------------------


def compare_runs(
    store: Reader, first: str, second: str, *, allow_unpaired: bool = False, metrics: Mapping[str, str] | None = None
) -> tuple[Comparison, ...]:
    """The runs with these hashes on every task that both have, each by its preferred metric or the one in `metrics`.

    Paired by document. `allow_unpaired`: where samples are missing, and for what has none, from standard errors.
    Raises WinaError where the runs were asked different things or answered different documents, where samples are
    missing and may not be, and where no task is shared. A group whose value its members' documents do not make up is
    left to its members.
    """
    rows_1, rows_2 = _rows(store, first), _rows(store, second)
    found: list[Comparison] = []
    for unit in (unit for unit in rows_1 if unit in rows_2):
        samples = [] if unit in OWN_UNITS else [store.samples(run, unit) for run in (first, second)]
        for task in (task for task in rows_1[unit] if task in rows_2[unit]):
            one, other = rows_1[unit][task], rows_2[unit][task]
            metric = (metrics or {}).get(task) or preferred_metric([name for name in one if name in other])
            if metric in one and metric in other:
                result = _compare(one[metric], other[metric], samples, allow_unpaired)
                found += [] if result is None else [result]
    if not found:
        raise WinaError(
            f"The runs {first[:8]} and {second[:8]} have no task in common that can be compared; compare two runs of "
            "one study, or let their study be finished first."
        )
    return tuple(found)


def _rows(store: Reader, run: str) -> dict[str, dict[str, dict[str, MetricRow]]]:
    """A run's metrics by unit, task and name."""
    found: dict[str, dict[str, dict[str, MetricRow]]] = {}
    for row in store.metric_rows(MetricFilter(runs=(run,))):
        if row.unit != COST:  # nothing about it is random
            found.setdefault(row.unit, {}).setdefault(row.task, {})[row.metric] = row
    return found


def _compare(
    first: MetricRow, second: MetricRow, samples: Sequence[Sequence[SampleRecord]], allow_unpaired: bool
) -> Comparison | None:
    """None for what has neither documents of its own nor standard errors."""
    if first.prompt_hash != second.prompt_hash:
        raise WinaError(
            f"The runs {first.run[:8]} and {second.run[:8]} were asked different prompts in {first.task} (few-shot, "
            "version or data differ), so they cannot be compared; compare runs of one study."
        )
    if samples and all(samples):
        together = _matched(first, second, samples)
        if together is not None:
            return paired(first, *together)
        own = any(sample.task == first.task and first.metric in sample.scores for sample in samples[0])
        if own and not allow_unpaired:
            raise WinaError(
                f"{first.metric} of {first.task} is not a mean over its documents, so the runs cannot be compared in "
                "pairs; add --unpaired, or name another metric."
            )
    elif samples and not allow_unpaired:
        lacking = first if not samples[0] else second
        raise WinaError(
            f"The run {lacking.run[:8]} has no samples of {first.unit} stored, which a paired comparison needs; "
            "compute them with --samples (wina study run STUDY --samples), or compare without pairs with --unpaired."
        )
    return unpaired(first, second) if allow_unpaired else None


def _matched(
    first: MetricRow, second: MetricRow, samples: Sequence[Sequence[SampleRecord]]
) -> tuple[Numbers, Numbers] | None:
    """Both runs' scores and weights by document, of the task itself or, for a group, of all its members; None where
    they do not add up to the stored values."""
    documents = [_documents(of, first) for of in samples]
    one, other = documents
    if one.keys() != other.keys() or any(one[key].target != other[key].target for key in one):
        raise WinaError(
            f"The runs {first.run[:8]} and {second.run[:8]} answered different documents of {first.task} ({len(one)} "
            f"and {len(other)}), so they cannot be paired; compute both with the same limit and data."
        )
    if not one:
        return None
    scores = [np.array([of[key].scores[first.metric] for key in one], dtype=np.float64) for of in documents]
    for row, own in zip((first, second), scores, strict=True):
        if not math.isclose(aggregate(row.metric, *own.sum(axis=0)), row.value, rel_tol=1e-6, abs_tol=1e-9):
            return None
    return scores[0], scores[1]


def _documents(samples: Collection[SampleRecord], row: MetricRow) -> dict[tuple[str, int], SampleRecord]:
    scored = {(sample.task, sample.doc): sample for sample in samples if row.metric in sample.scores}
    own = {key: sample for key, sample in scored.items() if key[0] == row.task}
    return own or (scored if row.task == row.unit else {})


def top_level(comparisons: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """One for each task of the study: that of a group itself where it is there, else the mean of its members. What the
    workbench measures itself stays as it is."""
    units: dict[str, list[Comparison]] = {}
    for each in comparisons:
        units.setdefault(each.unit if each.unit not in OWN_UNITS else each.task, []).append(each)
    return tuple(
        next((each for each in members if each.task == unit), None)
        or replace(mean(members), unit=unit, task=unit, metric=members[0].metric)
        for unit, members in units.items()
    )


def averageable(comparisons: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """Those of tasks whose metric is a fraction, which alone have a mean that says something."""
    return tuple(
        each
        for each in top_level(comparisons)
        if each.unit not in OWN_UNITS and METRIC_UNITS.get(base_metric(each.metric)) == "fraction"
    )
