"""Table with one row per run: its own columns, and one column for each task and metric."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from wina_core.analysis.results.cells import CellColumn, CellTable, Codes, Key, Mask, NumberColumn
from wina_core.analysis.results.columns import ResultColumn
from wina_core.analysis.results.measures import Measure, mean_weights
from wina_core.analysis.results.rounding import decimals_of, error_at, value_text, with_error
from wina_core.errors import WinaError
from wina_core.records import noise_of
from wina_core.records.texts import UNKNOWN, error_text, number
from wina_core.specs import COST, SYNTHETIC

MEAN = "mean"
"""Key of the mean over tasks."""
_MEASURE, _PAPER = "metric", "paper"
_OF_METRICS = frozenset(("task", "metric", "value", "paper", "stderr", "n", "fewshot", "version", "truncated"))
"""Columns of single metrics, which runs have none of."""
_OF_UNITS = frozenset(("gated", "net", "when", "seconds"))
_FIRST = ("model", "method", "rotation", "selection", "settings", "gated", "net", "target")
"""Columns before those of the metrics."""
_LAST = ("plan", "seed", "status", "when", "tags", "note", "warning")
"""Columns of a file behind those of the metrics."""
Floats = NDArray[np.float64]


def measure_key(measure: Measure, prefix: str = _MEASURE) -> str:
    """Return the key of a measure's column; tabs are in no key of another."""
    return "\t".join((prefix, measure.task, measure.metric))


def with_error_columns(columns: Sequence[CellColumn]) -> list[CellColumn]:
    """Return the columns with that of the standard errors behind each metric that has any."""
    found: list[CellColumn] = []
    for cells in columns:
        found.append(cells)
        if isinstance(cells, MeasureColumn) and not np.isnan(cells.stderrs).all():
            key, title = f"stderr\t{cells.column.key}", f"{cells.column.title} stderr"
            found.append(NumberColumn(ResultColumn(key, title, (), numeric=True, text=number), cells.stderrs))
    return found


def measure_of(key: str) -> tuple[str, str] | None:
    """Return task and metric of the key of a metric's column; None for another column."""
    prefix, *names = key.split("\t")
    return (names[0], names[1]) if prefix == _MEASURE and len(names) == 2 else None


def is_measure(key: str) -> bool:
    """Return whether a key is that of a metric's column, or of the mean over tasks."""
    return key == MEAN or "\t" in key


class MeasureColumn(NumberColumn):
    """One task's metric, or the mean over tasks, of each run."""

    def __init__(
        self, column: ResultColumn, known: Mask, numbers: Floats, stderrs: Floats, decimals: int, better: bool | None
    ) -> None:
        """`numbers` and `stderrs`, shape [runs], are NaN where a run has none; `better`: higher is."""
        super().__init__(column, numbers)
        self.known, self.stderrs, self.decimals, self.higher_is_better = known, stderrs, decimals, better
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
        """Return "0.710 ± 0.016"."""
        value = float(self.numbers[row])
        return with_error(value, float(self.stderrs[row]), self.decimals) if self.known[row] else UNKNOWN

    def value_text(self, row: int) -> str:
        """Return the rounded value alone."""
        error = float(self.stderrs[row])
        rounded = value_text(float(self.numbers[row]), self.decimals, None if np.isnan(error) else error)
        return rounded if self.known[row] else UNKNOWN

    def tip(self, row: int) -> str:
        """Return the number with more digits."""
        if not self.known[row]:
            return UNKNOWN
        error = float(self.stderrs[row])
        value = number(float(self.numbers[row]))
        return f"{self.column.title}: {value}" + ("" if np.isnan(error) else f" ± {error_text(error)}")

    def common_text(self, rows: Mask | slice) -> str | None:
        """Return the text of all of these rows, if they are one number."""
        found = set(self.numbers[rows][self.known[rows]].tolist())
        if len(found) != 1 or not self.known[rows].all():
            return None
        return self.text(int(np.arange(len(self.numbers))[rows][0]))

    def best(self, rows: Codes) -> set[int]:
        """Return the row with the best value and those that show the same; none where no direction is better or fewer
        than two values compete."""
        known = [int(row) for row in rows if not np.isnan(self.numbers[row])]
        if self.higher_is_better is None or len(known) < 2:
            return set()
        best = (max if self.higher_is_better else min)(known, key=lambda row: float(self.numbers[row]))
        return {row for row in known if self.value_text(row) == self.value_text(best)}


class RunTable(CellTable):
    """Runs of those rows of a table of metrics that pass, in the order of their first row."""

    def __init__(self, source: CellTable, passing: Mask) -> None:
        self.metrics, self.details = None, source.details
        self._source = None
        if source.metrics is None:
            self.runs: tuple[str, ...] = ()
            self.first_rows: Codes = np.zeros(0, np.intp)
            self._all_measures: tuple[Measure, ...] = ()
            self.cells = tuple(CellColumn(column, np.zeros(0, np.int8), ()) for column in _of_runs(source.columns))
            self.columns = tuple(cells.column for cells in self.cells)
            return
        runs = source.metrics["run"].array
        rows = np.arange(len(passing), dtype=np.int32)[passing]
        of_rows = runs.codes[rows]
        first = np.full(len(runs.categories), -1, np.intp)
        first[of_rows[::-1]] = rows[::-1]  # the last one written stays
        order = np.flatnonzero(first >= 0)
        order = order[np.argsort(first[order])]
        places = np.full(len(first), -1, np.int32)
        places[order] = np.arange(len(order))
        self.runs = tuple(runs.categories[order])
        self.first_rows = first[order]
        of_run = places[of_rows]  # [rows that pass]
        self._units = self._find_units(source, rows, of_run)
        own = [self._own(source, column, rows, of_run) for column in _of_runs(source.columns)]
        split = sum(cells.column.key in _FIRST for cells in own)
        self.cells = (*own[:split], *self._measures(source, rows, of_run), *own[split:])
        self.columns = tuple(cells.column for cells in self.cells)

    def __len__(self) -> int:
        return len(self.runs)

    def rows_of_runs(self, runs: Collection[str]) -> NDArray[np.intp]:
        """Return the places of these runs."""
        return np.array(sorted(self._places[run] for run in runs if run in self._places), np.intp)

    def key(self, row: int) -> Key:
        """Return the run, which names the row for good."""
        return (self.runs[row],)

    def prepare(self) -> None:
        """Make at once what sorting needs."""
        for cells in self.cells:
            _ = cells.ranks

    @cached_property
    def there(self) -> frozenset[str]:
        """Keys of the metrics' columns that a run has a number of."""
        return frozenset(
            cells.column.key for cells in self.cells if isinstance(cells, MeasureColumn) and cells.known.any()
        )

    def keys_of(self, titles: Sequence[str]) -> list[str]:
        """Return the keys of the columns with these titles or keys. Raises WinaError for a name that is none."""
        names = {cells.column.title.casefold(): cells.column.key for cells in self.cells}
        names |= {cells.column.key: cells.column.key for cells in self.cells}
        if unknown := [title for title in titles if title.casefold() not in names]:
            known = ", ".join(f'"{cells.column.title}"' for cells in self.cells)
            raise WinaError(f'There is no column "{unknown[0]}"; the columns are: {known}.')
        return [names[title.casefold()] for title in titles]

    def usual_keys(self, to_read: bool) -> list[str]:
        """Return the columns of a file: all of runs, or `to_read` those that differ, and the metrics but cost."""
        measures = [key for key in (column.key for column in self.columns) if key in self.there]
        if not to_read:
            return ["hash", *_FIRST, *measures, *_LAST]
        cost = {measure_key(each) for each in self._all_measures if each.unit == COST}
        several = [key for key in (*_FIRST, "plan") if len(set(self[key].codes.tolist())) > 1]
        named = several if "method" in several else ["method", *several]
        return [*named, *(key for key in measures if key not in cost)]

    @cached_property
    def _places(self) -> dict[str, int]:
        return {run: place for place, run in enumerate(self.runs)}

    # ---- columns of runs -----------------------------------------------------------------------------------------

    def _find_units(self, source: CellTable, rows: Codes, of_run: Codes) -> tuple[Codes, Codes]:
        """Return the first row of each unit of each run, and its run, in the order of runs."""
        assert source.metrics is not None
        units = source.metrics["unit"].array
        keys = of_run.astype(np.int64) * len(units.categories) + units.codes[rows]
        starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])[: len(keys)])
        _, of_key = np.unique(keys[starts], return_index=True)
        starts = starts[of_key]
        return rows[starts], of_run[starts]

    def _own(self, source: CellTable, column: ResultColumn, rows: Codes, of_run: Codes) -> CellColumn:
        if column.key in _OF_UNITS:
            return self._of_units(source, column)
        cells = source[column.key]
        if column.key != "warning":
            return cells.take(self.first_rows)
        warned = np.array([bool(text) for text in cells.folded], np.bool_)[cells.codes[rows]]
        first = self.first_rows.copy()
        first[of_run[warned][::-1]] = rows[warned][::-1]
        return cells.take(first)

    def _of_units(self, source: CellTable, column: ResultColumn) -> CellColumn:
        if column.key == "seconds":
            return _distinct(column, self._summed(_floats(source, "seconds", self._units[0])))
        if column.key == "when":
            latest = np.zeros(len(self))
            np.maximum.at(latest, self._units[1], _floats(source, "finished", self._units[0]))
            return _distinct(column, latest)
        found = [self._measured(source, field) for field in column.fields if isinstance(field, str)]
        if len(found) == 1:
            return _distinct(column, *found)
        cells = list(zip(*map(_known, found), strict=True))
        return CellColumn(column, np.arange(len(self)), cells)

    def _measured(self, source: CellTable, field: str) -> Floats:
        """Return the mean over each run's units; cost and random networks count only where nothing else was."""
        assert source.metrics is not None
        sparsities = _floats(source, field, self._units[0])
        units = source.metrics["unit"].array
        on_text = ~np.isin(units.codes[self._units[0]], units.categories.get_indexer([COST, SYNTHETIC]))
        first, second = (self._mean(np.where(chosen, sparsities, np.nan)) for chosen in (on_text, ~on_text))
        return np.where(np.isnan(first), second, first)

    def _mean(self, of_units: Floats) -> Floats:
        counts = np.bincount(self._units[1], ~np.isnan(of_units), len(self))
        with np.errstate(invalid="ignore"):
            return np.where(counts, self._summed(of_units) / counts, np.nan)

    def _summed(self, of_units: Floats) -> Floats:
        return np.asarray(np.bincount(self._units[1], np.nan_to_num(of_units), len(self)), np.float64)

    # ---- columns of metrics --------------------------------------------------------------------------------------

    def _measures(self, source: CellTable, rows: Codes, of_run: Codes) -> list[MeasureColumn]:
        assert source.metrics is not None
        measures, codes = source.measures
        self._all_measures = measures
        at = codes[rows].astype(np.intp) * len(self) + of_run
        known = np.zeros((len(measures), len(self)), np.bool_)
        known.ravel()[at] = True
        fields = [source.metrics[field].to_numpy() for field in ("value", "stderr")]
        if "paper" in source:
            fields.append(source["paper"].numbers[source["paper"].codes])
        tables = [np.full(known.shape, np.nan) for _ in fields]
        for table, numbers in zip(tables, fields, strict=True):
            table.ravel()[at] = numbers[rows]
        values, stderrs, *published = tables
        columns = [_mean_column(measures, known, values, stderrs)]
        for place, each in enumerate(measures):
            columns.append(_measure_column(each, known[place], values[place], stderrs[place]))
            if published:
                columns.append(_paper_column(each, published[0][place]))
        return columns


def _of_runs(columns: Sequence[ResultColumn]) -> list[ResultColumn]:
    return [column for column in columns if column.key not in _OF_METRICS]


def _floats(source: CellTable, field: str, rows: Codes) -> Floats:
    """Return the numbers of a field, NaN of absent ones."""
    assert source.metrics is not None
    cells = source.metrics[field].array
    return np.append(cells.categories.to_numpy(np.float64), np.nan)[cells.codes[rows]]


def _known(numbers: Floats) -> list[float | None]:
    """Return numbers as Python's own, None for NaN."""
    cells: list[float | None] = numbers.tolist()
    for place in np.flatnonzero(np.isnan(numbers)).tolist():
        cells[place] = None
    return cells


def _distinct(column: ResultColumn, numbers: Floats) -> CellColumn:
    categories, codes = np.unique(numbers, return_inverse=True)
    known = categories[~np.isnan(categories)]
    return CellColumn(column, np.where(codes < len(known), codes, -1), known.tolist())


def _measure_column(measure: Measure, known: Mask, values: Floats, stderrs: Floats) -> MeasureColumn:
    better = {True: "Higher is better", False: "Lower is better", None: ""}[measure.higher_is_better]
    column = _numbers(measure_key(measure), f"{measure.task}\n{measure.metric}", better)
    values = np.where(np.abs(values) < noise_of(measure.metric), 0.0, values)
    return MeasureColumn(column, known, values, stderrs, measure.decimals, measure.higher_is_better)


def _paper_column(measure: Measure, values: Floats) -> MeasureColumn:
    explanation = "The number that the paper published for the same cell"
    column = _numbers(measure_key(measure, _PAPER), f"{measure.task}\n{measure.metric} (paper)", explanation)
    none, known = np.full(len(values), np.nan), ~np.isnan(values)
    return MeasureColumn(column, known, values, none, decimals_of(values, none), measure.higher_is_better)


def _mean_column(measures: Sequence[Measure], known: Mask, values: Floats, stderrs: Floats) -> MeasureColumn:
    """Return the mean over tasks of the runs that have all of them; unknown for all where there is one task."""
    weights = mean_weights(measures, np.flatnonzero(known.any(axis=1)).tolist())
    places, shares = list(weights), np.array(list(weights.values()))
    means = shares @ values[places] if weights else np.full(len(known.T), np.nan)
    errors = np.sqrt(shares**2 @ stderrs[places] ** 2) if weights else means
    tasks = ", ".join(measures[place].task for place in places)
    explanation = f"Mean over {len(places)} tasks, of runs that have all of them: {tasks}"
    column = _numbers(MEAN, "mean\nof tasks", explanation)
    return MeasureColumn(column, ~np.isnan(means), means, errors, decimals_of(means, errors), True)


def _numbers(key: str, heading: str, explanation: str) -> ResultColumn:
    title = heading.replace("\n", " ")
    return ResultColumn(key, title, (), numeric=True, explanation=explanation, text=number, heading=heading)
