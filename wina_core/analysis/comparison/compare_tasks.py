"""Statistical comparison of two runs on one task, and its mean over tasks."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from wina_core.analysis.statistics import exchange_p, mcnemar_p, sign_flips, smallest_p
from wina_core.records.intervals import Z95, newcombe, t95, t_p, welch_n
from wina_core.store import MetricRow
from wina_core.studies.published import base_metric

MCNEMAR, EXCHANGED, UNPAIRED = "exact McNemar", "exchanged runs", "unpaired t"
FLIPPED, PROPAGATED = "sign flips", "propagated"
UNTESTED = "not tested"
INTERVALS = {
    MCNEMAR: "Newcombe's score interval for paired proportions",
    EXCHANGED: "the effects that exchanging the runs document by document does not reject",
    UNPAIRED: "Student's t, from both standard errors as if independent (Welch)",
    FLIPPED: "the effects that the test does not reject; of a mean, widened to the tasks' intervals as far as p allows",
    UNTESTED: "none: it needs two documents, or the standard errors of six values or more",
    PROPAGATED: "the tasks' intervals combined, their distances from the effects squared and added",
}
"""What each test's 95 % interval is. An end is infinite where no effect of that sign can be rejected."""

MEAN_OF_TASKS = "mean of tasks"

Numbers = NDArray[np.float64]
TestKey = tuple[str, str, str]
"""Unit, task and metric of a test."""
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
    """Two-sided; NaN where nothing was tested."""
    test: str
    first_only: int | None = None
    """Documents that the first run got right and the second wrong; None where documents are not right or wrong."""
    second_only: int | None = None
    documents: "tuple[Numbers, Numbers] | None" = field(default=None, repr=False, compare=False)
    """Contribution of each document to the effect, and its share in it; both [documents]. None where documents were not
    paired, or do not simply add up."""
    smallest_p: float | None = field(default=None, kw_only=True)
    """Smallest p that the test could give with its documents, so many of which differ; None for other tests."""
    corrected: float = field(default=math.nan, kw_only=True, compare=False)
    """p corrected by Holm for the runs that were compared with the same one; NaN where nothing was tested."""

    @property
    def key(self) -> TestKey:
        return self.unit, self.task, self.metric

    @property
    def effect(self) -> float:
        """First minus second."""
        return self.first - self.second


# ---- one task --------------------------------------------------------------------------------------------------


def aggregate(metric: str, total: Numbers | float, weight: Numbers | float) -> Numbers:
    """Compute a task's value from the sums of its documents' scores and weights (log-likelihoods for perplexities)."""
    ratio = np.asarray(total, dtype=np.float64) / weight
    name = base_metric(metric)
    if name in _PERPLEXITIES:
        return np.exp(-ratio)
    return -ratio / math.log(2) if name == "bits_per_byte" else ratio


def paired(row: MetricRow, scores_1: Numbers, scores_2: Numbers) -> Comparison:
    """Compare two runs on the same documents. `row`, of either, names the metric; `scores_1`, `scores_2`:
    [documents, 2], score and weight.

    Without a difference between the runs, either could have given either of a document's two scores. Of one document
    nothing is tested.
    """
    n = len(scores_1)
    first, second = (float(aggregate(row.metric, *scores.sum(axis=0))) for scores in (scores_1, scores_2))
    differences, shares = _contributions(scores_1, scores_2)
    one: int | None = None
    other: int | None = None
    if _right_or_wrong(scores_1) and _right_or_wrong(scores_2):
        right_1, right_2 = scores_1[:, 0] == 1, scores_2[:, 0] == 1
        both, one, other = (int(mask.sum()) for mask in (right_1 & right_2, right_1 & ~right_2, ~right_1 & right_2))
        low, high = newcombe(both, one, other, n - both - one - other)
        p, smallest, test = mcnemar_p(one, other), mcnemar_p(one + other, 0), MCNEMAR
    else:
        p, low, high = sign_flips(differences, shares)
        smallest = smallest_p(differences, shares)
        equal_weights = np.array_equal(scores_1[:, 1], scores_2[:, 1])
        if not equal_weights:  # else exchanging is flipping, as every metric grows or falls with the sum of its scores
            p = exchange_p(scores_1, scores_2, partial(aggregate, row.metric))
            smallest = smallest_p(scores_1 - scores_2)
        test = FLIPPED if equal_weights and base_metric(row.metric) not in _OF_SUMS else EXCHANGED
        low, high = sorted(_effect(row.metric, (first, second), end) for end in (low, high))
    if n < 2:
        p, low, high, test = math.nan, -math.inf, math.inf, UNTESTED
    residuals = differences - shares * differences.sum()
    stderr = math.sqrt(n / (n - 1) * float(np.square(residuals).sum())) if n > 1 else math.inf
    # Delta method: the slope of the effect carries the error of the means over to the metric.
    slope = abs(_effect(row.metric, (first, second), 1e-6)) / 1e-6
    return Comparison(
        row.unit, row.task, row.metric, n, first, second, low, high, slope * stderr, p, test, one, other,
        documents=None if base_metric(row.metric) in _OF_SUMS or test == EXCHANGED else (differences, shares),
        smallest_p=None if n < 2 else smallest,
    )  # fmt: skip


def _contributions(scores_1: Numbers, scores_2: Numbers) -> tuple[Numbers, Numbers]:
    """Return each document's contribution to the difference of the two weighted means, and its share in it.

    Of unequal weights, the contributions are those to first order.
    """
    totals, sums = scores_1.sum(axis=0), scores_2.sum(axis=0)
    first, second = totals[0] / totals[1], sums[0] / sums[1]
    shares = (scores_1[:, 1] / totals[1] + scores_2[:, 1] / sums[1]) / 2
    terms_1, terms_2 = (
        (scores[:, 0] - mean * scores[:, 1]) / weight
        for scores, mean, weight in ((scores_1, first, totals[1]), (scores_2, second, sums[1]))
    )
    return terms_1 - terms_2 + shares * (first - second), shares


def _effect(metric: str, values: tuple[float, float], difference: float) -> float:
    """Return the effect on a metric of a difference of the weighted means.

    Perplexities differ by it around the geometric mean of both runs' values, so that exchanging the runs turns an
    interval over.
    """
    name = base_metric(metric)
    if name in _PERPLEXITIES:
        middle = math.sqrt(values[0] * values[1])
        return -2 * middle * float(np.sinh(difference / 2))
    return -difference / math.log(2) if name == "bits_per_byte" else difference


def _right_or_wrong(scores: Numbers) -> bool:
    return bool(np.isin(scores[:, 0], (0.0, 1.0)).all() and (scores[:, 1] == 1).all())


def unpaired(first: MetricRow, second: MetricRow, rows: tuple[int | None, int | None]) -> Comparison | None:
    """Compare two runs by their values and standard errors alone, as if they were independent.

    The interval is wider than a paired one, since runs agree on most documents. `rows` are the independent values
    behind each. Returns None where a standard error is absent or 0.
    """
    # A few documents with the same score have the error 0, which is no estimate.
    if not first.stderr or not second.stderr:
        return None
    effect, stderr = first.value - second.value, math.hypot(first.stderr, second.stderr)
    n = welch_n((first.stderr, rows[0]), (second.stderr, rows[1]))
    return Comparison(
        unit=first.unit,
        task=first.task,
        metric=first.metric,
        n=first.n,
        first=first.value,
        second=second.value,
        low=effect - t95(n) * stderr,
        high=effect + t95(n) * stderr,
        stderr=stderr,
        p=t_p(effect, stderr, n),
        test=UNPAIRED,
    )


def untested(first: MetricRow, second: MetricRow) -> Comparison:
    """Return the values of two runs without standard errors; interval, stderr and p are NaN."""
    unknown = (math.nan,) * 4
    return Comparison(first.unit, first.task, first.metric, first.n, first.value, second.value, *unknown, test=UNTESTED)


def mean(comparisons: Sequence[Comparison], weights: Sequence[float] | None = None) -> Comparison:
    """Average the tasks, equally or by weights.

    If all are paired, test by flipping the signs of all their documents (`sign_flips`). Else combine the tasks'
    intervals, their distances from the effects squared and added (Zou and Donner, Statistics in Medicine 27, 2008,
    1693-1702), with the p of a normal distribution of that interval. In both cases, 0 is outside of the interval
    exactly if p < 0.05.
    """
    total = weights or [1.0] * len(comparisons)
    shares = [weight / sum(total) for weight in total]

    def added(of: Callable[[Comparison], float]) -> float:
        return sum(share * of(comparison) for share, comparison in zip(shares, comparisons, strict=True))

    def in_squares(of: Callable[[Comparison], float]) -> float:
        return math.hypot(*(share * of(comparison) for share, comparison in zip(shares, comparisons, strict=True)))

    first, second = added(lambda comparison: comparison.first), added(lambda comparison: comparison.second)
    effect = first - second
    together = _together(comparisons, shares)
    tested = together is not None and len(together[0]) > 1
    low = effect - in_squares(lambda comparison: comparison.effect - comparison.low)
    high = effect + in_squares(lambda comparison: comparison.high - comparison.effect)
    if together is not None and tested:
        p, inner_low, inner_high = sign_flips(*together)
        # Flips of documents that hardly differ leave a narrow interval: the tasks' own widen it, but never over 0.
        low = inner_low if low <= 0 < inner_low or math.isinf(low) else min(low, inner_low)
        high = inner_high if inner_high < 0 <= high or math.isinf(high) else max(high, inner_high)
    else:
        tested = together is None and math.isfinite(low) and math.isfinite(high)
        p = t_p(effect, (effect - low if effect > 0 else high - effect) / Z95, None) if tested else math.nan
    return Comparison(
        unit="",
        task=MEAN_OF_TASKS,
        metric="mean",
        n=sum(comparison.n for comparison in comparisons if comparison.n is not None),
        first=first,
        second=second,
        low=low,
        high=high,
        stderr=in_squares(lambda comparison: comparison.stderr),
        p=p,
        test=UNTESTED if not tested else PROPAGATED if together is None else FLIPPED,
        documents=together,
        smallest_p=None if together is None or not tested else smallest_p(*together),
    )


def _together(comparisons: Sequence[Comparison], shares: Sequence[float]) -> tuple[Numbers, Numbers] | None:
    """Join the documents of all tasks; None where one task has none."""
    documents = [comparison.documents for comparison in comparisons if comparison.documents is not None]
    if not documents or len(documents) < len(comparisons):
        return None
    contributions, weights = (
        np.concatenate([share * task[side] for share, task in zip(shares, documents, strict=True)]) for side in (0, 1)
    )
    return contributions, weights
