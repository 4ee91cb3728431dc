"""Table with one row per run: its own columns, and one column for each task and metric."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wina_core.analysis.results.columns import ResultColumn
from wina_core.analysis.results.measures import (
    Floats,
    Measure,
    decimals_of,
    error_at,
    mean_weights,
    value_text,
    with_error,
)
from wina_core.analysis.results.table import Codes, Key, Mask, MetricResults, NumberColumn, TableColumn, categorical
from wina_core.errors import WinaError
from wina_core.records import noise_of
from wina_core.records.texts import UNKNOWN, error_text, number
from wina_core.specs import COST, FIDELITY, ORIGINAL, SYNTHETIC

if TYPE_CHECKING:  # pandas takes seconds to import
    import pandas as pd

MEAN = "mean"
"""Key of the mean over tasks."""
_MEASURE, _PAPER = "metric", "paper"
_OF_METRICS = frozenset(("task", "metric", "value", "paper", "stderr", "n", "fewshot", "version", "truncated"))
"""Columns of single metrics, which runs have none of."""
_OF_UNITS = frozenset(("gated", "net", "when", "seconds"))
"""Columns of what each unit of a run measured."""
_SPARSITIES = ["gated_sparsity", "net_sparsity"]
_BY_UNIT = [*_SPARSITIES, "finished", "seconds"]
_FIRST = ("model", "method", "rotation", "selection", "settings", "gated", "net", "target")
"""Columns before those of the metrics."""
_LAST = ("plan", "seed", "status", "when", "tags", "note", "warning")
"""Columns of a file behind those of the metrics."""


def measure_key(measure: Measure, prefix: str = _MEASURE) -> str:
    """Return the key of a measure's column, with tabs, which the keys of other columns do not have."""
    return "\t".join((prefix, measure.task, measure.metric))


def with_error_columns(columns: Sequence[TableColumn]) -> list[TableColumn]:
    """Return the columns with that of the standard errors behind each metric that has any."""
    with_errors: list[TableColumn] = []
    for cells in columns:
        with_errors.append(cells)
        if isinstance(cells, MeasureColumn) and not np.isnan(cells.stderrs).all():
            key, title = f"stderr\t{cells.column.key}", f"{cells.column.title} stderr"
            with_errors.append(NumberColumn(ResultColumn(key, title, numeric=True, text=number), cells.stderrs))
    return with_errors


def measure_of(key: str) -> tuple[str, str] | None:
    """Return the task and the metric in the key of a metric's column; None for another column."""
    prefix, *names = key.split("\t")
    return (names[0], names[1]) if prefix == _MEASURE and len(names) == 2 else None


def is_measure(key: str) -> bool:
    """Return whether a key belongs to the column of a metric or of the mean over tasks."""
    return key == MEAN or "\t" in key


class MeasureColumn(NumberColumn):
    """One task's metric, or the mean over tasks, of each run."""

    def __init__(
        self, column: ResultColumn, measured: Mask, numbers: Floats, stderrs: Floats, decimals: int, better: bool | None
    ) -> None:
        """`numbers` and `stderrs`, shape [runs], are NaN where a run has none; `better`: higher is."""
        super().__init__(column, numbers)
        self.measured, self.stderrs, self.decimals, self.higher_is_better = measured, stderrs, decimals, better
        if not np.isnan(numbers).all():
            self.column = replace(column, width=self._widest())

    def _widest(self) -> int:
        """Return the most letters of a cell, from the greatest and the least values and errors."""
        values = {np.nanargmax(self.numbers), np.nanargmin(self.numbers), np.nanargmin(np.abs(self.numbers))}
        texts = [value_text(float(self.numbers[row]), self.decimals, error) for row in values for error in (None, 0.0)]
        widest = max(len(text) + text.count("\N{MINUS SIGN}") for text in texts)  # which is wider than a digit
        if np.isnan(self.stderrs).all():
            return widest
        errors = np.nanmax(self.stderrs), np.nanmin(self.stderrs)
        return widest + len(" ± ") + max(len(error_at(float(error), self.decimals)) for error in errors)

    def text(self, row: int) -> str:
        value = float(self.numbers[row])
        return with_error(value, float(self.stderrs[row]), self.decimals) if self.measured[row] else UNKNOWN

    def value_text(self, row: int) -> str:
        error = float(self.stderrs[row])
        rounded = value_text(float(self.numbers[row]), self.decimals, None if np.isnan(error) else error)
        return rounded if self.measured[row] else UNKNOWN

    def tip(self, row: int) -> str:
        if not self.measured[row]:
            return UNKNOWN
        error = float(self.stderrs[row])
        value = number(float(self.numbers[row]))
        return f"{self.column.title}: {value}" + ("" if np.isnan(error) else f" ± {error_text(error)}")

    def common_text(self, rows: Mask | slice) -> str | None:
        """Return the text of all of these rows, if they are one number."""
        values = set(self.numbers[rows][self.measured[rows]].tolist())
        if len(values) != 1 or not self.measured[rows].all():
            return None
        return self.text(int(np.arange(len(self.numbers))[rows][0]))

    def best(self, rows: Codes) -> set[int]:
        """Return the row with the best value and those that show the same; none where no direction is better or fewer
        than two values compete."""
        measured_rows = [int(row) for row in rows if not np.isnan(self.numbers[row])]
        if self.higher_is_better is None or len(measured_rows) < 2:
            return set()
        best = (max if self.higher_is_better else min)(measured_rows, key=lambda row: float(self.numbers[row]))
        return {row for row in measured_rows if self.value_text(row) == self.value_text(best)}


class RunResults(MetricResults):
    """Runs of those rows of a table of metrics that pass, in the order of their first row."""

    def __init__(self, source: MetricResults, passing: Mask) -> None:
        self.metrics, self.details = None, source.details
        self._source = None
        self.runs: tuple[str, ...] = ()
        self.first_rows: Codes = np.zeros(0, np.intp)
        self._all_measures: tuple[Measure, ...] = ()
        run_columns = [column for column in source.columns if column.key not in _OF_METRICS]
        if source.metrics is None:
            self.cells = tuple(TableColumn(column, np.zeros(0, np.int8), ()) for column in run_columns)
        else:
            # The runs are numbered in the order of their first row that passes.
            rows = source.metrics[["run", "unit", "value", "stderr", *_BY_UNIT]].reset_index(drop=True)[passing]
            rows["at"], runs = rows["run"].factorize()
            self.runs = tuple(runs)
            self.first_rows = rows.drop_duplicates("at").index.to_numpy()
            by_run = _by_run(rows.drop_duplicates(["at", "unit"]))
            cells = [self._run_column(source, column, rows, by_run) for column in run_columns]
            split = sum(column.key in _FIRST for column in run_columns)
            self.cells = (*cells[:split], *self._measures(source, rows), *cells[split:])
        self.columns = tuple(cells.column for cells in self.cells)

    def __len__(self) -> int:
        return len(self.runs)

    def rows_of_runs(self, runs: Collection[str]) -> NDArray[np.intp]:
        return np.array(sorted(self._row_of_run[run] for run in runs if run in self._row_of_run), np.intp)

    def key(self, row: int) -> Key:
        return (self.runs[row],)

    def prepare(self) -> None:
        for cells in self.cells:
            _ = cells.ranks

    @cached_property
    def measured_keys(self) -> frozenset[str]:
        """Keys of the metrics' columns that a run has a number of."""
        return frozenset(
            cells.column.key for cells in self.cells if isinstance(cells, MeasureColumn) and cells.measured.any()
        )

    def keys_of(self, titles: Sequence[str]) -> list[str]:
        """Return the keys of the columns with these titles or keys. Raises WinaError for a name that is none."""
        names = {cells.column.title.casefold(): cells.column.key for cells in self.cells}
        names |= {cells.column.key: cells.column.key for cells in self.cells}
        if unknown := [title for title in titles if title.casefold() not in names]:
            column_titles = ", ".join(f'"{cells.column.title}"' for cells in self.cells)
            raise WinaError(f'There is no column "{unknown[0]}"; the columns are: {column_titles}.')
        return [names[title.casefold()] for title in titles]

    def usual_keys(self, to_read: bool) -> list[str]:
        """Return the columns of a file: all of runs, or `to_read` those that differ, and the metrics but cost."""
        measures = [key for key in (column.key for column in self.columns) if key in self.measured_keys]
        if not to_read:
            return ["hash", *_FIRST, *measures, *_LAST]
        cost = {measure_key(measure) for measure in self._all_measures if measure.unit == COST}
        several = [key for key in (*_FIRST, "plan") if len(set(self[key].codes.tolist())) > 1]
        named = several if "method" in several else ["method", *several]
        return [*named, *(key for key in measures if key not in cost)]

    @cached_property
    def _row_of_run(self) -> dict[str, int]:
        return {run: row for row, run in enumerate(self.runs)}

    # ---- columns of runs -----------------------------------------------------------------------------------------

    def _run_column(
        self, source: MetricResults, column: ResultColumn, rows: "pd.DataFrame", by_run: "pd.DataFrame"
    ) -> TableColumn:
        """Return a column with the cell of each run's first row, of warnings with the first that there is."""
        if column.key in _OF_UNITS:
            return categorical(column, by_run)
        cells = source[column.key]
        if column.key != "warning":
            return cells.take(self.first_rows)
        warned = rows[np.array([bool(value) for value in cells.values], np.bool_)[cells.codes[rows.index]]]
        first = self.first_rows.copy()
        warned = warned.drop_duplicates("at")
        first[warned["at"]] = warned.index
        return cells.take(first)

    # ---- columns of metrics --------------------------------------------------------------------------------------

    def _measures(self, source: MetricResults, rows: "pd.DataFrame") -> list[MeasureColumn]:
        import pandas as pd

        self._all_measures, codes = source.measures
        rows = rows.assign(measure=codes[rows.index], measured=1.0)
        if "paper" in source:
            rows["paper"] = source["paper"].numbers[source["paper"].codes[rows.index]]
        fields = ["measured", "value", "stderr", *(["paper"] if "paper" in source else [])]
        rows = rows.drop_duplicates(["at", "measure"], keep="last")
        cells = pd.MultiIndex.from_product([fields, range(len(self.runs))])
        pivot = rows.pivot(index="measure", columns="at", values=fields)
        pivot = pivot.reindex(index=range(len(self._all_measures)), columns=cells)
        by_measure = pivot.to_numpy().reshape(len(self._all_measures), len(fields), len(self.runs))
        measured, values, stderrs, *published = by_measure.swapaxes(0, 1)
        measured = ~np.isnan(measured)
        columns = [_mean_column(self._all_measures, measured, values, stderrs)]
        for index, measure in enumerate(self._all_measures):
            columns.append(_measure_column(measure, measured[index], values[index], stderrs[index]))
            if published:
                columns.append(_paper_column(measure, published[0][index]))
        return columns


def _by_run(rows: "pd.DataFrame") -> "pd.DataFrame":
    """Return what was measured by unit of each run, from one row of each of its units.

    A run's sparsities are the mean over its units, as `mean_over_units` takes it.
    """
    units = rows["unit"]
    rows = rows[["at", *_BY_UNIT]].astype(np.float64)
    runs = rows.groupby("at")
    with_original = rows["at"][(units == ORIGINAL) & rows["gated_sparsity"].notna()]
    on_text = ~units.isin([COST, SYNTHETIC])
    counted = on_text & ~((units == FIDELITY) & rows["at"].isin(with_original))
    sparsities = rows[counted].groupby("at")[_SPARSITIES].mean().reindex(runs.size().index)
    sparsities = sparsities.fillna(rows[~on_text].groupby("at")[_SPARSITIES].mean())
    return sparsities.assign(finished=runs["finished"].max(), seconds=runs["seconds"].sum())


def _measure_column(measure: Measure, measured: Mask, values: Floats, stderrs: Floats) -> MeasureColumn:
    better = {True: "Higher is better", False: "Lower is better", None: ""}[measure.higher_is_better]
    column = _numbers(measure_key(measure), f"{measure.task}\n{measure.metric}", better)
    values = np.where(np.abs(values) < noise_of(measure.metric), 0.0, values)
    return MeasureColumn(column, measured, values, stderrs, measure.decimals, measure.higher_is_better)


def _paper_column(measure: Measure, values: Floats) -> MeasureColumn:
    explanation = "The number that the paper published for the same cell"
    column = _numbers(measure_key(measure, _PAPER), f"{measure.task}\n{measure.metric} (paper)", explanation)
    none, measured = np.full(len(values), np.nan), ~np.isnan(values)
    return MeasureColumn(column, measured, values, none, decimals_of(values, none), measure.higher_is_better)


def _mean_column(measures: Sequence[Measure], measured: Mask, values: Floats, stderrs: Floats) -> MeasureColumn:
    """Return the mean over tasks of the runs that have all of them; unknown for all where there is one task."""
    weights = mean_weights(measures, np.flatnonzero(measured.any(axis=1)).tolist())
    indices, shares = list(weights), np.array(list(weights.values()))
    means = shares @ values[indices] if weights else np.full(len(measured.T), np.nan)
    errors = np.sqrt(shares**2 @ stderrs[indices] ** 2) if weights else means
    tasks = ", ".join(measures[index].task for index in indices)
    explanation = f"Mean over {len(indices)} tasks, of runs that have all of them: {tasks}"
    column = _numbers(MEAN, "mean\nof tasks", explanation)
    return MeasureColumn(column, ~np.isnan(means), means, errors, decimals_of(means, errors), True)


def _numbers(key: str, heading: str, explanation: str) -> ResultColumn:
    title = heading.replace("\n", " ")
    return ResultColumn(key, title, numeric=True, explanation=explanation, text=number, heading=heading)
