"""One line or one set of bars of a plot, and the items that draw it."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QLineF, Qt
from PySide6.QtGui import QColor, QPainter, QPen
from PySide6.QtWidgets import QStyleOptionGraphicsItem, QWidget
from shiboken6 import Shiboken

from wina_app.plots.coincidence import dashes
from wina_app.style.theme import GRID, tokens
from wina_core.report.drawing import Line, Series

_ALONE = (0, 1)
"""Place and count of a line that lies upon no other."""
_RING = 5
"""Pixels by which a marker is larger than the one above it of a line that lies upon its own."""
_MANY = 500
"""Points from which a line is drawn without smoothing, which would take seconds."""
_FADED = 0.3
"""Opacity of unselected lines while others are selected."""
_WORDS: dict[Qt.PenStyle, Line] = {
    Qt.PenStyle.SolidLine: "solid",
    Qt.PenStyle.DashLine: "dash",
    Qt.PenStyle.DotLine: "dot",
    Qt.PenStyle.DashDotLine: "dashdot",
    Qt.PenStyle.DashDotDotLine: "dashdotdot",
    Qt.PenStyle.NoPen: "none",
}
MARKERS = ("o", "s", "t1", "d", "t", "star", "p", "h")
"""pyqtgraph's markers, in the order in which plots give them out."""
_MATPLOTLIB_MARKERS = {"t": "v", "t1": "^", "t2": ">", "t3": "<", "d": "D", "star": "*"}
"""matplotlib's names of markers where they differ from pyqtgraph's."""


@dataclass(frozen=True)
class Trace:
    """One line through points in the order of x, or bars that begin at 0 where `width` is not 0."""

    name: str
    colour: QColor
    x: Sequence[float]
    y: Sequence[float]
    readout: Callable[[int], str] | None
    """Text of the point with this index; None for a curve that the pointer does not catch."""
    errors: Sequence[float] = ()
    """Standard errors, NaN where unknown; empty for none."""
    symbol: str = ""
    """pyqtgraph's name of the marker; empty for none."""
    style: Qt.PenStyle = Qt.PenStyle.SolidLine
    hollow: bool = False
    """True for outlines as markers: of published points."""
    spans: Sequence[tuple[float, float]] = ()
    """Lower and upper ends of the error bars, in place of standard errors."""
    keys: Sequence[str] = ()
    """Key of each point for selecting and highlighting; empty for points that cannot be selected."""
    width: float = 0.0
    """Width of bars in units of x; 0 for a line."""
    named: bool = True
    """True to write the name into the plot."""
    size: int = GRID
    """Pixels of the markers."""

    @property
    def ends(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Lower and upper ends of the error bars, NaN where unknown; None for none."""
        y = np.asarray(self.y, dtype=float)
        if len(self.spans):
            low, high = np.asarray(self.spans, dtype=float).T
            return low, high
        if len(self.errors):
            errors = np.asarray(self.errors, dtype=float)
            return y - errors, y + errors
        return None

    def series(self, upon: tuple[int, int] = _ALONE) -> Series:
        """Return the trace as plain data, dashed by its place in a group of coinciding lines."""
        low, high = self.ends or (np.empty(0), np.empty(0))
        return Series(
            name=self.name,
            colour=self.colour.name(),
            x=_floats(self.x),
            y=_floats(self.y),
            low=_floats(low),
            high=_floats(high),
            marker=_MATPLOTLIB_MARKERS.get(self.symbol, self.symbol),
            line=_WORDS[_style(self, upon)],
            hollow=self.hollow,
            width=self.width,
            named=self.named,
            size=self.size + _ring(upon),
            dashes=dashes(*upon) if upon[0] else (),
        )


@dataclass(frozen=True)
class Reference:
    """A dashed horizontal line."""

    name: str
    colour: QColor
    y: float


class TraceItems:
    """The items of one trace."""

    def __init__(self, plot: pg.PlotItem) -> None:
        self._plot = plot
        self._errors = pg.ErrorBarItem(beam=0.0)
        self._curve = PlotLine()
        self._bars: pg.BarGraphItem | None = None
        self._trace: Trace | None = None
        self._look: tuple[object, ...] = ()
        self._style: tuple[object, ...] = ()
        plot.addItem(self._curve)
        plot.addItem(self._errors)

    def remove(self) -> None:
        for item in filter(None, (self._errors, self._curve, self._bars)):
            self._plot.removeItem(item)

    def show(
        self, trace: Trace, scale: float, selected: Collection[str], upon: tuple[int, int] = _ALONE, *, hidden: bool
    ) -> None:
        """Draw a trace with pens for `scale` device pixels per logical pixel, faint where only others are selected.

        `upon` is its place above the lowest of the lines that it coincides with, and their count.
        """
        look = (scale, frozenset(selected), upon, hidden, tokens())
        if trace is self._trace and look == self._look:
            return  # it is on the plot already
        self._trace, self._look = trace, look
        faint = bool(selected) and bool(trace.keys) and not any(key in selected for key in trace.keys)
        opacity = _FADED if faint else 1.0
        for item in (self._curve, self._errors):
            item.setOpacity(opacity)
        x, y = np.asarray(trace.x, dtype=float), np.asarray(trace.y, dtype=float)
        y = np.where(np.isfinite(y), y, np.nan)  # no axis can hold an infinite value
        self._show_bars(trace, x, y, scale, selected)
        if trace.width:
            self._curve.setData([], [])
        else:
            self._show_curve(trace, x, y, scale, upon)
        ends = trace.ends
        if ends is None:
            self._errors.setData(x=None, y=None)
        else:
            below, above = (np.nan_to_num(lengths) for lengths in (y - ends[0], ends[1] - y))
            pen = pg.mkPen(tokens().text if trace.width else trace.colour, width=scale)
            self._errors.setData(x=x, y=y, bottom=below, top=above, pen=pen)
        for item in filter(None, (self._curve, self._bars)):
            item.setVisible(not hidden)
        self._errors.setVisible(ends is not None and not hidden)

    def _show_curve(self, trace: Trace, x: np.ndarray, y: np.ndarray, scale: float, upon: tuple[int, int]) -> None:
        style = (
            trace.colour.name(), trace.style, trace.symbol, trace.size, trace.hollow, scale, upon, len(x) < _MANY,
            tokens(),
        )  # fmt: skip
        if style == self._style:  # a line that only moves keeps its pens, which take longer to make than its points
            self._curve.setData(x, y)
            return
        self._style = style
        self._curve.setData(
            x,
            y,
            pen=_pen(trace, 2 * scale, upon),
            symbol=trace.symbol or None,
            symbolSize=trace.size + _ring(upon),
            symbolBrush=pg.mkBrush(tokens().surface if trace.hollow else trace.colour),
            symbolPen=pg.mkPen(trace.colour if trace.hollow else tokens().surface, width=scale),
            antialias=len(x) < _MANY,
        )
        self._curve.setZValue(5 if trace.hollow else 0)

    def _show_bars(self, trace: Trace, x: np.ndarray, y: np.ndarray, scale: float, selected: Collection[str]) -> None:
        if self._bars is not None:
            self._plot.removeItem(self._bars)
            self._bars = None
        if not trace.width or not len(x):
            return
        fills, outlines = [], []
        for number in range(len(x)):
            is_selected = bool(trace.keys) and trace.keys[number] in selected
            fill = QColor(trace.colour)
            fill.setAlphaF(_FADED if selected and trace.keys and not is_selected else 1.0)
            fills.append(pg.mkBrush(fill))
            outlines.append(pg.mkPen(tokens().text if is_selected else fill, width=(2 if is_selected else 1) * scale))
        self._bars = pg.BarGraphItem(x=x, height=y, width=trace.width, brushes=fills, pens=outlines)
        self._plot.addItem(self._bars)
        self._bars.setZValue(-1)


def _pen(trace: Trace, width: float, upon: tuple[int, int]) -> QPen:
    """Return a line's pen, dashed above other lines of its group so that they show through."""
    pen: QPen = pg.mkPen(trace.colour, width=width, style=_style(trace, upon))
    if upon[0] and trace.style != Qt.PenStyle.NoPen:
        # Other caps lengthen each dash and fill the gaps, which show the lines below.
        pen.setCapStyle(Qt.PenCapStyle.FlatCap)
        pen.setDashPattern(dashes(*upon))
    return pen


def _style(trace: Trace, upon: tuple[int, int]) -> Qt.PenStyle:
    """Return a line's own pattern, or a solid one if it coincides with other lines."""
    keeps_style = upon == _ALONE or trace.style == Qt.PenStyle.NoPen
    return trace.style if keeps_style else Qt.PenStyle.SolidLine


def _ring(upon: tuple[int, int]) -> int:
    """Return the pixels that a marker gains to be seen around those above it."""
    position, count = upon
    return _RING * (count - 1 - position)


def _floats(values: Sequence[float] | np.ndarray) -> tuple[float, ...]:
    return tuple(float(value) for value in values)


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
        # PlotDataItem has no argument for the class of its curve.
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
    """A line that is painted piece by piece where it is jagged, which takes a tenth of the time.

    Qt fills a smooth line that is wider than a pixel as one area, whose every row of pixels costs for each time that
    the line comes through it: 80 points that go up and down over 100 to 200 pixels take 3 to 6 ms, their 79 pieces
    0.2 ms. Of a dashed line the pieces are its dashes. Lines that go up and down less are painted whole, with neater
    corners.
    """

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
        # Qt reads numpy's memory in place, without a Python object for each piece.
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
