"""Names of lines beside their ends in place of a legend; a list where they do not all fit.

Lines that coincide share a row: "wina = teal" where they are equal, "wina ≈ teal" where they differ by less than a
pixel.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyqtgraph as pg
from PySide6.QtCore import QObject, QPointF, Qt
from PySide6.QtGui import QBrush, QColor, QFontMetricsF, QPen
from PySide6.QtWidgets import QGraphicsItem, QGraphicsLineItem, QGraphicsPathItem, QGraphicsSimpleTextItem

from wina_app.plots.coincidence import CoincidingLines
from wina_app.style.stylesheet import Tokens
from wina_app.style.theme import GRID, HALF, font, readable, tokens

_WIDEST = 0.4
"""Largest part of the plot's width for names."""
_SAMPLE = 3 * GRID
"""Pixels of the line that is drawn before its name in a list."""


@dataclass(frozen=True)
class LineEnd:
    """A line to name: its points in the order of x; an infinite x means a line across the whole plot."""

    name: str
    colour: QColor
    x: tuple[float, ...]
    y: tuple[float, ...]
    symbol: str = ""
    hollow: bool = False
    style: Qt.PenStyle = Qt.PenStyle.SolidLine
    prominent: bool = False
    """Named before others where there is no room for all."""


class _Name:
    """The items of one line: its name, a piece of line to or before it, its marker, and the sign before it in a row."""

    def __init__(self, end: LineEnd, plot: pg.PlotItem) -> None:
        self.end = end
        self.text = QGraphicsSimpleTextItem(plot)
        self.text.setFont(font("small"))
        self.text.setBrush(QBrush(readable(end.colour)))
        self.sign = QGraphicsSimpleTextItem(plot)
        self.sign.setFont(font("small"))
        self.sign.setBrush(QBrush(QColor(tokens().muted)))
        self.line = QGraphicsLineItem(plot)
        self.marker: QGraphicsPathItem | None = None
        if end.symbol:
            self.marker = QGraphicsPathItem(pg.graphicsItems.ScatterPlotItem.Symbols[end.symbol], plot)
            self.marker.setScale(GRID)
            self.marker.setBrush(QBrush(QColor(tokens().surface)) if end.hollow else QBrush(end.colour))
            outline = QPen(end.colour, 1)
            outline.setCosmetic(True)  # the marker is scaled
            self.marker.setPen(outline if end.hollow else QPen(Qt.PenStyle.NoPen))

    @property
    def items(self) -> tuple[QGraphicsItem, ...]:
        return tuple(filter(None, (self.line, self.text, self.marker, self.sign)))

    def show(self, visible: bool) -> None:
        for item in self.items:
            item.setVisible(visible)
        self.sign.hide()

    def width(self, metrics: QFontMetricsF) -> float:
        return metrics.horizontalAdvance(self.end.name) + (GRID + HALF if self.marker is not None else 0.0)

    def beside(self, anchor: QPointF, left: float, right: float, y: float, metrics: QFontMetricsF) -> None:
        """Place the name at height `y` between `left` and `right`, with a leader to its line's end."""
        self.line.setPen(QPen(self.end.colour, 1, Qt.PenStyle.DotLine))
        self.line.setLine(anchor.x(), anchor.y(), left - HALF, y)
        self._write_marked(left, right, y, metrics)

    def after(self, sign: str, left: float, right: float, y: float, metrics: QFontMetricsF) -> None:
        """Place the name in the row of a line that it coincides with, after a sign."""
        self.line.hide()
        self.sign.show()
        self.sign.setText(sign)
        self.sign.setPos(left, y - metrics.height() / 2)
        self._write_marked(left + metrics.horizontalAdvance(sign), right, y, metrics)

    def _write_marked(self, left: float, right: float, y: float, metrics: QFontMetricsF) -> None:
        if self.marker is not None:
            self.marker.setPos(left + HALF, y)
            left += GRID + HALF
        self._write(left, right, y, metrics)

    def listed(self, left: float, right: float, y: float, metrics: QFontMetricsF) -> None:
        """Place the name in a list, after a piece of its line."""
        self.line.setPen(QPen(self.end.colour, 2, self.end.style))
        self.line.setLine(left, y, left + _SAMPLE, y)
        if self.marker is not None:
            self.marker.setPos(left + _SAMPLE / 2, y)
        self._write(left + _SAMPLE + GRID, right, y, metrics)

    def _write(self, left: float, right: float, y: float, metrics: QFontMetricsF) -> None:
        self.text.setText(metrics.elidedText(self.end.name, Qt.TextElideMode.ElideRight, right - left))
        self.text.setPos(left, y - metrics.height() / 2)


class LineLabels(QObject):
    """The names at the right of a plot, while it is zoomed and resized; a list where they do not all fit."""

    def __init__(self, plot: pg.PlotItem, head: float) -> None:
        """Leave `head` pixels above the plot."""
        super().__init__(plot)
        self._plot, self._head = plot, head
        self.listed = False
        """True for a list even where the names fit beside their lines, as for bars."""
        self._names: list[_Name] = []
        self._groups: tuple[CoincidingLines, ...] = ()
        self._look: tuple[Tokens, tuple[LineEnd, ...]] | None = None
        self._more = QGraphicsSimpleTextItem(plot)
        self._reserved = (0.0, False, 0.0)
        """Width of the plot, whether names are listed, and the largest width of the names since. The plot keeps its
        size while lines coincide and separate, as in a drag: another size draws all of it again."""

    def show(self, ends: Sequence[LineEnd], groups: Sequence[CoincidingLines] = ()) -> None:
        """Name these lines, those of a group in one row; lines that only moved keep their items."""
        self._groups = tuple(groups)
        # All but the points: lines that only move keep their items.
        look = (tokens(), tuple(replace(end, x=(), y=()) for end in ends))
        if look == self._look:
            for name, end in zip(self._names, ends, strict=True):
                name.end = end
            self.arrange()
            return
        self._look = look
        for name in self._names:
            for item in name.items:
                self._plot.scene().removeItem(item)
        self._names, self._reserved = [_Name(end, self._plot) for end in ends], (0.0, False, 0.0)
        self._more.setFont(font("small"))
        self._more.setBrush(QBrush(QColor(tokens().muted)))
        self.arrange()

    def set_head(self, head: float) -> None:
        self._head = head
        self.arrange()

    def texts(self) -> list[str]:
        """Return the visible names as they are written, one for each row."""
        rows: list[str] = []
        for name in sorted(self._names, key=self._row_order):
            if not name.text.isVisible():
                continue
            if name.sign.isVisible():
                rows[-1] += name.sign.text() + name.text.text()
            else:
                rows.append(name.text.text())
        return rows

    def at(self, scene: QPointF) -> int | None:
        """Return the index of the line whose name is at a position in the scene."""
        visible = (number for number, name in enumerate(self._names) if name.text.isVisible())
        return next((n for n in visible if self._names[n].text.sceneBoundingRect().contains(scene)), None)

    def _row_order(self, name: _Name) -> tuple[int, int]:
        """Return the place of a name's row by its first line, and the name's place in it."""
        number = self._names.index(name)
        group = next((group.members for group in self._groups if number in group.members), (number,))
        return group[0], number

    def arrange(self) -> None:
        """Place all names at the present zoom and size."""
        metrics, size = QFontMetricsF(font("small")), self._plot.size()
        height, widest = metrics.height(), _WIDEST * size.width()
        rows = self._rows(metrics, widest - 4 * GRID)
        fits = len(rows) * height <= size.height()  # they may reach beside the axis, below the lines
        listed = bool(self._names) and (self.listed or not fits)
        if listed:
            rows = [(number,) for number in range(len(self._names))]
        wide = max((self._width(row, metrics) for row in rows), default=0.0)
        if self._reserved[:2] == (size.width(), listed):
            wide = max(wide, self._reserved[2])
        self._reserved = (size.width(), listed, wide)
        column = min(wide + 4 * GRID + (_SAMPLE if listed else 0), widest) if self._names else 0.0
        margins = (float(GRID), self._head, max(column, 2.0 * GRID), float(HALF))
        if self._plot.layout.getContentsMargins() != margins:  # setting them, even to the same, lays out all anew
            self._plot.layout.setContentsMargins(*margins)
        area = self._plot.vb.geometry()
        left, right = area.right() + 2 * GRID, area.right() + column
        room = int(size.height() // height)
        self._more.setVisible(listed and len(self._names) > room)
        if listed:
            self._place_list(left, right, metrics, room)
        else:
            self._place_beside(rows, left, right, metrics)

    def _rows(self, metrics: QFontMetricsF, room: float) -> list[tuple[int, ...]]:
        """Return the lines of each row: those of a group together where their names fit."""
        together = {
            group.members[0]: group.members for group in self._groups if self._width(group.members, metrics) <= room
        }
        inside = {number for members in together.values() for number in members}
        return [
            together.get(number, (number,))
            for number in range(len(self._names))
            if number in together or number not in inside
        ]

    def _width(self, row: tuple[int, ...], metrics: QFontMetricsF) -> float:
        signs = (len(row) - 1) * metrics.horizontalAdvance(self._sign(row))
        return sum(self._names[number].width(metrics) for number in row) + signs

    def _sign(self, row: tuple[int, ...]) -> str:
        equal = next((group.equal for group in self._groups if group.members == row), False)
        return " = " if equal else " ≈ "

    def _place_list(self, left: float, right: float, metrics: QFontMetricsF, room: int) -> None:
        height = metrics.height()
        names = sorted(self._names, key=lambda name: not name.end.prominent)
        fitting = len(names) if len(names) <= room else max(room - 1, 0)
        for row, name in enumerate(names):
            name.show(row < fitting)
            if row < fitting:
                name.listed(left, right, (row + 0.5) * height, metrics)
        self._more.setText(f"and {len(names) - fitting} more")
        self._more.setPos(left, fitting * height)

    def _place_beside(self, rows: Sequence[tuple[int, ...]], left: float, right: float, metrics: QFontMetricsF) -> None:
        area, height = self._plot.vb.geometry(), metrics.height()
        half = height / 2
        anchors = [self._anchor(self._names[row[0]].end) for row in rows]
        visible_anchors = [anchor for anchor in anchors if anchor is not None]
        needed = len(visible_anchors) * height > area.height()
        low, high = (0.0, self._plot.size().height()) if needed else (area.top(), area.bottom())
        heights = iter(spread([p.y() for p in visible_anchors], height, low + half, high - half))
        for row, anchor in zip(rows, anchors, strict=True):
            for number in row:
                self._names[number].show(anchor is not None)
            if anchor is not None:
                self._write_row(row, anchor, left, right, next(heights), metrics)

    def _write_row(
        self, row: tuple[int, ...], anchor: QPointF, left: float, right: float, y: float, metrics: QFontMetricsF
    ) -> None:
        first, *following = (self._names[number] for number in row)
        first.beside(anchor, left, right, y, metrics)
        left += first.width(metrics)
        sign = self._sign(row)
        for name in following:
            name.after(sign, left, right, y, metrics)
            left += metrics.horizontalAdvance(sign) + name.width(metrics)

    def _anchor(self, end: LineEnd) -> QPointF | None:
        """Return the end of the line's visible part in the plot's coordinates; None when nothing is visible."""
        (x_low, x_high), (y_low, y_high) = self._plot.vb.viewRange()
        for x, y in zip(reversed(end.x), reversed(end.y), strict=True):
            x = min(x, x_high) if math.isinf(x) else x
            if x_low <= x <= x_high and y_low <= y <= y_high:
                return QPointF(self._plot.mapFromScene(self._plot.vb.mapViewToScene(QPointF(x, y))))
        return None


def spread(targets: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Return positions as near as possible to the targets, at least `gap` apart and in [low, high], in input order.

    Positions that do not all fit are spread evenly over the range.
    """
    order = sorted(range(len(targets)), key=lambda index: targets[index])
    placed = [0.0] * len(targets)
    if (len(targets) - 1) * gap > high - low:
        step = (high - low) / max(len(targets) - 1, 1)
        for rank, index in enumerate(order):
            placed[index] = low + rank * step
        return placed
    # Blocks of touching names, each centred on the mean of its members' targets.
    blocks: list[tuple[float, list[int]]] = []
    for index in order:
        block = (min(max(targets[index], low), high), [index])
        while blocks and blocks[-1][0] + len(blocks[-1][1]) * gap > block[0]:
            members = blocks.pop()[1] + block[1]
            middle = sum(targets[member] - rank * gap for rank, member in enumerate(members)) / len(members)
            block = (min(max(middle, low), high - (len(members) - 1) * gap), members)
        blocks.append(block)
    for start, members in blocks:
        for rank, index in enumerate(members):
            placed[index] = start + rank * gap
    return placed
