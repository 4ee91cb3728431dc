"""A line of a plot, painted piece by piece where it is jagged, which takes a tenth of the time.

Qt fills a smooth line that is wider than a pixel as one area, whose every row of pixels costs for each time that the
line comes through it: 80 points that go up and down over 100 to 200 pixels take 3 to 6 ms, their 79 pieces 0.2 ms. Of
a dashed line the pieces are its dashes. Lines that go up and down less are painted whole, with neater corners.
"""

from typing import Any, cast

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QLineF, Qt
from PySide6.QtGui import QPainter, QPen
from PySide6.QtWidgets import QStyleOptionGraphicsItem, QWidget
from shiboken6 import Shiboken

_JAGGED = 5.0
"""A line that goes up and down this many times its width is painted in pieces: whole, it may take 3 ms."""
_LONG = 1500.0
"""A line that goes up and down by so many pixels is painted in pieces, however wide: 0.6 ms, not 2.3 ms."""
_MOST = 2000
"""Most repeats of a line's dashes; a longer line is mostly beyond the plot's edges, where Qt draws no dashes."""


class PlotLine(pg.PlotDataItem):
    """Points, and the line through those that are known."""

    curve: Any

    def __init__(self) -> None:
        super().__init__(connect="finite")
        self.curve.setParentItem(None)
        self.curve = _Curve()
        self.curve.setParentItem(self)
        self.curve.sigClicked.connect(self.sigClicked)

    def updateItems(self, styleUpdate: bool = True) -> None:
        """Move the points alone where only they changed: to set the pens takes longer."""
        moved = None if styleUpdate or self.opts["symbol"] is not None else self._getDisplayDataset()
        if moved is None:
            super().updateItems(styleUpdate)
        else:
            self.curve.setData(moved.x, moved.y)
            self.curve.show()


def pieces(x: np.ndarray, y: np.ndarray, pattern: np.ndarray) -> np.ndarray:
    """Cut a dashed line into its straight pieces, float64 [pieces, 4] as QLineF lies in memory: x and y of both ends.

    `pattern` has the lengths of dash, gap, dash, gap and so on, in the unit of x and y; empty for a solid line.
    """
    corners = np.stack((x, y), axis=1)
    if not len(pattern):
        return np.hstack((corners[:-1], corners[1:]))
    along = np.concatenate(([0.0], np.cumsum(np.hypot(np.diff(x), np.diff(y)))))
    repeats = np.arange(along[-1] // pattern.sum() + 1)
    changes = (pattern.sum() * repeats[:, None] + np.cumsum(pattern)).ravel()
    cuts = np.union1d(along, changes[changes < along[-1]])
    drawn = np.searchsorted(changes, (cuts[:-1] + cuts[1:]) / 2) % 2 == 0
    ends = np.stack((np.interp(cuts, along, x), np.interp(cuts, along, y)), axis=1)
    return np.hstack((ends[:-1][drawn], ends[1:][drawn]))


class _Curve(pg.PlotCurveItem):
    _measured: tuple[np.ndarray, float, float] | None = None
    """The y of points, the way of the line up and down, and its width; NaN with unknown points."""

    def paint(self, painter: QPainter, option: QStyleOptionGraphicsItem, widget: QWidget | None) -> None:
        """Paint in pieces where that is faster, else as pyqtgraph does."""
        pen = self.opts["pen"]
        wide = pen is not None and pen.style() != Qt.PenStyle.NoPen and pen.widthF() > 1 and self.opts["antialias"]
        drawn = self._pieces(painter, pen) if wide and self.xData is not None else None
        if drawn is None:
            super().paint(painter, option, widget)
            return
        solid = QPen(pen)
        solid.setStyle(Qt.PenStyle.SolidLine)
        painter.save()
        painter.resetTransform()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(solid)
        painter.drawLines(cast(QLineF, Shiboken.wrapInstance(drawn.ctypes.data, QLineF)), len(drawn))
        painter.restore()

    def _pieces(self, painter: QPainter, pen: QPen) -> np.ndarray | None:
        """Return the pieces in the painter's coordinates before any transform: with x and y scaled differently Qt takes
        several times as long. None where points are unknown, or the line is not jagged or too long."""
        to_painter, to_pixels = painter.worldTransform(), painter.deviceTransform()
        right, down = abs(to_pixels.m11()), abs(to_pixels.m22())
        travel, width = self._extent()
        if not down * travel > min(_JAGGED * right * width, _LONG):
            return None
        pattern = pen.widthF() * np.array(pen.dashPattern())  # in pixels, in which the pens of plots are measured
        if down * travel > _MOST * pattern.sum() > 0:
            return None
        x = to_painter.m11() * self.xData + to_painter.dx()
        y = to_painter.m22() * self.yData + to_painter.dy()
        return pieces(x, y, pattern * abs(to_painter.m11()) / right)

    def _extent(self) -> tuple[float, float]:
        """Return the line's way up and down and its width, computed once for the same points."""
        if self._measured is None or self._measured[0] is not self.yData:
            travel, width = (float(np.abs(np.diff(values)).sum()) for values in (self.yData, self.xData))
            self._measured = (self.yData, travel, width)
        return self._measured[1:]
