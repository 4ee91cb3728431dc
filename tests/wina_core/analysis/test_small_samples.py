"""Coverage of intervals and rejection under the null, for 2 to 32 documents or rows."""

import itertools
import math

import numpy as np
import pytest

from wina_core.analysis.statistics import FLIPS, exchange_p, sign_flips, smallest_p
from wina_core.records.intervals import FEWEST_ROWS, mean_stderr, t95, t_p, welch_n

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
