"""Cells of a table of stored metrics, as categorical columns: texts are made and searched once per category, of which
a hundred thousand rows have few; the rest is arithmetic on codes."""

import math
from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wina_core.results.columns import ResultColumn, Value

if TYPE_CHECKING:  # pandas takes seconds to import
    import pandas as pd

Codes = NDArray[Any]
Mask = NDArray[np.bool_]
Key = tuple[str, ...]


class CellColumn:
    """One categorical column: `codes[row]` is the place of the row's cell in `categories`, -1 of an absent one, for
    which the last category, None, is appended."""

    def __init__(self, column: ResultColumn, codes: Codes, categories: Sequence[Any]) -> None:
        self.column = column
        self.codes = codes
        self.categories = [*categories, None] if len(codes) and codes.min() < 0 else list(categories)

    @cached_property
    def folded(self) -> list[str]:
        """Texts of the categories without case, to search in."""
        return [self.column.text(cell).casefold() for cell in self.categories]

    @cached_property
    def values(self) -> list[Value]:
        """Values of the categories to sort and to export; None for unknown ones."""
        return [self.column.value(cell) for cell in self.categories]

    @cached_property
    def numbers(self) -> NDArray[np.float64]:
        """Values of a numeric column's categories; NaN for unknown ones."""
        return np.array([math.nan if value is None else value for value in self.values], np.float64)

    @cached_property
    def ranks(self) -> NDArray[np.intp]:
        """Ranks of the categories by ascending value, equal ones alike; -1 for unknown ones."""
        values = self.values
        known = [place for place, value in enumerate(values) if value is not None]
        keys = self.numbers[known] if self.column.numeric else np.array([str(values[place]) for place in known], object)
        ranks = np.full(len(values), -1, np.intp)
        ranks[known] = np.unique(keys, return_inverse=True)[1]
        return ranks

    def text(self, row: int) -> str:
        """Return a cell as shown."""
        return self.column.text(self.categories[self.codes[row]])

    def value(self, row: int) -> Value:
        """Return a cell as sorted and exported."""
        return self.values[self.codes[row]]

    def tip(self, row: int) -> str:
        """Return a cell's warning, or its text, which may be cut off in the table."""
        cell = self.categories[self.codes[row]]
        return (self.column.tip(cell) if self.column.tip else "") or self.column.text(cell)


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
        self.cells = tuple(map(self._cells, columns))

    def __len__(self) -> int:
        return 0 if self.metrics is None else len(self.metrics)

    def __getitem__(self, key: str) -> CellColumn:
        """Return the column of this key."""
        return next(cells for cells in self.cells if cells.column.key == key)

    def rows_of_runs(self, runs: Collection[str]) -> NDArray[np.intp]:
        """Return the places of the rows of the runs with these hashes."""
        if self.metrics is None:
            return np.zeros(0, np.intp)
        return np.flatnonzero(self.metrics["run"].isin(list(runs)).to_numpy())

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
        """Make at once what searching and sorting need, which takes a while."""
        _ = self._keys
        for cells in self.cells:
            _ = cells.folded, cells.ranks

    def _cells(self, column: ResultColumn) -> CellColumn:
        if self.metrics is None or self.details is None:
            return CellColumn(column, np.zeros(0, np.int8), ())
        if column.of_run:
            runs = self.metrics["run"].cat.remove_unused_categories().cat
            codes, categories = _factorized(self.details.loc[runs.categories, column.fields[0]])
            return CellColumn(column, _take(codes, runs.codes.to_numpy()), categories)
        if len(column.fields) == 1:
            return CellColumn(column, *_factorized(self.metrics[column.fields[0]]))
        return CellColumn(column, *_combined(self.metrics[list(column.fields)], column.made))


def _factorized(series: "pd.Series[Any]") -> tuple[Codes, list[Any]]:
    """Return the code of each cell and the different cells."""
    if series.dtype == "category":
        return series.cat.codes.to_numpy(), series.cat.categories.tolist()
    codes, categories = series.factorize()
    return codes.astype(np.int32), categories.tolist()


def _combined(fields: "pd.DataFrame", made: Callable[[Any], Any] | None) -> tuple[Codes, list[Any]]:
    """Return the codes and the different tuples of these fields, or what is made of them."""
    import pandas as pd

    codes: Codes = np.zeros(len(fields), np.int64)
    for name in fields:
        more = _factorized(fields[name])[0].astype(np.int64) + 1
        codes = pd.factorize(codes * (1 + more.max(initial=0)) + more)[0]
    first = fields[~pd.Series(codes).duplicated().to_numpy()].astype(object)
    objects = np.array(first, object)
    objects[first.isna().to_numpy()] = None
    cells = list(map(tuple, objects.tolist()))
    if made is None:
        return codes, cells
    of_cells, categories = _factorized(pd.Series(list(map(made, cells)), dtype=object))
    return _take(of_cells, codes), categories


def _take(codes: Codes, places: Codes) -> Codes:
    return codes[places] if len(places) else codes[:0]
