"""Comparisons of several runs with their references, as the window, the report and the command line show them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wina_core.analysis.comparison.compare_runs import RunComparisonResult, compare_runs, compare_with, top_level
from wina_core.analysis.comparison.compare_tasks import Comparison, TestKey
from wina_core.analysis.statistics import holm_by_reference
from wina_core.errors import WinaError
from wina_core.specs.studies import StudySpec
from wina_core.store.reader import Reader


@dataclass(frozen=True)
class PairResult:
    """A run against its reference."""

    found: RunComparisonResult
    """Nothing in it where the pair was refused."""
    p: Mapping[TestKey, float]
    """Each test's p, corrected by Holm for all runs with the same reference that have the test."""
    refusal: str = ""
    """Reason why the pair cannot be compared."""

    def corrected(self, each: Comparison) -> float:
        """Return the corrected p of one of the comparisons; NaN where nothing was tested."""
        return self.p.get(each.key, math.nan)


def compare_pairs(
    store: Reader,
    pairs: Sequence[tuple[str, str]],
    study: StudySpec | None,
    *,
    allow_unpaired: bool = False,
    whole_tasks: bool = False,
    measure: tuple[str, str] | None = None,
) -> tuple[PairResult, ...]:
    """Compare each run with its reference, both given by their hashes, on every task that both have and on the mean.

    The study decides the metrics, and the tasks and weights of the mean (`compare_with`): the one that is reported, or
    the `shared_study` of the runs. With `whole_tasks`, a group's members are replaced by the group. With `measure`, a
    task and a metric, only these are compared. A pair that cannot be compared has a refusal instead of results.
    """
    found = []
    refusals = []
    for run, reference in pairs:
        try:
            if measure is None:
                result = compare_with(store, run, reference, study=study, allow_unpaired=allow_unpaired)
            else:
                of_task = compare_runs(store, run, reference, allow_unpaired=allow_unpaired, measure=measure)
                result = RunComparisonResult(of_task, None, ())
            found.append(result._replace(tasks=top_level(result.tasks)) if whole_tasks else result)
            refusals.append("")
        except WinaError as error:
            found.append(RunComparisonResult((), None, ()))
            refusals.append(str(error))
    families = [{each.key: each.p for each in result.lines if not math.isnan(each.p)} for result in found]
    corrected = holm_by_reference([reference for _, reference in pairs], families)
    return tuple(map(PairResult, found, corrected, refusals))
