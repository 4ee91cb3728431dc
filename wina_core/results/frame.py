"""Stored metrics as columns of codes. A hundred thousand rows have few different cells, so that texts are made, and
tested against a filter, once for each different cell; the rest is arithmetic on arrays."""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wina_core.results.columns import ResultColumn, Value

if TYPE_CHECKING:  # SQLAlchemy takes a second to import
    from wina_core.store import MetricRow, RunDetails

Codes = NDArray[np.int32]
"""Half as large as numpy's own places: there is one for each cell of a table of a hundred thousand rows."""
Mask = NDArray[np.bool_]


class Factor:
    """One column of a frame: its different cells, and which of them each row has."""

    def __init__(self, column: ResultColumn, raws: Sequence[Any], codes: Codes) -> None:
        """`codes[row]` is the place of the row's cell in `raws`."""
        self.column = column
        self.raws = raws
        self.codes = codes

    @classmethod
    def of(cls, column: ResultColumn, cells: Iterable[Hashable]) -> "Factor":
        """The factor of the rows' raw cells."""
        cells = list(cells)
        places = {cell: place for place, cell in enumerate(dict.fromkeys(cells))}
        return cls(column, list(places), np.fromiter(map(places.__getitem__, cells), np.int32, len(cells)))

    def spread(self, rows: Codes) -> "Factor":
        """Of rows that each have the cell of one of these."""
        return Factor(self.column, self.raws, self.codes[rows] if len(rows) else rows)

    @cached_property
    def folded(self) -> list[str]:
        """The texts of the different cells without case, to search in."""
        return [self.column.text(raw).casefold() for raw in self.raws]

    @cached_property
    def values(self) -> list[Value]:
        """What is sorted and exported of the different cells; None for what is unknown."""
        return [self.column.value(raw) for raw in self.raws]

    @cached_property
    def numbers(self) -> NDArray[np.float64]:
        """The values of a numeric column; NaN for what is unknown."""
        return np.array([math.nan if value is None else value for value in self.values], np.float64)

    @cached_property
    def ranks(self) -> NDArray[np.intp]:
        """Places of the different cells in ascending order of their values, equal ones alike; -1 for the unknown."""
        values = self.values
        known = [place for place, value in enumerate(values) if value is not None]
        if self.column.numeric:
            _, order = np.unique(self.numbers[known], return_inverse=True)
        else:
            places = {value: place for place, value in enumerate(sorted({str(values[place]) for place in known}))}
            order = np.array([places[str(values[place])] for place in known], np.intp)
        ranks = np.full(len(values), -1, np.intp)
        ranks[known] = order
        return ranks

    def text(self, row: int) -> str:
        """As shown."""
        return self.column.text(self.raws[self.codes[row]])

    def value(self, row: int) -> Value:
        """As sorted and exported."""
        return self.column.value(self.raws[self.codes[row]])

    def tip(self, row: int) -> str:
        """What a cell's tool tip says: its warning, or its text, which may be cut off in the table."""
        raw = self.raws[self.codes[row]]
        return (self.column.tip(raw) if self.column.tip else "") or self.column.text(raw)


class Frame:
    """Rows and their columns; never changed once it is made, so that threads may share it."""

    def __init__(
        self, rows: "list[MetricRow]", details: "Mapping[str, RunDetails]", columns: tuple[ResultColumn, ...]
    ) -> None:
        """Rows of runs without details, which were deleted while they were read, are left out."""
        self.rows = [row for row in rows if row.run in details]
        self.details = details
        self.columns = columns
        runs = Factor.of(columns[0], map(attrgetter("run"), self.rows))
        of_runs = [details[run] for run in runs.raws]
        self.run_codes = runs.codes
        """Equal for rows of one run."""
        self.factors = tuple(
            Factor.of(column, map(_cell(column), of_runs)).spread(runs.codes)
            if column.of_run
            else _made(Factor.of(column, map(_cell(column), self.rows)))
            for column in columns
        )

    def __len__(self) -> int:
        return len(self.rows)

    def is_of(
        self, rows: "list[MetricRow]", details: "Mapping[str, RunDetails]", columns: tuple[ResultColumn, ...]
    ) -> bool:
        """Whether a frame of these would be the same."""
        return columns == self.columns and rows == self.rows and details == self.details

    def factor(self, key: str) -> Factor:
        """The column of this key."""
        return next(factor for factor in self.factors if factor.column.key == key)

    def prepare(self) -> None:
        """Make what is needed to search and to sort, which takes a while, now."""
        for factor in self.factors:
            _ = factor.folded, factor.ranks


def _cell(column: ResultColumn) -> Any:
    """Makes a column's raw cell of a row or of the details of a run."""
    return attrgetter(*column.fields)


def _made(factor: Factor) -> Factor:
    made = factor.column.made
    return Factor.of(factor.column, map(made, factor.raws)).spread(factor.codes) if made else factor
