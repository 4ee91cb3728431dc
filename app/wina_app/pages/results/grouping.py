"""Order and groups of the rows of the results table."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wina_app.style.translation import tr
from wina_core.results.cells import CellColumn, CellTable, Codes, Mask
from wina_core.results.texts import number

PINS = "pin"
_UNKNOWN = np.int32(np.iinfo(np.int32).max)


class SortKey(NamedTuple):
    """A column to sort by."""

    column: str
    descending: bool = False


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

    @property
    def label(self) -> str:
        """Describe the group: the number of rows, and the range of their values."""
        mark = "\N{BLACK DOWN-POINTING SMALL TRIANGLE}" if self.open else "\N{BLACK RIGHT-POINTING SMALL TRIANGLE}"
        rows = tr("1 row") if self.count == 1 else tr("{count:,} rows", count=self.count)
        name = self.text or tr("(nothing)")
        if self.mean is None:
            return f"{mark} {name}   {rows}"
        values = tr(
            "mean {mean}, from {low} to {high}", mean=number(self.mean), low=number(self.low), high=number(self.high)
        )
        return f"{mark} {name}   {rows}, {values}"


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
        value = table["value"]
        values = value.numbers[value.codes[rows]]
        known = ~np.isnan(values)
        knowns = np.add.reduceat(known.astype(np.intp), starts)
        self._cells = cells
        self._first = rows[starts]
        self._counts = np.diff(starts, append=len(rows))
        with np.errstate(invalid="ignore"):  # infinities of both signs have no mean
            self._means = np.add.reduceat(np.where(known, values, 0.0), starts) / np.maximum(knowns, 1)
        self._lows = np.minimum.reduceat(np.where(known, values, np.inf), starts)
        self._highs = np.maximum.reduceat(np.where(known, values, -np.inf), starts)
        self._has_mean = (knowns > 0) & _of_one_measure(table, rows, starts)
        self.is_open = ~closed.among(cells.folded)[cells.codes[self._first]]

    def __len__(self) -> int:
        return len(self._first)

    def __getitem__(self, number: int) -> Group:
        has_mean = self._has_mean[number]
        return Group(
            self._cells.text(self._first[number]),
            int(self._counts[number]),
            float(self._means[number]) if has_mean else None,
            float(self._lows[number]) if has_mean else None,
            float(self._highs[number]) if has_mean else None,
            bool(self.is_open[number]),
        )

    def key(self, number: int) -> str:
        """Return the key of a group among those of this column."""
        return self._cells.folded[int(self._cells.codes[self._first[number]])]


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
