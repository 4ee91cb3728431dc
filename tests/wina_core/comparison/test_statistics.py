"""Paired comparisons: what the statistics are worth."""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wina_core.comparison.compare_tasks import (
    FLIPPED,
    MCNEMAR,
    PROPAGATED,
    UNPAIRED,
    Comparison,
    aggregate,
    bootstrap,
    mean,
)
from wina_core.statistics.proportions import mcnemar_p, newcombe, wilson
from wina_core.statistics.sign_flip import FLIPS, sign_flips

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


SCORES = st.lists(st.tuples(*[st.floats(-5, 5)] * 2), min_size=1, max_size=12)


@settings(max_examples=10)
@given(pairs=SCORES)
def test_the_bootstrap_is_the_same_again_and_turns_over_with_the_runs(pairs: list[tuple[float, float]]) -> None:
    first, second = (np.array([(pair[side], 1.0) for pair in pairs]) for side in (0, 1))
    low, high, p, stderr = bootstrap("score", first, second)
    assert bootstrap("score", first, second) == (low, high, p, stderr)
    assert bootstrap("score", second, first) == pytest.approx((-high, -low, p, stderr), abs=1e-12)
    assert low <= high
    assert 0 < p <= 1


def test_the_bootstrap_agrees_with_all_resamples_of_three_documents() -> None:
    first, second = np.array([(0.2, 1.0), (0.9, 1.0), (0.6, 1.0)]), np.array([(0.1, 1.0), (0.3, 1.0), (0.7, 1.0)])
    difference = (first - second)[:, 0]
    every = np.array([difference[list(draw)].mean() for draw in itertools.product(range(3), repeat=3)])
    low, high, p, stderr = bootstrap("score", first, second)
    assert stderr == pytest.approx(every.std(), rel=0.02)
    assert (low, high) == pytest.approx(np.quantile(every, (0.025, 0.975), method="inverted_cdf"), abs=1e-9)
    assert p == pytest.approx(2 * min((every <= 0).mean(), (every >= 0).mean()), rel=0.1)


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
    shifted = [share * (each - effect) for share, each in zip(shares, differences, strict=True)]
    ways = [
        abs(sum(sign * each for sign, each in zip(signs, shifted, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(shifted))
    ]
    return sum(way >= abs(sum(shifted)) - 1e-9 for way in ways) / len(ways)


DIFFERENCES = st.lists(st.tuples(st.integers(-2, 2), st.sampled_from((1.0, 2.0))), min_size=1, max_size=9)


@settings(max_examples=40)
@given(documents=DIFFERENCES)
def test_sign_flips_are_the_enumeration_of_all_and_the_interval_is_what_they_do_not_refuse(
    documents: list[tuple[int, float]],
) -> None:
    differences = [float(each) for each, _ in documents]
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


def test_few_documents_that_agree_are_no_more_than_the_sign_test_says() -> None:
    """Five discordant documents of 32, all one way, in eight tasks: as likely as five heads or five tails."""
    tasks = [
        Comparison(
            str(place), str(place), "acc", 4, 0.5 + won / 4, 0.5, *newcombe(2, won, 0, 2 - won), 0.0, 1, MCNEMAR,
            documents=(np.array([won / 4, 0.0, 0.0, 0.0]), np.full(4, 0.25)),
        )
        for place, won in enumerate([1, 1, 1, 1, 1, 0, 0, 0])
    ]  # fmt: skip
    found = mean(tasks)
    assert found.test == FLIPPED
    assert found.effect == pytest.approx(5 / 32)
    assert found.p == pytest.approx(0.0625)
    assert found.low < 0 < found.effect < found.high


def test_documents_that_do_not_differ_leave_the_interval_as_wide_as_the_tasks() -> None:
    same = (np.zeros(10), np.full(10, 0.1))
    found = mean([Comparison("a", "a", "acc", 10, 0.5, 0.5, -0.3, 0.3, 0.0, 1, MCNEMAR, documents=same)])
    assert (found.p, found.low, found.high) == (pytest.approx(1.0), pytest.approx(-0.3), pytest.approx(0.3))


def test_no_errors_are_taken_from_documents_that_all_came_out_alike() -> None:
    assert wilson(0, 20)[1] == pytest.approx(0.161, abs=5e-4)
    alike = Comparison("a", "a", "acc", 4, 1.0, 0.5, -0.1, 0.8, 0.0, 0.5, UNPAIRED)
    found = mean([alike, alike])
    assert found.stderr == 0
    z = (found.effect - found.low) ** -1 * found.effect * 1.959964
    assert found.p == pytest.approx(math.erfc(z / math.sqrt(2)))
    assert (found.p < 0.05) == (found.low > 0)
