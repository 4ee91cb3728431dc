"""Several tests at once: Holm's step-down correction (Scandinavian Journal of Statistics 6, 1979, 65-70)."""

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

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
