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


def holm_by_task(runs: Sequence[Mapping[Task, float]]) -> tuple[dict[Task, float], ...]:
    """Return the tasks' corrected p of each run; all runs are compared with one reference, and tests are per task."""
    corrected: list[dict[Task, float]] = [{} for _ in runs]
    for task in dict.fromkeys(task for ps in runs for task in ps):
        having = [index for index, ps in enumerate(runs) if task in ps]
        for index, p in zip(having, holm([runs[index][task] for index in having]), strict=True):
            corrected[index][task] = p
    return tuple(corrected)


def holm_by_reference(
    references: Sequence[Hashable], runs: Sequence[Mapping[Task, float]]
) -> tuple[dict[Task, float], ...]:
    """Return `holm_by_task` among the runs with the same reference."""
    corrected: list[dict[Task, float]] = [{} for _ in runs]
    for reference in dict.fromkeys(references):
        members = [index for index, each in enumerate(references) if each == reference]
        for index, ps in zip(members, holm_by_task([runs[index] for index in members]), strict=True):
            corrected[index] = ps
    return tuple(corrected)
