"""Snapshot of the results table, to be written to a file or the clipboard on any thread."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from wina_app.pages.results.grouping import Arrangement
from wina_app.style.translation import tr
from wina_core.files.tables import FORMATS, write_table
from wina_core.results.cells import CellColumn, CellTable


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

    def copy(self, lines: Iterable[int], suffix: str) -> str:
        """Return these lines in the format of files with this suffix."""
        return FORMATS[suffix](*self.table(lines)).decode()

    def text(self, lines: Iterable[int]) -> str:
        """Return these lines as shown, with tabs between cells."""
        lines = list(lines)
        rows = self._rows(lines)
        titles, cells = self.table(lines) if not rows else ([each.column.title for each in self._columns()], [])
        table = [titles, *([str(cell) for cell in row] for row in cells)]
        table += [[column.text(row) for column in self._columns()] for row in rows]
        return "\n".join("\t".join(" ".join(cell.split()) for cell in row) for row in table)

    def table(self, lines: Iterable[int]) -> tuple[list[str], list[list[object]]]:
        """Return titles and cells of these lines."""
        lines = list(lines)
        rows, groups, columns = self._rows(lines), self.arrangement.groups, self._columns()
        if rows or groups is None:
            return [each.column.title for each in columns], [[each.value(row) for each in columns] for row in rows]
        by = self.cells[self.group].column.title
        headings = [groups[~int(self.arrangement.lines[line])] for line in lines]
        return [by, tr("rows"), tr("mean"), tr("lowest"), tr("highest")], [
            [group.text, group.count, group.mean, group.low, group.high] for group in headings
        ]

    def _rows(self, lines: Iterable[int]) -> list[int]:
        return [row for line in lines if (row := int(self.arrangement.lines[line])) >= 0]

    def _columns(self) -> list[CellColumn]:
        return [self.cells[key] for key in self.keys]
