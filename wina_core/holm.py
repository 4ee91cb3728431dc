"""Several tests at once: Holm's step-down correction (Scandinavian Journal of Statistics 6, 1979, 65-70)."""

from collections.abc import Sequence


def holm(ps: Sequence[float]) -> tuple[float, ...]:
    """The p of each test as it counts among all of them, in the order given.

    Refusing those at or below alpha keeps the chance of any false refusal at or below alpha, whatever the tests have to
    do with each other. One test keeps its p.
    """
    corrected = [0.0] * len(ps)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        largest = max(largest, min(1.0, (len(ps) - rank) * ps[index]))
        corrected[index] = largest
    return tuple(corrected)
