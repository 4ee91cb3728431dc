"""Lines and geometry of a heatmap in its viewport, in logical pixels that fall on whole device pixels."""

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from PySide6.QtCore import QPoint, QPointF, QRect, QRectF, QSize
from PySide6.QtGui import QFontMetricsF

from wina_app.style.theme import GRID, HALF, font
from wina_core.specs.plans import Cell


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

    def line_of(self, row: int, detail: int = -1) -> int:
        """Return the line of a row, or of one of its details; the numbering continues beyond the table's ends."""
        if row > len(self.details):
            return self.count + row - len(self.details)
        return (row if row < 0 else self.starts[row]) + 1 + detail

    def row_at(self, line: int) -> tuple[int, int]:
        """Return the row of a line, and its detail or -1 for the row itself; rows continue beyond the table's ends."""
        if not 0 <= line < self.count:
            return (line if line < 0 else len(self.details) + line - self.count), -1
        row = bisect_right(self.starts, line) - 1
        return row, line - self.starts[row] - 1


def rows_alone(rows: int) -> Lines:
    return Lines((0,) * rows)


def line_names(rows: Sequence[str], details: Mapping[int, RowDetails]) -> list[str]:
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


GAP = 1
"""Logical pixels of background between two cells."""
MAX_CELL_WIDTH = 144.0
MAX_CELL_HEIGHT = 80.0
NOTE_GAP = 6.0
"""Logical pixels between a value and the note beside it."""
TRIANGLE_WIDTH = 16.0
"""Logical pixels at the left of the headings of rows that have details."""
CORNER = "layer"
"""Title of the row headings."""


@dataclass(frozen=True)
class HeatmapSizes:
    """Sizes of the texts in logical pixels."""

    header_width: float
    header_height: float
    cell_width: float
    """Least width."""
    cell_height: float
    """Least height."""


def text_sizes(rows: Sequence[str], columns: Sequence[str], mark_width: float) -> HeatmapSizes:
    """Measure the headings, and a percentage with a mark beside it, in the theme's font."""
    small, body = QFontMetricsF(font("small", bold=True)), QFontMetricsF(font())
    return HeatmapSizes(
        math.ceil(max(small.horizontalAdvance(text) for text in (CORNER, *rows)) + 2 * GRID),
        math.ceil(small.height() + GRID),
        max(body.horizontalAdvance(text) for text in ("00.0", *columns)) + GRID + mark_width,
        body.height() + HALF,
    )


@dataclass(frozen=True)
class HeatmapGeometry:
    """A grid of equal cells with column and row headers, scrolled by (dx, dy)."""

    lines: Lines
    columns: int
    header_width: float
    header_height: float
    cell_width: float
    cell_height: float
    dx: float = 0.0
    dy: float = 0.0
    ratio: float = 1.0
    """Device pixels per logical pixel."""

    rows: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", len(self.lines.details))

    @classmethod
    def fitted(
        cls, lines: Lines, columns: int, sizes: HeatmapSizes, view: QSize, scrolled: QPoint, ratio: float
    ) -> "HeatmapGeometry":
        """Return the geometry with cells that fill a viewport, within their least and largest sizes."""
        width = (view.width() - sizes.header_width) / max(columns, 1)
        height = (view.height() - sizes.header_height) / max(lines.count, 1)
        return cls(
            lines=lines,
            columns=columns,
            header_width=sizes.header_width,
            header_height=sizes.header_height,
            cell_width=min(max(width, sizes.cell_width), MAX_CELL_WIDTH),
            cell_height=min(max(height, sizes.cell_height), MAX_CELL_HEIGHT),
            dx=scrolled.x(),
            dy=scrolled.y(),
            ratio=ratio,
        )

    @property
    def body_width(self) -> float:
        return self.columns * self.cell_width

    @property
    def body_height(self) -> float:
        return self.lines.count * self.cell_height

    @property
    def content_width(self) -> float:
        return self.header_width + self.body_width

    @property
    def content_height(self) -> float:
        return self.header_height + self.body_height

    @property
    def body(self) -> QRectF:
        """Area of the visible cells."""
        return QRectF(self.header_width, self.header_height, self.body_width - self.dx, self.body_height - self.dy)

    def cell(self, row: int, column: int) -> QRectF:
        """Return a cell's rectangle without the gap at its right and below."""
        return self.detail(Detail(row, -1, column))

    def detail(self, cell: Detail) -> QRectF:
        """Return the rectangle of a cell in a line below a row, or of the row's own cell for line -1."""
        line = self.lines.line_of(cell.row, cell.line)
        left, right = self._x(cell.column), self._x(cell.column + 1) - GAP
        top, bottom = self._y(line), self._y(line + 1) - GAP
        return QRectF(left, top, right - left, bottom - top)

    def row_header(self, row: int, detail: int = -1) -> QRectF:
        """Return the rectangle of the heading at the left of a row, or of one of its details."""
        line = self.lines.line_of(row, detail)
        top = self._y(line)
        return QRectF(0.0, top, self.header_width, self._y(line + 1) - top - GAP)

    def column_header(self, column: int) -> QRectF:
        left = self._x(column)
        return QRectF(left, 0.0, self._x(column + 1) - left - GAP, self.header_height)

    def in_row_header(self, point: QPointF) -> bool:
        return point.x() < self.header_width and point.y() >= self.header_height

    def in_column_header(self, point: QPointF) -> bool:
        return point.y() < self.header_height and point.x() >= self.header_width

    def nearest(self, point: QPointF) -> Cell:
        """Return the (row, column) under a point, beyond the table's edge for a point outside; details are part of
        their row."""
        cell = self.nearest_detail(point)
        return cell.row, cell.column

    def cell_at(self, point: QPointF) -> Cell | None:
        """Return the (row, column) under a point, None over the headings or details, or outside the table."""
        cell = self.detail_at(point)
        return None if cell is None or cell.line >= 0 else (cell.row, cell.column)

    def detail_at(self, point: QPointF) -> Detail | None:
        """Return the cell under a point, of line -1 for a row's own; None over the headings or outside the table."""
        if point.x() < self.header_width or point.y() < self.header_height:
            return None
        cell = self.nearest_detail(point)
        return cell if cell.row < self.rows and cell.column < self.columns else None

    def rows_in(self, area: QRect) -> range:
        first, last = (self.lines.row_at(line)[0] for line in self._lines_in(area))
        return range(max(first, 0), min(last + 1, self.rows))

    def details_in(self, row: int, area: QRect) -> range:
        first, last = (line - self.lines.line_of(row, 0) for line in self._lines_in(area))
        return range(max(first, 0), min(last + 1, self.lines.details[row]))

    def columns_in(self, area: QRect) -> range:
        first = int((area.left() + self.dx - self.header_width) // self.cell_width)
        last = int((area.right() + self.dx - self.header_width) // self.cell_width)
        return range(max(first, 0), min(last + 1, self.columns))

    def nearest_detail(self, point: QPointF) -> Detail:
        """Return the row, line and column at a point, beyond the table's edge for a point outside."""
        column = int((point.x() + self.dx - self.header_width) // self.cell_width)
        return Detail(*self.lines.row_at(self._line(point.y())), column)

    def _lines_in(self, area: QRect) -> tuple[int, int]:
        return self._line(area.top()), self._line(area.bottom())

    def _line(self, y: float) -> int:
        return int((y + self.dy - self.header_height) // self.cell_height)

    def _x(self, column: int) -> float:
        return self._snap(self.header_width + column * self.cell_width - self.dx)

    def _y(self, line: int) -> float:
        return self._snap(self.header_height + line * self.cell_height - self.dy)

    def _snap(self, position: float) -> float:
        # Edges, not sizes, are rounded: cells differ by a device pixel, but every gap is equally wide and sharp.
        return round(position * self.ratio) / self.ratio


def cells_between(first: Cell, last: Cell) -> list[Cell]:
    """Return the cells on the straight line between two, both included, so that a fast stroke leaves no holes."""
    steps = max(abs(last[0] - first[0]), abs(last[1] - first[1]))
    if steps == 0:
        return [last]
    return [
        (
            round(first[0] + (last[0] - first[0]) * step / steps),
            round(first[1] + (last[1] - first[1]) * step / steps),
        )
        for step in range(steps + 1)
    ]
