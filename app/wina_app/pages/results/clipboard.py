"""Snapshot of the results table, to be written to a file or the clipboard on any thread."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from wina_app.pages.results.grouping import Arrangement
from wina_app.style.translation import tr
from wina_core.analysis.results.publication import PLAIN_STYLE, SUFFIXES, Publication, Style, usual_caption
from wina_core.analysis.results.runs import RunTable, is_measure, with_error_columns
from wina_core.analysis.results.table import Codes, MetricTable, TableColumn, TableRows
from wina_core.files.tables import Rows, neutralized, table_text, write_lines, write_table

_NOTES = frozenset(
    ("when", "status", "warning", "tags", "note", "pin", "seconds", "hardware", "user", "host", "study", "hash")
)
"""Columns that a paper has no use for."""


@dataclass(frozen=True)
class TableSnapshot:
    """Lines of the table. Where they are nothing but headings of groups, a copy is of these, else of the rows alone."""

    cells: MetricTable
    arrangement: Arrangement
    group: str
    """Key of the column that the rows are grouped by."""
    keys: Sequence[str]
    """Keys of the columns, in their order."""

    def write(self, path: Path, style: Style = PLAIN_STYLE) -> int:
        """Write all lines; the suffix names the format. How many they are. Raises WinaError.

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
        """Return these lines in the format of files with this suffix, which is a text."""
        published = self.publication(lines, style) if suffix in SUFFIXES else None
        if published is not None:
            return "".join(published.write(suffix))
        return table_text(*self.table(lines, with_errors=True), suffix)

    def publication(self, lines: Sequence[int], style: Style = PLAIN_STYLE) -> Publication | None:
        """Return these lines as texts for a paper; None where they are nothing but headings."""
        chosen = self.arrangement.lines[np.asarray(lines, np.intp)]
        rows = chosen[chosen >= 0]
        if not len(rows) and len(chosen):
            return None
        headings = np.flatnonzero(chosen < 0)
        breaks = frozenset((headings - np.arange(len(headings))).tolist())
        return Publication(self.cells, rows, self.keys, breaks, style)

    @property
    def compact(self) -> "TableSnapshot":
        """The same without notes, dates and what is alike in all rows."""
        rows = self.arrangement.rows
        alike = {key for key in self.keys if len(rows) > 1 and self.cells[key].common_text(rows) is not None}
        keys = [key for key in self.keys if key == "method" or is_measure(key) or key not in alike | _NOTES]
        return replace(self, keys=keys)

    @property
    def usual_style(self) -> Style:
        """A caption that names the models, and a label."""
        rows = self.arrangement.rows
        return Style(usual_caption(self.cells, rows), "tab:results")

    def text(self, lines: Sequence[int]) -> str:
        """Return these lines as shown, with tabs between cells; none is a formula for the spreadsheet it is put in."""
        rows, columns = self._rows(lines), self._columns()
        titles, cells = self.table(lines) if not len(rows) else ([each.column.title for each in columns], [])
        table = [titles, *([str(cell) for cell in row] for row in cells)]
        table += [[column.text(row) for column in columns] for row in rows.tolist()]
        return "\n".join("\t".join(neutralized(" ".join(cell.split())) for cell in row) for row in table)

    def table(self, lines: Sequence[int], *, with_errors: bool = False) -> tuple[list[str], Rows]:
        """Return titles and cells of these lines, perhaps each metric with its standard error in the next column."""
        rows, groups, columns = self._rows(lines), self.arrangement.groups, self._columns()
        if len(rows) or groups is None:
            columns = with_error_columns(columns) if with_errors else columns
            return [each.column.title for each in columns], TableRows(columns, rows)
        by = self.cells[self.group].column.title
        numbers = [~int(self.arrangement.lines[line]) for line in lines]
        headings = [groups[number] for number in numbers]
        if isinstance(self.cells, RunTable):
            metrics = [each.column for each in columns if is_measure(each.column.key)]
            return [by, tr("runs"), *(metric.title for metric in metrics)], [
                [group.text, group.count, *(groups.mean(number, metric.key) for metric in metrics)]
                for number, group in zip(numbers, headings, strict=True)
            ]
        return [by, tr("rows"), tr("mean"), tr("lowest"), tr("highest")], [
            [group.text, group.count, group.mean, group.low, group.high] for group in headings
        ]

    def _rows(self, lines: Sequence[int]) -> Codes:
        rows = self.arrangement.lines[np.asarray(lines, np.intp)]
        return rows[rows >= 0]

    def _columns(self) -> list[TableColumn]:
        return [self.cells[key] for key in self.keys]
