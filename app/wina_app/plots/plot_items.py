"""One line or one set of bars of a plot, and the items that draw it."""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QColor

from wina_app.style.theme import GRID, tokens
from wina_core.report.drawing import Line, Series

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
    """True for a row in the legend."""
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

    def series(self) -> Series:
        """Return the trace as plain data."""
        low, high = self.ends or (np.empty(0), np.empty(0))
        return Series(
            name=self.name,
            colour=self.colour.name(),
            x=_floats(self.x),
            y=_floats(self.y),
            low=_floats(low),
            high=_floats(high),
            marker=_MATPLOTLIB_MARKERS.get(self.symbol, self.symbol),
            line=_WORDS[self.style],
            hollow=self.hollow,
            width=self.width,
            named=self.named,
            size=self.size,
        )

    def pens(self, scale: float) -> dict[str, Any]:
        """Return pyqtgraph's options of the line and its markers, for `scale` device pixels per logical pixel."""
        return {
            "pen": pg.mkPen(self.colour, width=2 * scale, style=self.style),
            "symbol": self.symbol or None,
            "symbolSize": self.size,
            "symbolBrush": pg.mkBrush(tokens().surface if self.hollow else self.colour),
            "symbolPen": pg.mkPen(self.colour if self.hollow else tokens().surface, width=scale),
        }


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
        self._curve = pg.PlotDataItem(connect="finite")
        self._bars: pg.BarGraphItem | None = None
        self._trace: Trace | None = None
        self._look: tuple[object, ...] = ()
        self._style: tuple[object, ...] = ()
        plot.addItem(self._curve)
        plot.addItem(self._errors)

    def remove(self) -> None:
        for item in filter(None, (self._errors, self._curve, self._bars)):
            self._plot.removeItem(item)

    def show(self, trace: Trace, scale: float, selected: Collection[str], *, hidden: bool) -> None:
        """Draw a trace with pens for `scale` device pixels per logical pixel, faint where only others are selected."""
        look = (scale, frozenset(selected), hidden, tokens())
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
            self._show_curve(trace, x, y, scale)
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

    def _show_curve(self, trace: Trace, x: np.ndarray, y: np.ndarray, scale: float) -> None:
        smooth = len(x) < _MANY
        style = trace.colour.name(), trace.style, trace.symbol, trace.size, trace.hollow, scale, smooth, tokens()
        if style == self._style:  # a line that only moves keeps its pens, which take longer to make than its points
            self._curve.setData(x, y)
            return
        self._style = style
        self._curve.setData(x, y, antialias=smooth, **trace.pens(scale))
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


def _floats(values: Sequence[float] | np.ndarray) -> tuple[float, ...]:
    return tuple(float(value) for value in values)


_REACH = 40.0
"""Pixels within which the crosshair catches a point."""
_ON_LINE = 6.0
"""Pixels within which a click means the whole line."""


def nearest_point(traces: Sequence[Trace], at: QPointF, pixel: tuple[float, float]) -> tuple[int, int] | None:
    """Return the (trace, point) nearest to a position in data, for a pixel of this size; None without any in reach.

    Traces without a read-out are not caught.
    """
    width, height = pixel
    least, nearest = _REACH, None
    for index, trace in enumerate(traces):
        if trace.readout is None:
            continue
        dx, dy = np.asarray(trace.x, dtype=float) - at.x(), np.asarray(trace.y, dtype=float) - at.y()
        if trace.width:  # a bar is met anywhere between 0 and its end
            dx = np.maximum(np.abs(dx) - trace.width / 2, 0.0)
            dy = np.where((dy > 0) == (at.y() > 0), 0.0, np.minimum(np.abs(dy), abs(at.y())))
        across, up = dx / width, dy / height
        distances = np.nan_to_num(np.hypot(across, up), nan=math.inf)
        if distances.size and distances.min() < least:
            least, nearest = float(distances.min()), (index, int(distances.argmin()))
    return nearest


def line_at(traces: Sequence[Trace], at: QPointF, pixel: tuple[float, float]) -> int | None:
    """Return the index of the first line with keys that passes a position in data, None where there is none."""
    width, height = pixel
    for index, trace in enumerate(traces):
        if len(trace.keys) > 1 and not trace.width and trace.style != Qt.PenStyle.NoPen:
            x = (np.asarray(trace.x, dtype=float) - at.x()) / width
            y = (np.asarray(trace.y, dtype=float) - at.y()) / height
            if _distance_of_origin(x, y) <= _ON_LINE:
                return index
    return None


def _distance_of_origin(x: np.ndarray, y: np.ndarray) -> float:
    """Return the distance from (0, 0) to a line through points, without the pieces with an unknown end."""
    dx, dy = np.diff(x), np.diff(y)
    # Two equal points have no direction; the bound avoids a division by 0.
    squared = np.maximum(dx**2 + dy**2, 1e-12)
    along = np.clip(-(x[:-1] * dx + y[:-1] * dy) / squared, 0.0, 1.0)
    distances = np.nan_to_num(np.hypot(x[:-1] + along * dx, y[:-1] + along * dy), nan=math.inf)
    return float(distances.min(initial=math.inf))
