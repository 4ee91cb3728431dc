"""Cells of a table of stored metrics, as categorical columns: texts are made and searched once per category, of which
a hundred thousand rows have few; the rest is arithmetic on codes."""

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wina_core.analysis.results.columns import Part, ResultColumn, Value
from wina_core.analysis.results.measures import FACTS, Measures, find_measures
from wina_core.analysis.results.numbers import PART, Numbers, NumberTexts
from wina_core.analysis.results.rounding import error_at, fixed_texts, value_text
from wina_core.files.tables import BATCH
from wina_core.records import noise_of
from wina_core.store.metric_frames import cells_of

if TYPE_CHECKING:  # pandas takes seconds to import
    import pandas as pd

Codes = NDArray[Any]
Mask = NDArray[np.bool_]
Coded = tuple[Codes, list[Any]]
"""Code of each cell, -1 of an absent one, and the different cells."""
Key = tuple[str, ...]


class CellColumn:
    """One categorical column: `codes[row]` is the place of the row's cell in `categories`, -1 of an absent one, for
    which the last category, None, is appended."""

    def __init__(self, column: ResultColumn, codes: Codes, categories: Sequence[Any]) -> None:
        self.column = column
        self.codes = codes.astype(np.min_scalar_type(-max(len(categories), 1)), copy=False)
        self.categories = [*categories, None] if len(codes) and codes.min() < 0 else categories

    @cached_property
    def folded(self) -> Sequence[str]:
        """Texts of the categories without case, to search in."""
        return [self.column.text(cell).casefold() for cell in self.categories]

    @cached_property
    def values(self) -> Sequence[Value]:
        """Values of the categories to sort and to export; None for unknown ones."""
        return [self.column.value(cell) for cell in self.categories]

    @cached_property
    def numbers(self) -> NDArray[np.float64]:
        """Values of a numeric column's categories; NaN for unknown ones."""
        return np.array([math.nan if value is None else value for value in self.values], np.float64)

    @cached_property
    def ranks(self) -> NDArray[np.int32]:
        """Ranks of the categories by ascending value, equal ones alike; -1 for unknown ones."""
        if self.column.numeric:
            return _ranks(self.numbers, ~np.isnan(self.numbers))
        known = np.array([value is not None for value in self.values], np.bool_)
        return _ranks(np.array(list(map(str, self.values)), object), known)

    def rows_of(self, categories: Mask) -> Mask:
        """Return a mask of the rows of these categories."""
        return categories[self.codes]

    def _category(self, row: int) -> int:
        return int(self.codes[row])

    def containing(self, text: str) -> Mask:
        """Return a mask of the categories whose text contains this casefolded text."""
        return np.array([text in folded for folded in self.folded], np.bool_)

    def common_text(self, rows: Mask | slice) -> str | None:
        """Return the text of all of these rows, of which there is one; None where they read differently."""
        there = np.zeros(len(self.categories), np.bool_)
        there[self.codes[rows]] = True
        first, *others = np.flatnonzero(there).tolist()
        alike = all(self.folded[other] == self.folded[first] for other in others)
        return self.column.text(self.categories[first]) if alike else None

    def text(self, row: int) -> str:
        """Return a cell as shown."""
        return self.column.text(self.categories[self._category(row)])

    def value(self, row: int) -> Value:
        """Return a cell as sorted and exported."""
        return self.values[self._category(row)]

    def values_of(self, rows: Codes) -> list[Value]:
        """Return the values of these rows."""
        values = self.values
        return [values[code] for code in self.codes[rows].tolist()]

    def tip(self, row: int) -> str:
        """Return a cell's warning, or its text, which may be cut off in the table."""
        cell = self.categories[self._category(row)]
        return (self.column.tip(cell) if self.column.tip else "") or self.column.text(cell)

    def take(self, rows: Codes) -> "CellColumn":
        """Return the cells of these rows as a column."""
        return CellColumn(self.column, self.codes[rows], [cell for cell in self.categories if cell is not None])


class NumberColumn(CellColumn):
    """Column of measured numbers, in which each row is its own category.

    A number gets no Python object until it is shown; one buffer has all texts for searches.
    """

    def __init__(self, column: ResultColumn, numbers: NDArray[np.float64]) -> None:
        self.column = column
        self.categories = self.values = self._numbers = Numbers(numbers)
        self.numbers = numbers

    @cached_property
    def codes(self) -> Codes:  # type: ignore[override]
        """The rows themselves, for those who sort or group by them."""
        return np.arange(len(self.numbers), dtype=np.int32)

    def rows_of(self, categories: Mask) -> Mask:
        """Return the categories, which are the rows."""
        return categories

    def _category(self, row: int) -> int:
        return row

    def values_of(self, rows: Codes) -> list[Value]:
        """Return the values of these rows."""
        return list(Numbers(self.numbers[rows]))

    @cached_property
    def folded(self) -> "NumberTexts":
        """Texts of the numbers."""
        return NumberTexts(lambda part: list(map(self.column.text, self._numbers[part])), len(self.numbers))

    def common_text(self, rows: Mask | slice) -> str | None:
        """Return the text of all of these rows: that of the least and of the greatest number."""
        numbers = self.numbers[rows]
        known = numbers[~np.isnan(numbers)]
        if 0 < len(known) < len(numbers):
            return None
        ends = Numbers(np.array([known.min(), known.max()])) if len(known) else (None,)
        texts = set(map(self.column.text, ends))
        return texts.pop() if len(texts) == 1 else None

    def containing(self, text: str) -> Mask:
        """Return a mask of the numbers whose text contains this text."""
        return self.folded.containing(text)


class RoundedColumn(NumberColumn):
    """Column of values or of their standard errors, each rounded to the decimals of its measure."""

    def __init__(self, column: ResultColumn, table: "CellTable") -> None:
        assert table.metrics is not None
        super().__init__(column, table.metrics[column.fields[0]].to_numpy())
        self._table = table
        self._stderrs = Numbers(table.metrics["stderr"].to_numpy())

    @cached_property
    def _decimals(self) -> Codes:
        measures = self._table.measures
        return measures.decimals[measures.codes]

    @cached_property
    def folded(self) -> "NumberTexts":
        """Texts of the numbers."""
        first = 0 if self.column.fields[0] == "stderr" else 1

        def texts(at: slice) -> list[str]:
            return fixed_texts(self.numbers[at], self._decimals[at], first, lambda place: self.text(at.start + place))

        return NumberTexts(texts, len(self.numbers))

    def text(self, row: int) -> str:
        """Return a cell as shown."""
        number, measures = self._numbers[row], self._table.measures
        if self.column.fields[0] == "value" and number is not None:
            number = 0.0 if abs(number) < noise_of(measures.all[int(measures.codes[row])].metric) else number
        return self._rounded(number, int(self._decimals[row]), self._stderrs[row])

    def tip(self, row: int) -> str:
        """Return the number with more digits."""
        return self.column.text(self._numbers[row])

    def common_text(self, rows: Mask | slice) -> str | None:
        """Return the text of all of these rows, if they are one number of one measure."""
        if super().common_text(rows) is None or len(set(self._table.measures.codes[rows].tolist())) > 1:
            return None
        return self.text(int(np.arange(len(self.numbers))[rows][0]))

    def _rounded(self, number: float | None, decimals: int, stderr: float | None) -> str:
        if self.column.fields[0] == "stderr":
            return error_at(number, decimals)
        return value_text(number, decimals, stderr)


def _ranks(keys: NDArray[Any], known: Mask) -> NDArray[np.int32]:
    """Return ranks by ascending key, equal ones alike; -1 for unknown ones."""
    ranks = np.full(len(keys), -1, np.int32)
    places = np.argsort(keys)
    places = places if known.all() else places[known[places]]
    keys = keys[places]
    ranks[places[:1]] = 0
    ranks[places[1:]] = np.cumsum(keys[1:] != keys[:-1], dtype=np.int32)
    return ranks


class CellRows:
    """Rows of a table as tuples of values, made a batch at a time: a million of them take gigabytes."""

    def __init__(self, columns: Sequence[CellColumn], rows: Codes) -> None:
        self._columns, self._rows = columns, rows

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[tuple[Value, ...]]:
        for start in range(0, len(self), BATCH):
            rows = self._rows[start : start + BATCH]
            yield from zip(*(column.values_of(rows) for column in self._columns), strict=True)


class CellTable:
    """Stored metrics with the cells that a table shows of them; threads may share it, so it is never changed."""

    def __init__(
        self,
        metrics: "pd.DataFrame | None" = None,
        details: "pd.DataFrame | None" = None,
        columns: tuple[ResultColumn, ...] = (),
        source: "pd.DataFrame | None" = None,
    ) -> None:
        """Take metrics as `Store.metrics` has them and, by the hashes of their runs, `details_frame`. Lines of runs
        without details, which were deleted while they were read, are left out. An empty table needs neither.

        `source` is the frame that the metrics were chosen from, by which `is_of` knows them again.
        """
        self.columns, self._source = columns, metrics if source is None else source
        if metrics is not None and details is not None:
            known = metrics["run"].isin(details.index)
            metrics = metrics if known.all() else metrics[known].reset_index(drop=True)
        self.metrics, self.details = metrics, details
        self.cells: tuple[CellColumn, ...] = tuple(map(self._cells, columns))

    def __len__(self) -> int:
        return 0 if self.metrics is None else len(self.metrics)

    def __getitem__(self, key: str) -> CellColumn:
        """Return the column of this key."""
        return self._by_key[key]

    def __contains__(self, key: str) -> bool:
        return key in self._by_key

    @cached_property
    def _by_key(self) -> dict[str, CellColumn]:
        return {cells.column.key: cells for cells in self.cells}

    @cached_property
    def measures(self) -> Measures:
        """The measures of the rows."""
        if self.metrics is None or not len(self):
            return Measures((), np.zeros(0, np.intp))
        codes, names = _combined([_factorized(self.metrics[field]) for field in ("task", "metric")])
        first = np.zeros(len(names), np.intp)
        first[codes[::-1]] = np.arange(len(codes))[::-1]  # the last one written stays
        facts = zip(*(cells_of(self.metrics[field].take(first)) for field in FACTS), strict=True)
        return find_measures(codes, facts, self.metrics["value"].to_numpy(), self.metrics["stderr"].to_numpy())

    def rows_of_runs(self, runs: Collection[str]) -> NDArray[np.intp]:
        """Return the places of the rows of the runs with these hashes."""
        metrics = self.metrics
        return np.zeros(0, np.intp) if metrics is None else np.flatnonzero(metrics["run"].isin(list(runs)).to_numpy())

    def is_of(self, source: "pd.DataFrame", details: "pd.DataFrame", columns: tuple[ResultColumn, ...]) -> bool:
        """Return whether a table of these would be the same."""
        same = self._source is source and columns == self.columns
        return same and self.details is not None and self.details.equals(details)

    def key(self, row: int) -> Key:
        """Return what names a row for good: its run, unit, task and metric."""
        return tuple(categories[codes[row]] for codes, categories in self._keys)

    @cached_property
    def _keys(self) -> list[tuple[Codes, list[Any]]]:
        fields = ("run", "unit", "task", "metric")
        return [] if self.metrics is None else [_factorized(self.metrics[field]) for field in fields]

    def prepare(self) -> None:
        """Make at once what searching and sorting need: for a million rows it takes a second."""
        _ = self._keys
        for cells in self.cells:
            _ = cells.folded, cells.ranks

    def _field(self, field: str | Part) -> Coded:
        assert self.metrics is not None
        if not isinstance(field, Part):
            return _factorized(self.metrics[field])
        return _made(*_combined(list(map(self._field, field.fields))), lambda cells: field.made(*cells))

    def _cells(self, column: ResultColumn) -> CellColumn:
        if self.metrics is None or self.details is None:
            return CellColumn(column, np.zeros(0, np.int8), ())
        if column.of_run:
            codes, categories = _factorized(self.details[column.fields[0]])
            runs = self.metrics["run"].cat
            of_runs = _take(codes, self.details.index.get_indexer(runs.categories))
            return CellColumn(column, _take(of_runs, _factorized(self.metrics["run"])[0]), categories)
        if len(column.fields) > 1:
            return CellColumn(column, *_made(*_combined(list(map(self._field, column.fields))), column.made))
        cells = self.metrics[column.fields[0]]
        if cells.dtype == "float64":
            return RoundedColumn(column, self)
        return CellColumn(column, *_factorized(cells))


def _factorized(series: "pd.Series[Any]") -> Coded:
    if series.dtype == "category":
        return series.array.codes, series.cat.categories.tolist()
    codes, categories = series.factorize()
    return codes.astype(np.min_scalar_type(-max(len(categories), 1))), categories.tolist()


def _combined(fields: Sequence[Coded]) -> Coded:
    """Return the codes and the distinct tuples of these fields, computed in batches to bound the memory."""
    codes = np.empty(len(fields[0][0]), np.int32)
    places: dict[int, int] = {}
    for start in range(0, len(codes), PART):
        rows = slice(start, start + PART)
        keys = np.zeros(len(codes[rows]), np.int64)
        for of_field, categories in fields:
            keys = keys * (1 + len(categories)) + of_field[rows] + 1
        keys, inverse = np.unique(keys, return_inverse=True)
        codes[rows] = np.array([places.setdefault(key, len(places)) for key in keys.tolist()], np.int32)[inverse]
    rest, columns = np.fromiter(places, np.int64, len(places)), []
    for _, categories in reversed(fields):
        rest, of_field = np.divmod(rest, 1 + len(categories))
        columns.append([None if code < 0 else categories[code] for code in (of_field - 1).tolist()])
    return codes, list(zip(*reversed(columns), strict=True))


def _made(codes: Codes, cells: list[Any], made: Callable[[Any], Any] | None) -> Coded:
    """Return what is made of the cells; they themselves where nothing is."""
    if made is None:
        return codes, cells
    places: dict[Any, int] = {}
    of_cells = [-1 if (cell := made(each)) is None else places.setdefault(cell, len(places)) for each in cells]
    return _take(np.array(of_cells, np.int32), codes), list(places)


def _take(codes: Codes, places: Codes) -> Codes:
    return codes[places] if len(codes) else codes
