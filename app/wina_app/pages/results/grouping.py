"""Order and groups of the rows of the results table."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wina_app.style.translation import tr
from wina_core.analysis.results.cells import CellColumn, CellTable, Codes, Mask
from wina_core.analysis.results.rounding import with_error
from wina_core.analysis.results.runs import MeasureColumn

PINS = "pin"
_UNKNOWN = np.int32(np.iinfo(np.int32).max)


class SortKey(NamedTuple):
    """A column to sort by."""

    column: str
    descending: bool = False


class Ranges(NamedTuple):
    """Mean, lowest and highest known value of each group; NaN where it has none."""

    means: NDArray[np.float64]
    lows: NDArray[np.float64]
    highs: NDArray[np.float64]


@dataclass(frozen=True)
class Group:
    """Rows with the same text in one column."""

    text: str
    """Their common text."""
    count: int
    mean: float | None
    """Mean of the known values; None without any, and where the rows are of several metrics or tasks."""
    low: float | None
    high: float | None
    open: bool
    decimals: int = 0
    """Decimals of the values."""
    of_runs: bool = False
    """True for rows that are runs, whose metrics have a mean each (`Groups.mean_text`)."""

    @property
    def label(self) -> str:
        """Describe the group: the number of rows, and the range of their values."""
        mark = "\N{BLACK DOWN-POINTING SMALL TRIANGLE}" if self.open else "\N{BLACK RIGHT-POINTING SMALL TRIANGLE}"
        rows = tr("{n} rows", "{n} row", self.count)
        if self.of_runs:
            rows = tr("{n} runs", "{n} run", self.count)
        name = self.text or tr("(nothing)")
        if self.mean is None or self.low is None or self.high is None:
            return f"{mark} {name}   {rows}"
        mean, low, high = (with_error(value, None, self.decimals) for value in (self.mean, self.low, self.high))
        return f"{mark} {name}   {rows}, " + tr("mean {mean}, from {low} to {high}", mean=mean, low=low, high=high)


@dataclass(frozen=True)
class Closed:
    """Closed groups, by their text, so that later groups of that text are closed too."""

    named: frozenset[str] = frozenset()
    all_others: bool = False

    def toggled(self, key: str) -> "Closed":
        """Return the same with this group opened or closed."""
        return Closed(self.named ^ {key}, self.all_others)

    def among(self, keys: Sequence[str]) -> Mask:
        """Return which of these groups are closed."""
        if not self.named:
            return np.full(len(keys), self.all_others)
        return np.array([(key in self.named) != self.all_others for key in keys], np.bool_)


class Groups:
    """Groups in their order, each made when it is read: there may be as many as rows."""

    def __init__(self, table: CellTable, cells: CellColumn, rows: Codes, starts: Codes, closed: Closed) -> None:
        """`rows[start]` is the first row of a group."""
        self._table, self._cells, self._rows, self._starts = table, cells, rows, starts
        self._first = rows[starts]
        self._counts = np.diff(starts, append=len(rows))
        self._of_runs = "value" not in table
        self._has_mean = np.zeros(len(starts), np.bool_) if self._of_runs else _of_one_measure(table, rows, starts)
        self._ranges: dict[str, Ranges] = {}
        self.is_open = ~closed.among(cells.folded)[cells.codes[self._first]]

    def __len__(self) -> int:
        return len(self._first)

    def __getitem__(self, number: int) -> Group:
        text, count = self._cells.text(self._first[number]), int(self._counts[number])
        is_open = bool(self.is_open[number])
        if not self._has_mean[number] or self.mean(number, "value") is None:
            return Group(text, count, None, None, None, is_open, of_runs=self._of_runs)
        mean, low, high = (float(each[number]) for each in self._ranges_of("value"))
        measures = self._table.measures
        decimals = measures.all[int(measures.codes[self._first[number]])].decimals
        return Group(text, count, mean, low, high, is_open, decimals)

    def key(self, number: int) -> str:
        """Return the key of a group among those of this column."""
        return self._cells.folded[int(self._cells.codes[self._first[number]])]

    def mean(self, number: int, key: str) -> float | None:
        """Return the mean of a group's runs in the column of a metric; None where no run has the metric."""
        found = float(self._ranges_of(key).means[number])
        return None if np.isnan(found) else found

    def mean_text(self, number: int, key: str) -> str:
        """Return this mean rounded as the column; empty for a column of no metric."""
        cells = self._table[key]
        if not isinstance(cells, MeasureColumn):
            return ""
        found = self.mean(number, key)
        return "" if found is None else with_error(found, None, cells.decimals)

    def _ranges_of(self, key: str) -> Ranges:
        """Return the ranges of all groups in a column of numbers, computed once."""
        if key not in self._ranges:
            self._ranges[key] = _ranges(self._table[key].numbers[self._rows], self._starts)
        return self._ranges[key]


def _ranges(values: NDArray[np.float64], starts: Codes) -> Ranges:
    known = ~np.isnan(values)
    knowns = np.add.reduceat(known.astype(np.intp), starts)
    with np.errstate(invalid="ignore", divide="ignore"):  # infinities of both signs have no mean
        means = np.add.reduceat(np.where(known, values, 0.0), starts) / knowns
    lows = np.minimum.reduceat(np.where(known, values, np.inf), starts)
    return Ranges(means, lows, np.maximum.reduceat(np.where(known, values, -np.inf), starts))


@dataclass(frozen=True)
class Arrangement:
    """The lines of a table: of each, the number of its row, or where it is the heading of a group, ~ its number."""

    lines: Codes
    groups: Groups | None = None

    @property
    def rows(self) -> Codes:
        """The rows that are shown, without headings."""
        return self.lines[self.lines >= 0]


def arrange(
    table: CellTable, mask: Mask, keys: Sequence[SortKey] = (), group: str = "", closed: Closed = Closed()
) -> Arrangement:
    """The rows of the mask in the order of the keys, the first one first and the unknown last either way; those of
    pinned runs before all others. With `group`, a column's key, together with those that have the same value; of closed
    groups only the headings."""
    rows = _sorted(table, np.flatnonzero(mask), keys)
    return _grouped(table, rows, group, closed) if group and len(rows) else Arrangement(rows)


def _sorted(table: CellTable, rows: Codes, keys: Sequence[SortKey]) -> Codes:
    pins = table[PINS]
    levels = [~np.array(pins.categories, np.bool_)[pins.codes[rows]]] if any(pins.categories) else []
    for key in keys:
        cells = table[key.column]
        ranks = cells.ranks[cells.codes[rows]] if len(rows) else rows
        levels.append(np.where(ranks < 0, _UNKNOWN, -ranks if key.descending else ranks))
    return rows[np.lexsort(levels[::-1])] if levels else rows


def _grouped(table: CellTable, rows: Codes, column: str, closed: Closed) -> Arrangement:
    cells = table[column]
    values = cells.ranks[cells.codes[rows]]  # -1, of the unknown, is the last place of what is looked up below
    first = np.full(len(cells.categories) + 1, len(rows))
    first[values[::-1]] = np.arange(len(rows))[::-1]  # what is written last stays
    places = np.empty_like(first)
    places[np.argsort(first, kind="stable")] = np.arange(len(first))  # groups in the order of their first rows
    of = places[values]
    order = np.argsort(of, kind="stable")
    rows, of = rows[order], of[order]
    starts = np.flatnonzero(np.diff(of, prepend=-1))
    groups = Groups(table, cells, rows, starts, closed)
    lines = np.empty(len(rows) + len(starts), np.intp)
    headings = starts + np.arange(len(starts))
    is_heading = np.zeros(len(lines), np.bool_)
    is_heading[headings] = True
    lines[headings] = ~np.arange(len(starts))
    lines[~is_heading] = rows
    shown = is_heading.copy()
    shown[~is_heading] = groups.is_open[of]
    return Arrangement(lines[shown], groups)


def _of_one_measure(table: CellTable, rows: Codes, starts: Codes) -> NDArray[np.bool_]:
    alike = np.ones(len(starts), np.bool_)
    for key in ("task", "metric"):
        codes = table[key].codes[rows]
        alike &= np.minimum.reduceat(codes, starts) == np.maximum.reduceat(codes, starts)
    return alike
