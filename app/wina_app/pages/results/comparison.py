"""Runs side by side: each against the reference on every common task, with significance."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from wina_app.pages.results.plots.layers import MOST_RUNS
from wina_app.pages.results.runs import name_runs
from wina_app.shared.measured_sparsity import RunSparsity, sparsity_parts, stored_runs, with_means
from wina_app.widgets.table_model import Column, TableEntry
from wina_core.analysis.results.columns import WARNING
from wina_core.analysis.results.measured import DEFAULT_COUNT, Count
from wina_core.analysis.results.measures import decimals_of, value_text
from wina_core.errors import WinaError
from wina_core.records.texts import UNKNOWN

if TYPE_CHECKING:  # SQLAlchemy takes a second to import: only the store's thread does
    from wina_core.analysis.comparison.compare_runs import RunComparisonResult
    from wina_core.analysis.comparison.compare_tasks import Comparison
    from wina_core.specs.studies import StudySpec
    from wina_core.store import MetricRow
    from wina_core.store.reader import Reader

LETTERS = "ABCDEFGH"
"""Names of the runs in the headings of columns, one for each of `MOST_RUNS`."""


@dataclass(frozen=True)
class TaskComparison:
    """Each run but the reference against the reference, on one task."""

    unit: str
    task: str
    metric: str
    comparisons: "tuple[Comparison | None, ...]"
    """First is the run, second the reference; None for a run that lacks the task."""
    p: tuple[float | None, ...]
    """Corrected for the number of runs that have the task."""
    averaged: tuple[tuple[str, ...], ...]
    """Tasks of each run's mean; empty for a task."""

    @property
    def reference(self) -> float:
        return self._available[0].second

    @property
    def _available(self) -> "list[Comparison]":
        return [comparison for comparison in self.comparisons if comparison is not None]

    @cached_property
    def _decimals(self) -> int:
        # All numbers of a row have as many as the errors of its differences allow.
        values = [value for comparison in self._available for value in (comparison.first, comparison.second)]
        return decimals_of(np.array(values), np.array([comparison.stderr for comparison in self._available]))

    def text(self, value: float) -> str:
        return UNKNOWN if math.isnan(value) else value_text(value, self._decimals, 0.0)

    def signed(self, value: float) -> str:
        return f"+{self.text(value)}" if value > 0 else self.text(value)

    def interval(self, at: int) -> str:
        comparison = self.comparisons[at]
        if comparison is None or not math.isfinite(comparison.low + comparison.high):
            return UNKNOWN
        return f"{self.signed(comparison.low)} to {self.signed(comparison.high)}"


@dataclass(frozen=True)
class RunComparison:
    """Two or more runs, the reference first."""

    runs: tuple[str, ...]
    names: tuple[str, ...]
    sparsity_tips: tuple[str, ...]
    """All known sparsities of each run, with the distance from its target."""
    flags: tuple[str, ...]
    """A warning for each run that is not as sparse as the reference; "" within tolerance and beside a dense run."""
    tasks: tuple[TaskComparison, ...]
    differences: tuple[tuple[str, tuple[str, ...]], ...]
    """(setting, its value in each run) of what is not the same in all specs."""
    remarks: tuple[str, ...]
    """Sentences on pairs that could not be compared, or not pair by pair."""


def compare(
    store: "Reader",
    rows: "Sequence[MetricRow]",
    count: Count = DEFAULT_COUNT,
    measure: tuple[str, str] | None = None,
) -> RunComparison:
    """Compare runs, each given by one of its rows, with the first, on the store's thread.

    `measure`, a task and a metric, comes first.

    Documents are paired where their samples are stored. Metrics and weights of the mean are those of the last launched
    study that has all of the runs. Raises WinaError where no run can be compared with the first.
    """
    from wina_core.analysis.comparison.compare_runs import compare_pairs
    from wina_core.analysis.comparison.study_runs import pair_flag, shared_study

    rows, left_out = rows[:MOST_RUNS], len(rows[MOST_RUNS:])
    runs = stored_runs(store, rows)
    rows = with_means(rows, runs)
    study = shared_study(store, *(row.run for row in rows))
    pairs = [(row.run, rows[0].run) for row in rows[1:]]
    columns = compare_pairs(store, pairs, study, allow_unpaired=True)
    tasks = _tasks(columns)
    if measure is not None and not any((task.task, task.metric) == measure for task in tasks):
        tasks = (*_tasks_of_measure(store, pairs, study, measure), *tasks)
    remarks = [column.refusal for column in columns if column.refusal]
    if len(remarks) == len(columns) and not tasks:
        raise WinaError(remarks[0])
    if left_out:
        remarks.insert(0, f"Only the first {MOST_RUNS} of the selected runs are compared.")
    if any(not is_paired(task) for column in columns for task in column.tasks):
        remarks.append(
            "Some comparisons are not paired, since no samples are stored: run the study again with "
            '"Log samples of every document" for narrower intervals.'
        )
    if len({column.averaged for column in columns if column.mean}) > 1:
        remarks.append("Each mean is over the tasks that the run shares with A; its tooltip lists them.")

    specs = [store.run_spec(row.run) for row in rows]
    dumps = [spec.model_dump(mode="json") if spec is not None else {} for spec in specs]
    sparsities = [RunSparsity(row.target_sparsity, row.gated_sparsity, row.net_sparsity) for row in rows]
    flags = [pair_flag(run, runs[0], count) if run and runs[0] else "" for run in runs]
    return RunComparison(
        runs=tuple(row.run for row in rows),
        names=name_runs(rows, count),
        sparsity_tips=tuple(", ".join(sparsity_parts(sparsity, count)) for sparsity in sparsities),
        flags=tuple(f"{WARNING} {flag} than A" if flag else "" for flag in flags),
        # The selected metric comes first; sorting leaves the others in their order.
        tasks=tuple(sorted(tasks, key=lambda task: (task.task, task.metric) != measure)),
        differences=spec_differences(dumps),
        remarks=tuple(remarks),
    )


def _tasks_of_measure(
    store: "Reader", pairs: Sequence[tuple[str, str]], study: "StudySpec | None", measure: tuple[str, str]
) -> tuple[TaskComparison, ...]:
    """Compare a metric that neither the study nor the published evaluation prefers; without any error or document to
    test by, only its values."""
    from wina_core.analysis.comparison.compare_runs import compare_pairs
    from wina_core.analysis.comparison.compare_tasks import untested
    from wina_core.store import MetricFilter

    columns = compare_pairs(store, pairs, study, allow_unpaired=True, measure=measure)
    if tested := _tasks(columns):
        return tested
    metric_filter = MetricFilter(runs=tuple(dict.fromkeys(run for pair in pairs for run in pair)))
    rows = {row.run: row for row in store.metric_rows(metric_filter) if (row.task, row.metric) == measure}
    compared = tuple(
        untested(rows[run], rows[reference]) if run in rows and reference in rows else None for run, reference in pairs
    )
    key = next((comparison.key for comparison in compared if comparison is not None), None)
    if key is None:
        return ()
    return (TaskComparison(*key, compared, (None,) * len(compared), ((),) * len(compared)),)


def _tasks(columns: "Sequence[RunComparisonResult]") -> tuple[TaskComparison, ...]:
    lines_of_columns = [{line.key: line for line in column.lines} for column in columns]
    keys = dict.fromkeys(key for lines in lines_of_columns for key in lines if key[0])
    means = dict.fromkeys(key for lines in lines_of_columns for key in lines if not key[0])
    averaged = tuple(column.averaged for column in columns)
    return tuple(
        TaskComparison(
            *key,
            tuple(lines.get(key) for lines in lines_of_columns),
            tuple(
                lines[key].corrected if key in lines and not math.isnan(lines[key].corrected) else None
                for lines in lines_of_columns
            ),
            averaged if key in means else tuple(() for _ in columns),
        )
        for key in (*keys, *means)
    )


def is_paired(row: "Comparison") -> bool:
    """Return whether the same documents' answers were compared one by one."""
    from wina_core.analysis.comparison.compare_tasks import PROPAGATED, UNPAIRED, UNTESTED

    return row.test not in (UNPAIRED, PROPAGATED, UNTESTED)


def heading(comparison: RunComparison) -> str:
    """Return one sentence that explains the numbers."""
    count = len(comparison.names) - 1
    if count == 1:
        return "B − A, with 95 % interval and two-sided p"
    return f"Each run − A, with 95 % interval and two-sided p, corrected by Holm for the {count} comparisons of a task"


_LONGEST = 60


def spec_differences(specs: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return (setting as "method.name", its value in each spec) of the settings that differ, in the specs' order."""
    flat = [dict(_flatten(spec)) for spec in specs]
    names = dict.fromkeys(name for settings in flat for name in settings)
    # A setting that a spec lacks differs from one that is None.
    return tuple(
        (name, tuple(_text(settings[name]) if name in settings else UNKNOWN for settings in flat))
        for name in names
        if any(settings.get(name) != flat[0].get(name) or (name in settings) != (name in flat[0]) for settings in flat)
    )


def _flatten(spec: Mapping[str, Any], above: str = "") -> list[tuple[str, Any]]:
    settings: list[tuple[str, Any]] = []
    for name, value in spec.items():
        path = f"{above}{name}"
        settings += _flatten(value, f"{path}.") if isinstance(value, Mapping) and value else [(path, value)]
    return settings


def _text(value: Any) -> str:
    """Return a value as JSON; a table of numbers as its size and mean."""
    if isinstance(value, list) and value and all(isinstance(row, list) and row for row in value):
        cells = [cell for row in value for cell in row]
        if all(isinstance(cell, int | float) for cell in cells):
            mean = sum(cells) / len(cells)
            return f"{len(value)} x {len(value[0])} numbers, mean {mean:.4g}"
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "\N{HORIZONTAL ELLIPSIS}"


class DifferenceEntry(TableEntry):
    """One setting with its value in each run."""

    def __init__(self, row: tuple[str, tuple[str, ...]], columns: tuple[Column, ...]) -> None:
        self.columns = columns
        super().__init__((row[0],), row)


def difference_columns(letters: str) -> tuple[Column, ...]:
    """Return a column of settings, then one for each run."""

    def cell(at: int) -> Column:
        return Column(letters[at], letters[at], lambda row: row[1][at], lambda row: row[1][at], width=18)

    setting = Column("setting", "setting", lambda row: row[0], lambda row: row[0], width=20)
    return (setting, *map(cell, range(len(letters))))
