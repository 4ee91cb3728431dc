"""Measures of a table of stored metrics: its tasks and metrics, their order and their decimals."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wina_core.analysis.results.rounding import Floats, decimals_of
from wina_core.records import has_mean
from wina_core.specs import COST, FIDELITY, ORIGINAL, OWN_UNITS, SYNTHETIC
from wina_core.studies.published import base_metric, preferred_metric

Codes = NDArray[np.intp]
FACTS = ("unit", "task", "metric", "higher_is_better")
"""Fields of a MetricRow that make a measure."""


class Measure(NamedTuple):
    """One metric of one task."""

    unit: str
    """Unit of its first row."""
    task: str
    metric: str
    higher_is_better: bool | None
    decimals: int

    @property
    def title(self) -> str:
        """Title in one line: "arc_easy acc_norm"."""
        return f"{self.task} {self.metric}"

    @property
    def is_own(self) -> bool:
        """Return whether the workbench measured it, and no task."""
        return self.unit in OWN_UNITS


class Measures(NamedTuple):
    """All measures in the order of columns."""

    all: tuple[Measure, ...]
    codes: Codes
    """Place of each row's measure among all, shape [rows]."""

    @property
    def decimals(self) -> NDArray[np.int8]:
        """Decimals of each measure."""
        return np.array([each.decimals for each in self.all], np.int8)


def find_measures(keys: Codes, facts: Iterable[tuple[Any, ...]], values: Floats, stderrs: Floats) -> Measures:
    """Return the measures of rows; `keys`, shape [rows], count them from 0, and `facts` has the FACTS of each."""
    known = list(facts)
    order = np.argsort(keys.astype(np.min_scalar_type(len(known))), kind="stable")  # of few numbers by their digits
    rows = np.split(order, np.searchsorted(keys[order], np.arange(1, len(known))))
    measures = [
        Measure(unit, task, metric, better, decimals_of(values[of], stderrs[of]))
        for (unit, task, metric, better), of in zip(known, rows, strict=True)
    ]
    preferred = preferred_metrics(measures)
    places = sorted(range(len(measures)), key=lambda place: _rank(measures[place], preferred))
    codes = np.empty(len(places), np.min_scalar_type(-max(len(places), 1)))
    codes[places] = np.arange(len(places))
    return Measures(tuple(measures[place] for place in places), codes[keys] if len(keys) else keys)


def preferred_metrics(measures: Iterable[Measure]) -> dict[str, str | None]:
    """Return the metric that the published evaluation prefers for each task."""
    metrics: dict[str, list[str]] = {}
    for each in measures:
        metrics.setdefault(each.task, []).append(each.metric)
    return {task: preferred_metric(names) for task, names in metrics.items()}


def mean_weights(measures: Sequence[Measure], there: Collection[int]) -> dict[int, float]:
    """Return the weight of each measure in the mean over tasks, by its place; nothing where it is over one task.

    Of each task it has the preferred metric, if that is a fraction that is better when higher. A group counts as one
    task: by its own value, else by its members.
    """
    preferred = preferred_metrics(measures[place] for place in there)
    units: dict[str, list[int]] = {}
    for place in there:
        each = measures[place]
        if not each.is_own and preferred[each.task] == each.metric and has_mean(base_metric(each.metric)):
            units.setdefault(each.unit, []).append(place)
    tasks = [[one for one in places if measures[one].task == unit] or places for unit, places in units.items()]
    return {place: 1 / len(tasks) / len(places) for places in tasks for place in places} if len(tasks) > 1 else {}


_OWN_RANK = {ORIGINAL: 1, FIDELITY: 2, SYNTHETIC: 3, COST: 5}


_FIRST_OF_ORIGINAL = ("kl", "top1_agreement", "perplexity_ratio", "kl_p99")


def _rank(measure: Measure, preferred: dict[str, str | None]) -> tuple[int, str, int, str]:
    """Return the sort key of a column: preferred metrics, fidelity, other metrics, cost."""
    rank = _OWN_RANK.get(measure.unit, 0 if preferred[measure.task] == measure.metric else 4)
    first = _FIRST_OF_ORIGINAL if measure.unit == ORIGINAL else ()
    place = first.index(measure.metric) if measure.metric in first else len(first)
    return rank, measure.task, place, measure.metric
