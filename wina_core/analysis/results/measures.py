"""Measures of a table of stored metrics: its tasks and metrics, their order and their decimals.

Values are rounded by the standard error: two significant digits of it, and the value to the same place.
"""

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wina_core.records import has_mean
from wina_core.records.texts import UNKNOWN, number, with_minus
from wina_core.specs import COST, FIDELITY, ORIGINAL, OWN_UNITS, SYNTHETIC
from wina_core.studies.published import base_metric, preferred_metric

if TYPE_CHECKING:
    import pandas as pd


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
        return f"{self.task} {self.metric}"

    @property
    def is_own(self) -> bool:
        return self.unit in OWN_UNITS


class Measures(NamedTuple):
    """All measures in the order of columns."""

    all: tuple[Measure, ...]
    codes: NDArray[Any]
    """Index of each row's measure among all, shape [rows]."""


def find_measures(metrics: "pd.DataFrame") -> Measures:
    """Return the measures of stored metrics, as `Store.metrics` has them."""
    import pandas as pd

    values, stderrs = metrics["value"].to_numpy(), metrics["stderr"].to_numpy()
    rows_by_measure: dict[Measure, NDArray[np.intp]] = {}
    for rows in metrics.groupby(["task", "metric"], observed=True, sort=False).indices.values():
        unit, task, metric, better = metrics.iloc[rows[0]][["unit", "task", "metric", "higher_is_better"]]
        better = None if pd.isna(better) else bool(better)
        rows_by_measure[Measure(unit, task, metric, better, decimals_of(values[rows], stderrs[rows]))] = np.asarray(
            rows
        )
    preferred = preferred_metrics(rows_by_measure)
    order = sorted(rows_by_measure, key=lambda measure: _rank(measure, preferred))
    # The smallest signed type: a table may have a million rows.
    codes = np.empty(len(metrics), np.min_scalar_type(-max(len(order), 1)))
    for code, measure in enumerate(order):
        codes[rows_by_measure[measure]] = code
    return Measures(tuple(order), codes)


def preferred_metrics(measures: Iterable[Measure]) -> dict[str, str | None]:
    """Return the metric that the published evaluation prefers for each task."""
    metrics: dict[str, list[str]] = {}
    for measure in measures:
        metrics.setdefault(measure.task, []).append(measure.metric)
    return {task: preferred_metric(names) for task, names in metrics.items()}


def mean_weights(measures: Sequence[Measure], indices: Collection[int]) -> dict[int, float]:
    """Return the weight of each measure in the mean over tasks, by its index; nothing where it is over one task.

    Of each task it has the preferred metric, if that is a fraction that is better when higher. A group counts as one
    task: by its own value, else by its members.
    """
    preferred = preferred_metrics(measures[index] for index in indices)
    units: dict[str, list[int]] = {}
    for index in indices:
        measure = measures[index]
        if not measure.is_own and preferred[measure.task] == measure.metric and has_mean(base_metric(measure.metric)):
            units.setdefault(measure.unit, []).append(index)
    tasks = [[one for one in members if measures[one].task == unit] or members for unit, members in units.items()]
    return {index: 1 / len(tasks) / len(members) for members in tasks for index in members} if len(tasks) > 1 else {}


_OWN_RANK = {ORIGINAL: 1, FIDELITY: 2, SYNTHETIC: 3, COST: 5}
"""Order of the workbench's own units; preferred metrics of tasks have the rank 0, their other metrics 4."""
_FIRST_OF_ORIGINAL = ("kl", "top1_agreement", "perplexity_ratio", "kl_p99")


def _rank(measure: Measure, preferred: dict[str, str | None]) -> tuple[int, str, int, str]:
    """Return the sort key of a column: preferred metrics, fidelity, other metrics, cost."""
    rank = _OWN_RANK.get(measure.unit, 0 if preferred[measure.task] == measure.metric else 4)
    first = _FIRST_OF_ORIGINAL if measure.unit == ORIGINAL else ()
    position = first.index(measure.metric) if measure.metric in first else len(first)
    return rank, measure.task, position, measure.metric


ERROR_DIGITS = 2
"""Significant digits of a standard error."""
PLAIN_DIGITS = 4
"""Significant digits of a value without a standard error."""
_MOST_DECIMALS = 8
_LARGEST = 1e9
"""Numbers from here on have an exponent."""

Floats = NDArray[np.float64]


def decimals_of(values: Floats, stderrs: Floats) -> int:
    """Return the decimals of a column: of its median standard error, or without any of its median magnitude."""
    for numbers, digits in ((stderrs, ERROR_DIGITS), (values, PLAIN_DIGITS)):
        magnitudes = np.abs(numbers[np.isfinite(numbers) & (numbers != 0)])
        if len(magnitudes):
            if digits == PLAIN_DIGITS and (magnitudes == np.round(magnitudes)).all():
                return 0
            return _decimals(float(np.median(magnitudes)), digits)
    return 0


def value_text(value: float | None, decimals: int, stderr: float | None = None) -> str:
    """Format a value; with a standard error it may round to zero, without one it keeps two significant digits."""
    if value is None or math.isnan(value):
        return "nan"
    if not math.isfinite(value) or abs(value) >= _LARGEST:
        return number(value)
    if stderr is None and value != 0 and abs(value) < 0.95 * 10.0 ** (1 - decimals):
        return with_minus(f"{value:.{ERROR_DIGITS}g}")
    text = f"{value:.{decimals}f}"
    return with_minus(text if float(text) else text.lstrip("-"))


def error_at(stderr: float | None, decimals: int) -> str:
    """Format a standard error beside a value with these decimals; one that would vanish keeps a digit."""
    if stderr is None or math.isnan(stderr):
        return UNKNOWN
    if not math.isfinite(stderr) or stderr >= _LARGEST:
        return number(stderr)
    text = f"{stderr:.{decimals}f}"
    return text if float(text) or not stderr else f"{stderr:.1g}"


def with_error(value: float, stderr: float | None, decimals: int | None = None) -> str:
    """Format "0.710 ± 0.016", or the value alone; `decimals` are its column's, by default its own."""
    if decimals is None:
        error = math.nan if stderr is None else stderr
        decimals = decimals_of(np.array([value]), np.array([error]))
    valid_error = None if stderr is None or math.isnan(stderr) else stderr
    text = value_text(value, decimals, valid_error)
    return text if valid_error is None else f"{text} ± {error_at(valid_error, decimals)}"


def fixed_texts(numbers: Floats, decimals: NDArray[np.int8], first: int, other: Callable[[int], str]) -> list[str]:
    """Format many numbers with their decimals, five times as fast as one by one.

    `other` formats the number of a row that is negative, huge, or less than 10 ** (`first` - its decimals).
    """
    texts = np.empty(len(numbers), object)
    plain = (numbers >= 10.0 ** (first - decimals.astype(np.float64))) & (numbers < _LARGEST)
    for count in np.unique(decimals).tolist():
        chosen = plain & (decimals == count)
        texts[chosen] = list(map(f"%.{count}f".__mod__, numbers[chosen].tolist()))
    for row in np.flatnonzero(~plain).tolist():
        texts[row] = other(row)
    return list(texts)


def _decimals(magnitude: float, digits: int) -> int:
    return min(max(digits - 1 - math.floor(math.log10(magnitude)), 0), _MOST_DECIMALS)
