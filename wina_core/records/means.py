"""Standard errors, intervals and tests of means over few independent rows or documents, by Student's t."""

import math
from typing import TYPE_CHECKING

from wina_core.records.proportions import Z95

if TYPE_CHECKING:  # the store opens without
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
    known = [(stderr, n) for stderr, n in (first, second) if n is not None and n > 1]
    if not known or first[0] == second[0] == 0:
        return None
    return 1 + math.hypot(first[0], second[0]) ** 4 / sum(stderr**4 / (n - 1) for stderr, n in known if stderr)
