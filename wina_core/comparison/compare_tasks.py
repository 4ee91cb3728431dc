"""Statistical comparison of two runs on one task, and its mean over tasks."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from wina_core.statistics.proportions import Z95, mcnemar_p, newcombe, normal_p
from wina_core.statistics.sign_flip import sign_flips
from wina_core.store import MetricRow
from wina_core.studies.published import base_metric

MCNEMAR, BOOTSTRAP, UNPAIRED = "exact McNemar", "paired bootstrap", "unpaired z"
FLIPPED, PROPAGATED = "sign flips", "propagated"
UNTESTED = "not tested"
INTERVALS = {
    MCNEMAR: "Newcombe's score interval for paired proportions",
    BOOTSTRAP: "percentiles of 10,000 paired resamples",
    UNPAIRED: "normal, from both standard errors as if independent",
    FLIPPED: "the effects that the test does not reject, widened to the tasks' combined intervals as far as p allows",
    UNTESTED: "none, since neither samples nor standard errors are stored",
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
    """Standard error of the effect."""
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


def untested(first: MetricRow, second: MetricRow) -> Comparison:
    """Return the values of two runs of which nothing says how sure they are: interval, stderr and p are NaN."""
    unknown = (math.nan,) * 4
    return Comparison(first.unit, first.task, first.metric, first.n, first.value, second.value, *unknown, test=UNTESTED)


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
