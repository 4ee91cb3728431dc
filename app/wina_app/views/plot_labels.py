"""The names of lines beside their ends, placed so that they neither overlap nor need a legend."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pyqtgraph as pg
from PySide6.QtCore import QObject, QPointF, Qt
from PySide6.QtGui import QBrush, QColor, QFontMetricsF, QPen
from PySide6.QtWidgets import QGraphicsLineItem, QGraphicsPathItem, QGraphicsSimpleTextItem

from wina_app.theme import GRID, HALF, font, readable

_WIDEST = 0.4
"""The largest part of the plot's width that names may take."""


@dataclass(frozen=True)
class LineEnd:
    """A line to name: its points in the order of x; an infinite x stands for a line that crosses the whole plot."""

    name: str
    colour: QColor
    x: tuple[float, ...]
    y: tuple[float, ...]
    symbol: str = ""
    hollow: bool = False


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Positions as near as possible to the wanted ones, at least `gap` apart and within [low, high], in input order.

    When they do not all fit, they are spread evenly over the range.
    """
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    placed = [0.0] * len(wanted)
    if (len(wanted) - 1) * gap > high - low:
        step = (high - low) / max(len(wanted) - 1, 1)
        for rank, index in enumerate(order):
            placed[index] = low + rank * step
        return placed
    # Blocks of touching names, each centred on the mean of what its members want.
    blocks: list[tuple[float, list[int]]] = []
    for index in order:
        block = (min(max(wanted[index], low), high), [index])
        while blocks and blocks[-1][0] + len(blocks[-1][1]) * gap > block[0]:
            members = blocks.pop()[1] + block[1]
            middle = sum(wanted[member] - rank * gap for rank, member in enumerate(members)) / len(members)
            block = (min(max(middle, low), high - (len(members) - 1) * gap), members)
        blocks.append(block)
    for start, members in blocks:
        for rank, index in enumerate(members):
            placed[index] = start + rank * gap
    return placed


class LineLabels(QObject):
    """Keeps the names at the right of a plot while it is zoomed and resized; none when they cannot all fit."""

    def __init__(self, plot: pg.PlotItem) -> None:
        super().__init__(plot)
        self._plot = plot
        self._ends: tuple[LineEnd, ...] = ()
        self._items: list[tuple[QGraphicsSimpleTextItem, QGraphicsLineItem, QGraphicsPathItem | None]] = []
        plot.vb.sigRangeChanged.connect(self._place)
        plot.vb.sigResized.connect(self._place)

    def show(self, ends: Sequence[LineEnd]) -> None:
        """Name these lines instead."""
        for items in self._items:
            for item in filter(None, items):
                item.setParentItem(None)
                self._plot.scene().removeItem(item)
        self._ends = tuple(ends)
        self._items = [self._make(end) for end in self._ends]
        self._place()

    def _make(self, end: LineEnd) -> tuple[QGraphicsSimpleTextItem, QGraphicsLineItem, QGraphicsPathItem | None]:
        text = QGraphicsSimpleTextItem(self._plot)
        text.setFont(font("small"))
        text.setBrush(QBrush(readable(end.colour)))
        leader = QGraphicsLineItem(self._plot)
        leader.setPen(QPen(end.colour, 1, Qt.PenStyle.DotLine))
        marker = None
        if end.symbol:
            marker = QGraphicsPathItem(pg.graphicsItems.ScatterPlotItem.Symbols[end.symbol], self._plot)
            marker.setScale(GRID)
            marker.setBrush(QBrush(Qt.BrushStyle.NoBrush) if end.hollow else QBrush(end.colour))
            outline = QPen(end.colour, 1)
            outline.setCosmetic(True)  # the marker is scaled
            marker.setPen(outline if end.hollow else QPen(Qt.PenStyle.NoPen))
        return text, leader, marker

    def _place(self) -> None:
        metrics = QFontMetricsF(font("small"))
        size, height = self._plot.size(), metrics.height()
        widest = max((metrics.horizontalAdvance(end.name) for end in self._ends), default=0.0)
        fits = len(self._ends) * height <= size.height()  # they may reach beside the axis, below the lines
        column = min(widest + 4 * GRID, _WIDEST * size.width()) if self._ends and fits else 0.0
        self._plot.layout.setContentsMargins(GRID, GRID, max(column, 2 * GRID), HALF)
        area = self._plot.vb.geometry()
        anchors = [self._anchor(end) for end in self._ends]
        known = [anchor for anchor in anchors if anchor is not None]
        half = height / 2
        needed = len(known) * height > area.height()
        low, high = (0.0, size.height()) if needed else (area.top(), area.bottom())
        heights = iter(spread([p.y() for p in known], height, low + half, high - half))
        for end, anchor, (text, leader, marker) in zip(self._ends, anchors, self._items, strict=True):
            for item in filter(None, (text, leader, marker)):
                item.setVisible(fits and anchor is not None)
            if anchor is None:
                continue
            y, left = next(heights), area.right() + 2 * GRID
            leader.setLine(anchor.x(), anchor.y(), left - HALF, y)
            if marker is not None:
                marker.setPos(left + HALF, y)
                left += GRID + HALF
            room = area.right() + column - left
            text.setText(metrics.elidedText(end.name, Qt.TextElideMode.ElideRight, room))
            text.setPos(left, y - half)

    def _anchor(self, end: LineEnd) -> QPointF | None:
        """Where the visible part of the line ends, in the plot's coordinates; None when nothing of it is visible."""
        (x_low, x_high), (y_low, y_high) = self._plot.vb.viewRange()
        for x, y in zip(reversed(end.x), reversed(end.y), strict=True):
            x = min(x, x_high) if math.isinf(x) else x
            if x_low <= x <= x_high and y_low <= y <= y_high:
                return self._plot.mapFromScene(self._plot.vb.mapViewToScene(QPointF(x, y)))
        return None
