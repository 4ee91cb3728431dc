"""Read-only lines below a row of a heatmap, such as the experts of a layer."""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

import numpy as np


class Detail(NamedTuple):
    """A cell of a line below a row."""

    row: int
    line: int
    column: int


@dataclass(frozen=True, eq=False)
class RowDetails:
    """The lines below one row."""

    names: tuple[str, ...]
    """Headings of the lines."""
    values: np.ndarray
    """Numbers on the heatmap's scale, float64 [lines, columns], NaN for no data."""
    columns: frozenset[int]
    """Columns that have details; the others stay blank."""
    notes: tuple[tuple[str, ...], ...] = ()
    """Small second text of each cell, [line][column]; empty for none."""
    tip: str = ""
    """Tooltip of the headings; empty for none."""


class LazyDetails(dict[int, RowDetails]):
    """Details of rows, each made on first access: of hundreds of lines, few are in view."""

    def __init__(self, make: Callable[[int], RowDetails]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, row: int) -> RowDetails:
        return self.setdefault(row, self._make(row))


@dataclass(frozen=True)
class Lines:
    """The lines of a table in which some rows have details below them."""

    details: tuple[int, ...]
    """Lines of details below each row."""
    starts: tuple[int, ...] = field(init=False)
    """The line of each row, then the number of lines."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "starts", (0, *accumulate(1 + count for count in self.details)))

    @property
    def count(self) -> int:
        """All lines, those of rows and of details."""
        return self.starts[-1]

    def of(self, row: int, detail: int = -1) -> int:
        """Return the line of a row, or of one of its details; the numbering continues beyond the table's ends."""
        if row > len(self.details):
            return self.count + row - len(self.details)
        return (row if row < 0 else self.starts[row]) + 1 + detail

    def at(self, line: int) -> tuple[int, int]:
        """Return the row of a line, and its detail or -1 for the row itself; rows continue beyond the table's ends."""
        if not 0 <= line < self.count:
            return (line if line < 0 else len(self.details) + line - self.count), -1
        row = bisect_right(self.starts, line) - 1
        return row, line - self.starts[row] - 1


def rows_alone(rows: int) -> Lines:
    """Return the lines of rows without details."""
    return Lines((0,) * rows)


def line_names(rows: Sequence[str], details: Mapping[int, RowDetails]) -> list[str]:
    """Return the headings of all lines."""
    return [
        name
        for row, row_name in enumerate(rows)
        for name in (row_name, *(details[row].names if row in details else ()))
    ]


def line_values(values: np.ndarray, details: Mapping[int, RowDetails]) -> np.ndarray:
    """Return the numbers of all lines, float64 [lines, columns], of values [rows, columns]."""
    after = {row + 1: details[row].values for row in details}
    return np.vstack(
        [
            block
            for row in range(len(values) + 1)
            for block in (after.get(row), values[row : row + 1])
            if block is not None
        ]
    )
