"""Names of lines beside their ends in place of a legend; a list where they do not all fit."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyqtgraph as pg
from PySide6.QtCore import QObject, QPointF, Qt
from PySide6.QtGui import QBrush, QColor, QFontMetricsF, QPen
from PySide6.QtWidgets import QGraphicsItem, QGraphicsLineItem, QGraphicsPathItem, QGraphicsSimpleTextItem

from wina_app.style.palette import Tokens
from wina_app.style.theme import GRID, HALF, font, readable, tokens
from wina_app.style.translation import tr
from wina_core.figures.label_positions import spread

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
    """The items of one line: its name, a piece of line to or before it, and its marker."""

    def __init__(self, end: LineEnd, plot: pg.PlotItem) -> None:
        self.end = end
        self.text = QGraphicsSimpleTextItem(plot)
        self.text.setFont(font("small"))
        self.text.setBrush(QBrush(readable(end.colour)))
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
        """All of them."""
        return tuple(filter(None, (self.line, self.text, self.marker)))

    def show(self, visible: bool) -> None:
        """Show or hide it."""
        for item in self.items:
            item.setVisible(visible)

    def beside(self, anchor: QPointF, left: float, right: float, y: float, metrics: QFontMetricsF) -> None:
        """Place the name at height `y` between `left` and `right`, with a leader to its line's end."""
        self.line.setPen(QPen(self.end.colour, 1, Qt.PenStyle.DotLine))
        self.line.setLine(anchor.x(), anchor.y(), left - HALF, y)
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

    def __init__(self, plot: pg.PlotItem) -> None:
        super().__init__(plot)
        self._plot = plot
        self.listed = False
        """True for a list even where the names fit beside their lines, as for bars."""
        self._names: list[_Name] = []
        self._look: tuple[Tokens, tuple[LineEnd, ...]] | None = None
        self._more = QGraphicsSimpleTextItem(plot)
        plot.vb.sigRangeChanged.connect(self._place)
        plot.vb.sigResized.connect(self._place)

    def show(self, ends: Sequence[LineEnd]) -> None:
        """Name these lines; those that only moved keep their items."""
        look = (tokens(), tuple(replace(end, x=(), y=()) for end in ends))
        if look == self._look:
            for name, end in zip(self._names, ends, strict=True):
                name.end = end
            self._place()
            return
        self._look = look
        for name in self._names:
            for item in name.items:
                self._plot.scene().removeItem(item)
        self._names = [_Name(end, self._plot) for end in ends]
        self._more.setFont(font("small"))
        self._more.setBrush(QBrush(QColor(tokens().muted)))
        self._place()

    def texts(self) -> list[str]:
        """Return the visible names as they are written."""
        return [name.text.text() for name in self._names if name.text.isVisible()]

    def at(self, scene: QPointF) -> int | None:
        """Return the index of the line whose name is at a position in the scene."""
        shown = (number for number, name in enumerate(self._names) if name.text.isVisible())
        return next((n for n in shown if self._names[n].text.sceneBoundingRect().contains(scene)), None)

    def _place(self) -> None:
        metrics, size = QFontMetricsF(font("small")), self._plot.size()
        height = metrics.height()
        widest = max((metrics.horizontalAdvance(name.end.name) for name in self._names), default=0.0)
        fits = len(self._names) * height <= size.height()  # they may reach beside the axis, below the lines
        listed = bool(self._names) and (self.listed or not fits)
        column = min(widest + 4 * GRID + (_SAMPLE if listed else 0), _WIDEST * size.width()) if self._names else 0.0
        margins = (float(GRID), float(GRID), max(column, 2.0 * GRID), float(HALF))
        if self._plot.layout.getContentsMargins() != margins:  # setting them, even to the same, lays out all anew
            self._plot.layout.setContentsMargins(*margins)
        area = self._plot.vb.geometry()
        left, right = area.right() + 2 * GRID, area.right() + column
        self._more.setVisible(listed and not fits)
        if listed:
            self._place_list(left, right, metrics, int(size.height() // height))
        else:
            self._place_beside(left, right, metrics)

    def _place_list(self, left: float, right: float, metrics: QFontMetricsF, room: int) -> None:
        height = metrics.height()
        names = sorted(self._names, key=lambda name: not name.end.prominent)
        fitting = len(names) if len(names) <= room else max(room - 1, 0)
        for row, name in enumerate(names):
            name.show(row < fitting)
            if row < fitting:
                name.listed(left, right, (row + 0.5) * height, metrics)
        self._more.setText(tr("and {count} more", count=len(names) - fitting))
        self._more.setPos(left, fitting * height)

    def _place_beside(self, left: float, right: float, metrics: QFontMetricsF) -> None:
        area, height = self._plot.vb.geometry(), metrics.height()
        half = height / 2
        anchors = [self._anchor(name.end) for name in self._names]
        known = [anchor for anchor in anchors if anchor is not None]
        needed = len(known) * height > area.height()
        low, high = (0.0, self._plot.size().height()) if needed else (area.top(), area.bottom())
        heights = iter(spread([p.y() for p in known], height, low + half, high - half))
        for name, anchor in zip(self._names, anchors, strict=True):
            name.show(anchor is not None)
            if anchor is not None:
                name.beside(anchor, left, right, next(heights), metrics)

    def _anchor(self, end: LineEnd) -> QPointF | None:
        """Return the end of the line's visible part in the plot's coordinates; None when nothing is visible."""
        (x_low, x_high), (y_low, y_high) = self._plot.vb.viewRange()
        for x, y in zip(reversed(end.x), reversed(end.y), strict=True):
            x = min(x, x_high) if math.isinf(x) else x
            if x_low <= x <= x_high and y_low <= y <= y_high:
                return QPointF(self._plot.mapFromScene(self._plot.vb.mapViewToScene(QPointF(x, y))))
        return None
