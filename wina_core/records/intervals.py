"""Standard errors, intervals and tests: of means over few independent rows or documents, by Student's t, of
proportions, and of differences of two.
"""

import math
from statistics import NormalDist
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


FEWEST_ROWS = 6
"""Rows or documents from which on a mean has a standard error.

Of fewer it is hardly known: of 3 rows, one estimate in ten is below a third of the truth, and of 5 below half of it.
"""


def mean_stderr(values: "NDArray[np.float64]") -> float | None:
    """Return the standard error of the mean of independent values, [rows]; None of fewer than FEWEST_ROWS."""
    rows = len(values)
    return float(values.std(ddof=1)) / math.sqrt(rows) if rows >= FEWEST_ROWS else None


def t95(n: float | None) -> float:
    """Return the standard errors from the mean of `n` values to the ends of its 95 % interval.

    It is the quantile of Student's t with n - 1 degrees of freedom, or of the normal distribution where n is None.
    """
    from scipy.special import stdtrit  # a tenth of a second, in a module that the window imports

    return Z95 if n is None else math.inf if n < 2 else float(stdtrit(n - 1, 0.975))


def t_p(effect: float, stderr: float, n: float | None) -> float:
    """Return the two-sided p of the mean of `n` values against zero, by Student's t, or the normal where n is None."""
    from scipy.special import ndtr, stdtr

    if stderr == 0:
        return 1.0 if effect == 0 else 0.0
    below = -abs(effect) / stderr
    return 2 * float(ndtr(below) if n is None else stdtr(n - 1, below))


def welch_n(first: tuple[float, int | None], second: tuple[float, int | None]) -> float | None:
    """Return the `n` of `t95` and `t_p` for the difference of two means, each a standard error and the values behind.

    One more than the degrees of freedom of Welch and Satterthwaite (Biometrika 34, 1947, 28-35); None where neither
    number is known. An unknown number counts as large.
    """
    counted = [(stderr, n) for stderr, n in (first, second) if n is not None and n > 1]
    if not counted or first[0] == second[0] == 0:
        return None
    return 1 + math.hypot(first[0], second[0]) ** 4 / sum(stderr**4 / (n - 1) for stderr, n in counted if stderr)


Z95 = NormalDist().inv_cdf(0.975)


def newcombe(both: int, first_only: int, second_only: int, neither: int) -> tuple[float, float]:
    """Return the 95 % interval of the difference of paired proportions.

    Newcombe's method 10 (Statistics in Medicine 17, 1998, 2635-2650): Wilson intervals of the two proportions joined by
    their continuity-corrected correlation.
    """
    n = both + first_only + second_only + neither
    yes_first, yes_second = both + first_only, both + second_only
    first, second = yes_first / n, yes_second / n
    (low_1, high_1), (low_2, high_2) = wilson(yes_first, n), wilson(yes_second, n)
    margins = yes_first * (n - yes_first) * yes_second * (n - yes_second)
    excess = both * neither - first_only * second_only
    # The method corrects positive correlations alone, and none beyond 0.
    phi = (max(excess - n / 2, 0.0) if excess > 0 else excess) / math.sqrt(margins) if margins else 0.0

    def joined(one: float, other: float) -> float:
        return math.sqrt(max(one**2 - 2 * phi * one * other + other**2, 0.0))

    effect = first - second
    return effect - joined(first - low_1, high_2 - second), effect + joined(high_1 - first, second - low_2)


def wilson(successes: float, n: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of `successes` / `n`, whose width stays above 0 at the shares 0 and 1."""
    share, z2 = successes / n, Z95**2
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = Z95 / (1 + z2 / n) * math.sqrt(share * (1 - share) / n + z2 / (4 * n**2))
    # At shares of 0 and 1 the end is exact, which rounding would miss.
    return (0.0 if successes == 0 else centre - half), (1.0 if successes == n else centre + half)
