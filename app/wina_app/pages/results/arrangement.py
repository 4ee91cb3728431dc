"""Order and groups of the rows of the results table, and a snapshot of them for files and the clipboard."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wina_app.style.number_format import plural
from wina_core.analysis.results.measures import with_error
from wina_core.analysis.results.publication import PLAIN_STYLE, SUFFIXES, Publication, Style, usual_caption
from wina_core.analysis.results.runs import MeasureColumn, RunResults, is_measure, with_error_columns
from wina_core.analysis.results.table import Codes, Mask, MetricResults, TableColumn, TableRows
from wina_core.files.tables import Rows, neutralized, table_text, write_lines, write_table

if TYPE_CHECKING:  # pandas takes seconds to import
    import pandas as pd
    from pandas.core.groupby import SeriesGroupBy

PINS = "pin"
_LAST_RANK = np.int32(np.iinfo(np.int32).max)
"""Rank of unknown values, which come last in either order."""


class SortKey(NamedTuple):
    """A column to sort by."""

    column: str
    descending: bool = False


@dataclass(frozen=True)
class RowGroup:
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
        rows = plural(self.count, "rows", "row")
        if self.of_runs:
            rows = plural(self.count, "runs", "run")
        name = self.text or "(nothing)"
        if self.mean is None or self.low is None or self.high is None:
            return f"{mark} {name}   {rows}"
        mean, low, high = (with_error(value, None, self.decimals) for value in (self.mean, self.low, self.high))
        return f"{mark} {name}   {rows}, mean {mean}, from {low} to {high}"


@dataclass(frozen=True)
class ClosedGroups:
    """Closed groups, by their text, so that later groups of that text are closed too."""

    named: frozenset[str] = frozenset()
    all_others: bool = False

    def toggled(self, key: str) -> "ClosedGroups":
        return ClosedGroups(self.named ^ {key}, self.all_others)

    def mask_of(self, keys: "pd.Series[str]") -> Mask:
        """Return which of these groups are closed."""
        # Where all others are closed, the named groups are the open ones.
        return keys.isin(self.named).to_numpy(np.bool_) != self.all_others


class Groups:
    """Groups in their order, each made when it is read: there may be as many as rows."""

    def __init__(
        self, table: MetricResults, cells: TableColumn, rows: Codes, group_of_row: Codes, closed: ClosedGroups
    ) -> None:
        """`rows` are those of all groups, one group after the other; `group_of_row` numbers the group of each."""
        self._table, self._cells, self._rows, self._group_of_row = table, cells, rows, group_of_row
        self._first = rows[np.flatnonzero(np.diff(group_of_row, prepend=-1))]
        self._counts = np.bincount(group_of_row)
        # A table of runs has a column for each metric in place of the metric's value.
        self._of_runs = "value" not in table
        self._keys = cells.folded.take(cells.codes[self._first])
        self._ranges: dict[str, pd.DataFrame] = {}
        self.is_open = ~closed.mask_of(self._keys)

    def __len__(self) -> int:
        return len(self._first)

    def __getitem__(self, number: int) -> RowGroup:
        text, count = self._cells.text(self._first[number]), int(self._counts[number])
        is_open = bool(self.is_open[number])
        if self._of_runs or not self._is_of_one_measure[number] or self.mean(number, "value") is None:
            return RowGroup(text, count, None, None, None, is_open, of_runs=self._of_runs)
        mean, low, high = self._ranges_of("value").iloc[number].tolist()
        measures = self._table.measures
        decimals = measures.all[int(measures.codes[self._first[number]])].decimals
        return RowGroup(text, count, mean, low, high, is_open, decimals)

    def key(self, number: int) -> str:
        return str(self._keys.iloc[number])

    def mean(self, number: int, key: str) -> float | None:
        """Return the mean of a group's runs in the column of a metric; None where no run has the metric."""
        mean = float(self._ranges_of(key)["mean"].iloc[number])
        return None if np.isnan(mean) else mean

    def mean_text(self, number: int, key: str) -> str:
        """Return this mean rounded like the column; empty for a column without a metric."""
        cells = self._table[key]
        if not isinstance(cells, MeasureColumn):
            return ""
        mean = self.mean(number, key)
        return "" if mean is None else with_error(mean, None, cells.decimals)

    @cached_property
    def _is_of_one_measure(self) -> Mask:
        return (self._grouped(self._table.measures.codes[self._rows]).nunique() == 1).to_numpy(np.bool_)

    def _ranges_of(self, key: str) -> "pd.DataFrame":
        """Return mean, lowest and highest known number of each group in a column, NaN where it has none."""
        # Once for all groups of a column: a group at a time would go through the rows for each.
        if key not in self._ranges:
            self._ranges[key] = self._grouped(self._table[key].numbers[self._rows]).agg(["mean", "min", "max"])
        return self._ranges[key]

    def _grouped(self, values: NDArray[Any]) -> "SeriesGroupBy[Any, Any]":
        import pandas as pd

        return pd.Series(values).groupby(self._group_of_row)


@dataclass(frozen=True)
class Arrangement:
    """Lines of a table: the number of a row, or the complement (~) of a group's number for its heading."""

    lines: Codes
    groups: Groups | None = None

    @property
    def rows(self) -> Codes:
        """The rows that are shown, without headings."""
        return self.lines[self.lines >= 0]


def arrange(
    table: MetricResults,
    mask: Mask,
    keys: Sequence[SortKey] = (),
    group: str = "",
    closed: ClosedGroups = ClosedGroups(),
) -> Arrangement:
    """Return the rows of the mask in the order of the keys, the first one first; unknown values come last either way.

    Rows of pinned runs come before all others. With `group`, a column's key, rows with the same value are together, and
    a closed group has only its heading.
    """
    rows = _sorted(table, np.flatnonzero(mask), keys)
    return _grouped(table, rows, group, closed) if group and len(rows) else Arrangement(rows)


def _sorted(table: MetricResults, rows: Codes, keys: Sequence[SortKey]) -> Codes:
    pins = table[PINS]
    levels = [~np.array(pins.categories, np.bool_)[pins.codes[rows]]] if any(pins.categories) else []
    for key in keys:
        cells = table[key.column]
        ranks = cells.ranks[cells.codes[rows]] if len(rows) else rows
        levels.append(np.where(ranks < 0, _LAST_RANK, -ranks if key.descending else ranks))
    # np.lexsort sorts by its last key first.
    return rows[np.lexsort(levels[::-1])] if levels else rows


def _grouped(table: MetricResults, rows: Codes, column: str, closed: ClosedGroups) -> Arrangement:
    import pandas as pd

    cells = table[column]
    group_of_row, _ = pd.factorize(cells.ranks[cells.codes[rows]])  # numbers groups in the order of their first rows
    order = np.argsort(group_of_row, kind="stable")  # rows stay sorted within their group
    rows, group_of_row = rows[order], group_of_row[order]
    starts = np.flatnonzero(np.diff(group_of_row, prepend=-1))
    groups = Groups(table, cells, rows, group_of_row, closed)
    # A heading is the complement of its group's number, which is negative, before the group's rows.
    lines = np.insert(rows, starts, ~np.arange(len(starts)))
    return Arrangement(lines[np.insert(groups.is_open[group_of_row], starts, True)], groups)


_NOTES = frozenset(
    ("when", "status", "warning", "tags", "note", "pin", "seconds", "hardware", "user", "host", "study", "hash")
)
"""Columns that a compact table omits."""


@dataclass(frozen=True)
class TableSnapshot:
    """Lines of the table. A copy has the rows alone, or the headings if there are no rows."""

    cells: MetricResults
    arrangement: Arrangement
    group: str
    """Key of the column that the rows are grouped by."""
    keys: Sequence[str]
    """Keys of the columns, in their order."""

    def write(self, path: Path, style: Style = PLAIN_STYLE) -> int:
        """Write all lines in the format of the suffix, and return their number. Raises WinaError.

        LaTeX and Markdown have texts as shown, all other formats numbers with every digit.
        """
        lines, suffix = range(len(self.arrangement.lines)), path.suffix.lower()
        published = self.publication(lines, style) if suffix in SUFFIXES else None
        if published is not None:
            write_lines(published.write(suffix), path)
            return len(published.rows)
        titles, rows = self.table(lines, with_errors=True)
        write_table(titles, rows, path)
        return len(rows)

    def copy(self, lines: Sequence[int], suffix: str, style: Style = PLAIN_STYLE) -> str:
        """Return these lines as text, in the format of files with this suffix."""
        published = self.publication(lines, style) if suffix in SUFFIXES else None
        if published is not None:
            return "".join(published.write(suffix))
        return table_text(*self.table(lines, with_errors=True), suffix)

    def publication(self, lines: Sequence[int], style: Style = PLAIN_STYLE) -> Publication | None:
        """Return these lines as texts for a paper; None if all of them are headings."""
        chosen = self.arrangement.lines[np.asarray(lines, np.intp)]
        rows = chosen[chosen >= 0]
        if not len(rows) and len(chosen):
            return None
        # Positions among the rows: without the headings before each.
        headings = np.flatnonzero(chosen < 0)
        breaks = frozenset((headings - np.arange(len(headings))).tolist())
        return Publication(self.cells, rows, self.keys, breaks, style)

    @property
    def compact(self) -> "TableSnapshot":
        """The table without notes, dates and columns that are the same in all rows."""
        rows = self.arrangement.rows
        alike = {key for key in self.keys if len(rows) > 1 and self.cells[key].common_text(rows) is not None}
        keys = [key for key in self.keys if key == "method" or is_measure(key) or key not in alike | _NOTES]
        return replace(self, keys=keys)

    @property
    def usual_style(self) -> Style:
        rows = self.arrangement.rows
        return Style(usual_caption(self.cells, rows), "tab:results")

    def text(self, lines: Sequence[int]) -> str:
        """Return these lines as shown, with tabs between cells; a spreadsheet takes no cell for a formula."""
        rows, columns = self._rows(lines), self._columns()
        titles, cells = self.table(lines) if not len(rows) else ([column.column.title for column in columns], [])
        table = [titles, *([str(cell) for cell in row] for row in cells)]
        table += [[column.text(row) for column in columns] for row in rows.tolist()]
        return "\n".join("\t".join(neutralized(" ".join(cell.split())) for cell in row) for row in table)

    def table(self, lines: Sequence[int], *, with_errors: bool = False) -> tuple[list[str], Rows]:
        """Return titles and cells of these lines, perhaps each metric with its standard error in the next column."""
        rows, groups, columns = self._rows(lines), self.arrangement.groups, self._columns()
        if len(rows) or groups is None:
            columns = with_error_columns(columns) if with_errors else columns
            return [column.column.title for column in columns], TableRows(columns, rows)
        by = self.cells[self.group].column.title
        numbers = [~int(self.arrangement.lines[line]) for line in lines]
        headings = [groups[number] for number in numbers]
        if isinstance(self.cells, RunResults):
            metrics = [column.column for column in columns if is_measure(column.column.key)]
            return [by, "runs", *(metric.title for metric in metrics)], [
                [group.text, group.count, *(groups.mean(number, metric.key) for metric in metrics)]
                for number, group in zip(numbers, headings, strict=True)
            ]
        return [by, "rows", "mean", "lowest", "highest"], [
            [group.text, group.count, group.mean, group.low, group.high] for group in headings
        ]

    def _rows(self, lines: Sequence[int]) -> Codes:
        rows = self.arrangement.lines[np.asarray(lines, np.intp)]
        return rows[rows >= 0]

    def _columns(self) -> list[TableColumn]:
        return [self.cells[key] for key in self.keys]
