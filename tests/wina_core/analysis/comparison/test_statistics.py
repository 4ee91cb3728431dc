"""Paired comparisons: what the statistics are worth."""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wina_core.analysis.comparison.compare_tasks import (
    EXCHANGED,
    FLIPPED,
    MCNEMAR,
    PROPAGATED,
    UNTESTED,
    Comparison,
    aggregate,
    mean,
    paired,
    unpaired,
)
from wina_core.analysis.statistics import FLIPS, exchange_p, mcnemar_p, sign_flips, smallest_p
from wina_core.records.intervals import FEWEST_ROWS, mean_stderr, newcombe, t95, t_p, welch_n
from wina_core.store import MetricRow

COUNTS = st.integers(0, 30)


@pytest.mark.parametrize(("one", "other"), [(a, b) for a in range(6) for b in range(6)])
def test_mcnemar_is_the_enumeration_of_all_ways_to_win(one: int, other: int) -> None:
    """Every outcome of the discordant documents is as likely; p is the share of those at least as lopsided."""
    outcomes = list(itertools.product((0, 1), repeat=one + other))
    lopsided = sum(abs(2 * sum(outcome) - len(outcome)) >= abs(one - other) for outcome in outcomes)
    assert mcnemar_p(one, other) == pytest.approx(lopsided / len(outcomes), abs=1e-12)


def test_the_interval_is_newcombes() -> None:
    """The example of the article's table 3: 36, 12, 2 and 0 of 50."""
    assert newcombe(36, 12, 2, 0) == pytest.approx((0.0569, 0.3404), abs=5e-5)


@given(both=COUNTS, one=COUNTS, other=COUNTS, neither=COUNTS)
def test_swapping_the_runs_turns_the_interval_over_and_keeps_p(both: int, one: int, other: int, neither: int) -> None:
    n = both + one + other + neither
    if n == 0:
        return
    low, high = newcombe(both, one, other, neither)
    assert newcombe(both, other, one, neither) == pytest.approx((-high, -low), abs=1e-12)
    assert low <= (one - other) / n <= high
    assert -1 <= low <= high <= 1
    assert mcnemar_p(one, other) == mcnemar_p(other, one)


def row(metric: str) -> MetricRow:
    blank = MetricRow(**dict.fromkeys(MetricRow._fields) | {"value": 0.0})  # type: ignore[arg-type]
    return blank._replace(unit="task", task="task", metric=metric)


SCORES = st.lists(st.tuples(*[st.floats(-5, 5)] * 2), min_size=1, max_size=9)


@settings(max_examples=20)
@given(pairs=SCORES, metric=st.sampled_from(("f1", "word_perplexity", "bits_per_byte")))
def test_swapping_the_runs_turns_a_flipped_interval_over(pairs: list[tuple[float, float]], metric: str) -> None:
    first, second = (np.array([(pair[side], 3.0) for pair in pairs]) for side in (0, 1))
    comparison, back = paired(row(metric), first, second), paired(row(metric), second, first)
    if len(pairs) == 1:
        assert comparison.test == UNTESTED
        assert math.isnan(comparison.p)
        return
    assert (comparison.p, comparison.smallest_p) == (pytest.approx(back.p), back.smallest_p)
    assert (comparison.low, comparison.high) == pytest.approx((-back.high, -back.low), abs=1e-12)
    assert comparison.smallest_p is not None
    assert comparison.low <= comparison.effect + 1e-12
    assert comparison.effect <= comparison.high + 1e-12
    assert comparison.smallest_p - 1e-12 <= comparison.p <= 1


@pytest.mark.parametrize(("n", "p"), [(2, 0.5), (4, 0.125), (8, 2 / 2**8)])
@pytest.mark.parametrize(("metric", "test"), [("f1", FLIPPED), ("word_perplexity", EXCHANGED)])
def test_differences_all_one_way_prove_no_more_than_so_many_documents_can(
    n: int, p: float, metric: str, test: str
) -> None:
    """By a paired bootstrap, p would be 0.0002 for any number."""
    first = np.array([(-1.0 - index / 10, 1.0) for index in range(n)])
    comparison = paired(row(metric), first - [0.2, 0], first)
    assert (comparison.test, comparison.p, comparison.smallest_p) == (test, pytest.approx(p), pytest.approx(p))
    assert (comparison.low * comparison.high > 0) == (p < 0.05)
    assert math.isfinite(comparison.low) == math.isfinite(comparison.high) == (n >= 6)


def test_perplexities_of_runs_with_other_tokens_are_exchanged_with_their_tokens() -> None:
    first = np.array([(-20.0, 9.0), (-30.0, 14.0), (-8.0, 5.0)])
    second = np.array([(-22.0, 10.0), (-35.0, 15.0), (-9.0, 5.0)])
    comparison = paired(row("perplexity"), first, second)
    assert (comparison.test, comparison.smallest_p) == (EXCHANGED, 0.25)
    assert comparison.first == pytest.approx(math.exp(58 / 28))
    assert 0.25 <= comparison.p <= 1


def test_a_mean_over_tasks_of_one_document_each_is_tested_by_all_of_them() -> None:
    scores = [(1.0, 0.0)] * 7 + [(0.0, 0.0)]
    average = mean([paired(row("acc"), *(np.array([(score, 1.0)]) for score in pair)) for pair in scores])
    assert (average.test, average.p, average.smallest_p) == (FLIPPED, pytest.approx(2 / 2**7), 2 / 2**7)
    assert 0 < average.low < average.effect <= average.high
    alone = mean([paired(row("acc"), np.array([(1.0, 1.0)]), np.array([(0.0, 1.0)]))])
    assert alone.test == UNTESTED


def test_without_documents_students_t_decides() -> None:
    one, other = (row("f1")._replace(value=value, stderr=0.1) for value in (0.9, 0.6))
    few, many = unpaired(one, other, (6, 6)), unpaired(one, other, (None, None))
    assert few is not None
    assert many is not None
    assert few.p > many.p == pytest.approx(math.erfc(0.3 / math.hypot(0.1, 0.1) / math.sqrt(2)))
    assert few.high - few.effect == pytest.approx(2.228139 * math.hypot(0.1, 0.1))  # Student's t with 10 degrees


def test_perplexities_come_from_sums_of_log_likelihoods_and_weights() -> None:
    assert aggregate("word_perplexity", -20.0, 10.0) == pytest.approx(math.exp(2))
    assert aggregate("bits_per_byte", -20.0, 10.0) == pytest.approx(2 / math.log(2))
    assert aggregate("exact_match,flexible-extract", 3.0, 4.0) == 0.75


def test_a_mean_propagates_its_tasks_errors() -> None:
    tasks = [
        Comparison("a", "a", "acc", 100, 0.6, 0.5, 0.04, 0.18, 0.03, 1, MCNEMAR),
        Comparison("b", "b", "acc", 100, 0.8, 0.9, -0.18, -0.04, 0.04, 1, MCNEMAR),
    ]
    equal, weighted = mean(tasks), mean(tasks, [3, 1])
    assert (equal.effect, equal.stderr) == pytest.approx((0.0, 0.025), abs=1e-12)
    assert equal.p == pytest.approx(1.0)
    below = weighted.effect - weighted.low
    assert weighted.p == pytest.approx(math.erfc(weighted.effect / below * 1.959964 / math.sqrt(2)), abs=1e-6)
    assert (weighted.first, weighted.effect) == pytest.approx((0.65, 0.05))
    assert weighted.stderr == pytest.approx(math.hypot(0.0225, 0.01))
    assert (weighted.test, weighted.n) == (PROPAGATED, 200)
    assert (equal.low, equal.high) == pytest.approx((-math.hypot(0.03, 0.04), math.hypot(0.04, 0.03)))
    assert (weighted.low, weighted.high) == pytest.approx(
        (0.05 - math.hypot(0.045, 0.02), 0.05 + math.hypot(0.06, 0.015))
    )


def every_flip(differences: Sequence[float], shares: Sequence[float], effect: float) -> float:
    """The test by going through all ways to flip, after the subtraction of an effect."""
    shifted = [share * (difference - effect) for share, difference in zip(shares, differences, strict=True)]
    ways = [
        abs(sum(sign * difference for sign, difference in zip(signs, shifted, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(shifted))
    ]
    return sum(way >= abs(sum(shifted)) - 1e-9 for way in ways) / len(ways)


DIFFERENCES = st.lists(st.tuples(st.integers(-2, 2), st.sampled_from((1.0, 2.0))), min_size=1, max_size=9)


@settings(max_examples=40)
@given(documents=DIFFERENCES)
def test_sign_flips_are_the_enumeration_of_all_and_the_interval_is_what_they_do_not_refuse(
    documents: list[tuple[int, float]],
) -> None:
    differences = [float(difference) for difference, _ in documents]
    shares = [weight / sum(weight for _, weight in documents) for _, weight in documents]
    p, low, high = sign_flips(np.array(differences) * shares, np.array(shares))
    effect = float(np.dot(differences, shares))
    assert p == pytest.approx(every_flip(differences, shares, 0.0), abs=1e-9)
    assert low <= effect <= high
    if not (low - 1e-6 < 0 < low + 1e-6 or high - 1e-6 < 0 < high + 1e-6):
        assert (p < 0.05 - 1e-9) == (not low <= 0 <= high)
    for end, outwards in ((low, -1), (high, 1)):
        if math.isfinite(end) and abs(end - effect) > 1e-4:
            assert every_flip(differences, shares, end - outwards * 1e-5) > 0.05
            assert every_flip(differences, shares, end + outwards * 1e-5) <= 0.05 + 1e-9


def test_many_documents_are_flipped_by_chance_and_come_near_the_binomial() -> None:
    differences = np.array([1.0] * 60 + [-1.0] * 40 + [0.0] * 300 + [0.5, -0.25] * 100)
    shares = np.full(len(differences), 1 / len(differences))
    p, low, high = sign_flips(differences * shares, shares)
    assert (p, low, high) == sign_flips(differences * shares, shares)
    effect, error = differences.mean(), math.sqrt((differences**2).sum()) / len(differences)
    assert p == pytest.approx(math.erfc(effect / error / math.sqrt(2)), abs=4 / math.sqrt(FLIPS))
    assert (low, high) == pytest.approx((effect - 1.96 * error, effect + 1.96 * error), rel=0.05)


def test_documents_that_do_not_differ_leave_the_interval_as_wide_as_the_tasks() -> None:
    same = (np.zeros(10), np.full(10, 0.1))
    average = mean([Comparison("a", "a", "acc", 10, 0.5, 0.5, -0.3, 0.3, 0.0, 1, MCNEMAR, documents=same)])
    assert (average.p, average.low, average.high) == (pytest.approx(1.0), pytest.approx(-0.3), pytest.approx(0.3))


# ---- few documents or rows -------------------------------------------------------------------------------------------

ALPHA = 0.05


def slack(share: float, trials: int) -> float:
    """Three standard errors of a share of the trials."""
    return 3 * math.sqrt(share * (1 - share) / trials)


def test_exchanging_is_the_enumeration_of_all_ways_with_the_ratio_computed_anew() -> None:
    first, second = np.array([[-9.0, 3], [-2, 2], [-20, 9]]), np.array([[-7.0, 2], [-3, 2], [-12, 8]])

    def apart(one: np.ndarray, other: np.ndarray) -> float:
        values = [math.exp(-of[:, 0].sum() / of[:, 1].sum()) for of in (one, other)]
        return abs(values[0] - values[1])

    ways = [
        apart(np.where(mask, first, second), np.where(mask, second, first))
        for swaps in itertools.product((True, False), repeat=3)
        for mask in [np.array(swaps)[:, None]]
    ]
    expected = sum(way >= apart(first, second) - 1e-12 for way in ways) / len(ways)
    p = exchange_p(first, second, lambda total, weight: np.exp(-np.asarray(total) / weight))
    assert p == pytest.approx(expected)


@pytest.mark.parametrize("n", [FEWEST_ROWS, 10, 32])
def test_students_intervals_cover_and_welchs_test_holds(n: int) -> None:
    """Also for skewed rows, as of a KL, within two points; by the normal distribution six rows cover 88 %."""
    draw, trials = np.random.default_rng(n), 1_000
    skewed = draw.lognormal(sigma=0.5, size=(trials, n)) - math.exp(0.125)
    for values, allowed in ((draw.normal(size=(trials, n)), 0.0), (skewed, 0.025)):
        means, errors = values.mean(1), values.std(1, ddof=1) / math.sqrt(n)
        covered = float((np.abs(means) <= t95(n) * errors).mean())
        assert covered >= 1 - ALPHA - allowed - slack(ALPHA, trials)
        assert mean_stderr(values[0]) == pytest.approx(errors[0])
        pairs = list(zip(means, errors, strict=True))
        tests = [
            t_p(one - other, math.hypot(a, b), welch_n((a, n), (b, n)))
            for (one, a), (other, b) in itertools.pairwise(pairs[::4])
        ]
        assert np.mean(np.array(tests) < ALPHA) <= ALPHA + slack(ALPHA, len(tests))
    if n == FEWEST_ROWS:
        assert (np.abs(means) <= 1.96 * errors).mean() < 0.9


def test_fewer_rows_have_no_error() -> None:
    assert mean_stderr(np.arange(FEWEST_ROWS - 1.0)) is None
    assert mean_stderr(np.arange(1.0 * FEWEST_ROWS)) == pytest.approx(math.sqrt(3.5 / 6))
    assert t95(None) == pytest.approx(1.959964)
    assert t95(6) == pytest.approx(2.570582)
    assert t95(1) == math.inf


@pytest.mark.parametrize(("differences", "p"), [([0.0, 0.0], 1.0), ([1.0, 0.0, 2.0], 0.5), ([0.1] * 6, 1 / 32)])
def test_the_smallest_p_is_that_of_documents_all_one_way(differences: list[float], p: float) -> None:
    assert smallest_p(np.array(differences)) == p
    assert sign_flips(np.array(differences), np.full(len(differences), 1 / len(differences)))[0] == pytest.approx(p)


@pytest.mark.parametrize("n", [16, 17, 40, 400])
def test_the_smallest_p_of_equal_differences_is_reached(n: int) -> None:
    """Few kinds of differences are counted exactly, however many documents differ."""
    shares = np.full(n, 1 / n)
    assert smallest_p(shares, shares) == pytest.approx(sign_flips(shares, shares)[0])
    pairs = np.tile([[2.0, 1.0], [1.0, 1.0]], (n, 1, 1))
    p = exchange_p(pairs[:, 0], pairs[:, 1], lambda score, weight: score / weight)
    assert smallest_p(pairs[:, 0] - pairs[:, 1]) == pytest.approx(p)


def test_the_smallest_p_of_many_kinds_is_that_of_random_flips() -> None:
    differences = np.arange(1.0, 41.0)
    assert smallest_p(differences) == 1 / (FLIPS + 1)
