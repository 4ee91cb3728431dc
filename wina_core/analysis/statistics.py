"""Small statistical tests, checked against published numbers: McNemar's of paired answers, the sign-flip test of a sum
over documents against zero, its interval, the exchange of two runs' documents, and Holm's step-down correction."""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

FLIPS = 10_000
"""Random ways to flip, where there are too many for all."""
_EVERY = 100_000
"""Most ways to flip of an exact test."""
_SEED = 20_000
_AT_ONCE = 2_000_000  # numbers drawn at once, which bounds the memory
_SAME = 1e-9
"""Relative to the largest possible sum: closer sums are equal but for rounding."""


def sign_flips(contributions: Numbers, shares: Numbers) -> tuple[float, float, float]:
    """Return the two-sided p and the 95 % interval of an effect, the sum of independent documents' `contributions`.

    Both arguments are [documents]; `shares` are weights that sum to 1: a contribution is share times difference.
    Without an effect, both signs of each difference are equally likely. p is the share of all ways to flip them, or of
    FLIPS random ones and the unflipped one, whose sum is at least as far from zero. The interval holds all effects that
    the test does not reject at 5 % after their subtraction from every difference, so that it excludes 0 exactly where
    p < 0.05 (Fisher's randomization test and its inversion; Lehmann and Romano, Testing Statistical Hypotheses, 2005,
    sections 5.10 to 5.12). Deterministic.
    """
    effect = float(contributions.sum())
    kinds, counts = np.unique(np.stack([contributions, shares], axis=1), axis=0, return_counts=True)
    sums, chances = _flipped(kinds, counts)
    flipped, total = sums[:, 0], sums[:, 1]
    tiny = _SAME * max(float(np.abs(contributions).sum()), np.finfo(np.float64).tiny)
    p = float(chances[np.abs(flipped) >= abs(effect) - tiny].sum())
    # Flipped, the sum minus an effect d is `flipped - d total`, as far from zero as `effect - d` between two d.
    with np.errstate(divide="ignore", invalid="ignore"):
        ends = np.stack([(effect - flipped) / (1 - total), (effect + flipped) / (1 + total)])
    ends[:, np.abs(total) > 1 - _SAME] = np.array([[-math.inf], [math.inf]])  # all flipped alike: no effect is rejected
    low, high = _beyond(ends.min(axis=0), chances), -_beyond(-ends.max(axis=0), chances)
    return min(1.0, p), min(low, effect), max(high, effect)


def exchange_p(first: Numbers, second: Numbers, value: Callable[[Numbers | float, Numbers | float], Numbers]) -> float:
    """Return the two-sided p of the difference of two runs' values, each computed from sums over documents.

    `first` and `second` are [documents, 2], score and weight; `value` computes a run's value from its sums of scores
    and of weights. Without a difference, both runs' pairs of a document could as well be exchanged. p is the share of
    all ways to exchange them, or of FLIPS random ones and the unexchanged one, whose values are at least as far apart.
    Deterministic.
    """
    total = (first + second).sum(axis=0)
    kinds, counts = np.unique(first - second, axis=0, return_counts=True)
    flipped, chances = _flipped(kinds, counts)
    sums = np.concatenate([(first - second).sum(axis=0)[None], flipped])
    one, other = ((total + sign * sums) / 2 for sign in (1, -1))
    values = value(one[:, 0], one[:, 1]), value(other[:, 0], other[:, 1])
    apart = np.abs(values[0] - values[1])
    tiny = _SAME * max(float(apart.max()), np.finfo(np.float64).tiny)
    return min(1.0, float(chances[apart[1:] >= apart[0] - tiny].sum()))


def smallest_p(differences: Numbers, shares: Numbers | None = None) -> float:
    """Return the smallest two-sided p that flips of these documents' differences could give: all of them one way.

    The arguments are those of the test: `sign_flips`' contributions and shares, [documents], or the differences of
    `exchange_p`'s pairs, [documents, 2].
    """
    differing = int(np.count_nonzero(np.atleast_2d(differences.T).any(axis=0)))
    rows = np.column_stack([differences] if shares is None else [differences, shares])
    exact = _is_exact(np.unique(rows, axis=0, return_counts=True)[1])
    return max(2.0 ** (1 - differing), 0.0 if exact else 1 / (FLIPS + 1)) if differing else 1.0


def _is_exact(counts: NDArray[np.int64]) -> bool:
    # Documents of one kind are alike, so that the number of flipped ones is enough.
    return math.prod(int(count) + 1 for count in counts) <= _EVERY


def _flipped(kinds: Numbers, counts: NDArray[np.int64]) -> tuple[Numbers, Numbers]:
    """Return sums over flipped documents, [ways, columns of kinds], and each way's chance."""
    if _is_exact(counts):
        sums, chances = np.zeros((1, kinds.shape[1])), np.ones(1)
        for kind, count in zip(kinds, counts, strict=True):
            up = np.arange(int(count) + 1)
            chance = np.exp([_log_chance(int(count), int(k)) for k in up])
            sums = (sums[:, None] + (2 * up - count)[:, None] * kind).reshape(-1, kinds.shape[1])
            chances = (chances[:, None] * chance).reshape(-1)
        return sums, chances
    draw = np.random.default_rng(_SEED)
    flip_sums = [counts[None, :] @ kinds]  # unflipped
    step = max(1, _AT_ONCE // len(counts))
    for start in range(0, FLIPS, step):
        size = min(step, FLIPS - start), len(counts)
        alone = counts.max() == 1  # as a rule of scores that are not right or wrong; ten times as fast
        up = draw.integers(0, 2, size, np.int8) if alone else draw.binomial(counts, 0.5, size)
        flip_sums.append((2.0 * up - counts) @ kinds)
    return np.concatenate(flip_sums), np.full(FLIPS + 1, 1 / (FLIPS + 1))


def _log_chance(of: int, up: int) -> float:
    # Logarithms: the binomial coefficients of many documents overflow.
    return math.lgamma(of + 1) - math.lgamma(up + 1) - math.lgamma(of - up + 1) - of * math.log(2)


def _beyond(ends: Numbers, chances: Numbers) -> float:
    """Return the smallest end with more than 5 % of the chance at or below it."""
    order = np.argsort(ends)
    reached = np.cumsum(chances[order])
    return float(ends[order][int(np.argmax(reached > 0.05 + _SAME))])


Task = TypeVar("Task", bound=Hashable)


def holm(ps: Sequence[float]) -> tuple[float, ...]:
    """Return the corrected p of each test, in the order given.

    Rejecting those at or below alpha keeps the chance of any false rejection at or below alpha, for any dependence
    between the tests. One test keeps its p.
    """
    corrected = [0.0] * len(ps)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        largest = max(largest, min(1.0, (len(ps) - rank) * ps[index]))
        corrected[index] = largest
    return tuple(corrected)


def holm_by_reference(
    references: Sequence[Hashable], runs: Sequence[Mapping[Task, float]]
) -> tuple[dict[Task, float], ...]:
    """Return each run's corrected p by task, among the runs that have the task and the same reference."""
    families: dict[tuple[Hashable, Task], list[int]] = {}
    for index, (reference, ps) in enumerate(zip(references, runs, strict=True)):
        for task in ps:
            families.setdefault((reference, task), []).append(index)
    corrected: list[dict[Task, float]] = [{} for _ in runs]
    for (_, task), members in families.items():
        for index, p in zip(members, holm([runs[member][task] for member in members]), strict=True):
            corrected[index][task] = p
    return tuple(corrected)


def mcnemar_p(first_only: int, second_only: int) -> float:
    """Return the two-sided p of the exact McNemar test: by chance each run wins half of the discordant documents."""
    from scipy.special import bdtr  # a tenth of a second, in a module that the window imports

    return min(1.0, 2 * float(bdtr(min(first_only, second_only), first_only + second_only, 0.5)))
