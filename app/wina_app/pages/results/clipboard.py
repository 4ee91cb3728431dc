"""Snapshot of the results table, to be written to a file or the clipboard on any thread."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from wina_app.pages.results.grouping import Arrangement
from wina_app.style.translation import tr
from wina_core.files.formulas import neutralized
from wina_core.files.tables import Rows, table_text, write_table
from wina_core.results.cells import CellColumn, CellRows, CellTable, Codes


@dataclass(frozen=True)
class TableSnapshot:
    """Lines of the table. Where they are nothing but headings of groups, a copy is of these, else of the rows alone."""

    cells: CellTable
    arrangement: Arrangement
    group: str
    """Key of the column that the rows are grouped by."""
    keys: Sequence[str]
    """Keys of the columns, in their order."""

    def write(self, path: Path) -> int:
        """Write all lines, numbers as numbers; the suffix names the format. How many they are. Raises WinaError."""
        titles, rows = self.table(range(len(self.arrangement.lines)))
        write_table(titles, rows, path)
        return len(rows)

    def copy(self, lines: Sequence[int], suffix: str) -> str:
        """Return these lines in the format of files with this suffix."""
        return table_text(*self.table(lines), suffix)

    def text(self, lines: Sequence[int]) -> str:
        """Return these lines as shown, with tabs between cells; none is a formula for the spreadsheet it is put in."""
        rows, columns = self._rows(lines), self._columns()
        titles, cells = self.table(lines) if not len(rows) else ([each.column.title for each in columns], [])
        table = [titles, *([str(cell) for cell in row] for row in cells)]
        table += [[column.text(row) for column in columns] for row in rows.tolist()]
        return "\n".join("\t".join(neutralized(" ".join(cell.split())) for cell in row) for row in table)

    def table(self, lines: Sequence[int]) -> tuple[list[str], Rows]:
        """Return titles and cells of these lines."""
        rows, groups, columns = self._rows(lines), self.arrangement.groups, self._columns()
        if len(rows) or groups is None:
            return [each.column.title for each in columns], CellRows(columns, rows)
        by = self.cells[self.group].column.title
        headings = [groups[~int(self.arrangement.lines[line])] for line in lines]
        return [by, tr("rows"), tr("mean"), tr("lowest"), tr("highest")], [
            [group.text, group.count, group.mean, group.low, group.high] for group in headings
        ]

    def _rows(self, lines: Sequence[int]) -> Codes:
        rows = self.arrangement.lines[np.asarray(lines, np.intp)]
        return rows[rows >= 0]

    def _columns(self) -> list[CellColumn]:
        return [self.cells[key] for key in self.keys]
