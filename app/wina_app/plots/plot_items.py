"""One line or one set of bars of a plot: what it is made of, and the items that draw it."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QGraphicsItem

from wina_app.plots.figure import Line, Series
from wina_app.plots.polyline_item import PlotLine
from wina_app.style.theme import GRID, tokens

_MANY = 500
"""From this many points on a line is drawn without smoothing, which would take seconds."""
_FADED = 0.3
"""Opacity of what is not selected while something is."""
STYLES: dict[Line, Qt.PenStyle] = {
    "solid": Qt.PenStyle.SolidLine,
    "dash": Qt.PenStyle.DashLine,
    "dot": Qt.PenStyle.DotLine,
    "dashdot": Qt.PenStyle.DashDotLine,
    "dashdotdot": Qt.PenStyle.DashDotDotLine,
    "none": Qt.PenStyle.NoPen,
}
_WORDS = {style: word for word, style in STYLES.items()}


@dataclass(frozen=True)
class Trace:
    """One line: points in the order of x. Or bars that begin at 0, where `width` says how wide they are."""

    name: str
    colour: QColor
    x: Sequence[float]
    y: Sequence[float]
    readout: Callable[[int], str] | None
    """What is known of the point with this index; None for a curve that the pointer passes over."""
    errors: Sequence[float] = ()
    """Standard errors, NaN where unknown; empty when there are none at all."""
    symbol: str = ""
    """pyqtgraph's name of the marker; empty for none."""
    style: Qt.PenStyle = Qt.PenStyle.SolidLine
    hollow: bool = False
    """Whether the markers are outlines: of published points."""
    spans: Sequence[tuple[float, float]] = ()
    """Lower and upper ends of the bars, where they are not errors."""
    keys: Sequence[str] = ()
    """What each point stands for, to be selected and highlighted by; empty where it is nothing of the kind."""
    width: float = 0.0
    """Of bars, in units of x; 0 for a line."""
    named: bool = True
    """Whether its name is written into the plot."""
    size: int = GRID
    """Of the markers, in pixels."""

    @property
    def ends(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Lower and upper ends of the error bars, NaN where unknown; None when there are none at all."""
        y = np.asarray(self.y, dtype=float)
        if len(self.spans):
            low, high = np.asarray(self.spans, dtype=float).T
            return low, high
        if len(self.errors):
            errors = np.asarray(self.errors, dtype=float)
            return y - errors, y + errors
        return None

    def series(self) -> Series:
        """What is to be drawn of it elsewhere."""
        low, high = self.ends or (np.empty(0), np.empty(0))
        return Series(
            self.name, self.colour.name(), _floats(self.x), _floats(self.y), _floats(low), _floats(high), self.symbol,
            _WORDS[self.style], self.hollow, self.width, self.named, self.size,
        )  # fmt: skip


@dataclass(frozen=True)
class Reference:
    """A dashed horizontal line."""

    name: str
    colour: QColor
    y: float


def trace_of(series: Series) -> Trace:
    """A trace that looks like the series, to be drawn and not to be pointed at."""
    return Trace(
        series.name, QColor(series.colour), series.x, series.y, None, (), series.marker, STYLES[series.line],
        series.hollow, tuple(zip(series.low, series.high, strict=True)), (), series.width, series.named,
        series.size,
    )  # fmt: skip


class TraceItems:
    """The items of one trace."""

    def __init__(self, plot: pg.PlotItem, pictured: bool = False) -> None:
        """`pictured`: the line is painted from a picture of it until it changes."""
        self._plot = plot
        self._errors = pg.ErrorBarItem(beam=0.0)
        self._curve = PlotLine()
        if pictured:
            self._curve.curve.setCacheMode(QGraphicsItem.CacheMode.DeviceCoordinateCache)
        self._bars: pg.BarGraphItem | None = None
        self._trace: Trace | None = None
        self._look: tuple[object, ...] = ()
        self._style: tuple[object, ...] = ()
        plot.addItem(self._curve)
        plot.addItem(self._errors)

    def remove(self) -> None:
        """Take them out of the plot."""
        for item in filter(None, (self._errors, self._curve, self._bars)):
            self._plot.removeItem(item)

    def show(self, trace: Trace, scale: float, selected: Collection[str]) -> None:
        """Draw a trace with pens for `scale` device pixels per logical pixel, faint where only others are selected.

        The very same trace in the same look is on the plot already: nothing of it is drawn anew.
        """
        look = (scale, frozenset(selected), tokens())
        if trace is self._trace and look == self._look:
            return
        self._trace, self._look = trace, look
        faint = bool(selected) and bool(trace.keys) and not any(key in selected for key in trace.keys)
        opacity = _FADED if faint else 1.0
        for item in (self._curve, self._errors):
            item.setOpacity(opacity)
        x, y = np.asarray(trace.x, dtype=float), np.asarray(trace.y, dtype=float)
        y = np.where(np.isfinite(y), y, np.nan)  # nothing can be scaled to hold what is infinite
        self._show_bars(trace, x, y, scale, selected)
        if trace.width:
            self._curve.setData([], [])
        else:
            self._show_curve(trace, x, y, scale)
        ends = trace.ends
        if ends is None:
            self._errors.setData(x=None, y=None)
        else:
            below, above = (np.nan_to_num(each) for each in (y - ends[0], ends[1] - y))
            pen = pg.mkPen(tokens().text if trace.width else trace.colour, width=scale)
            self._errors.setData(x=x, y=y, bottom=below, top=above, pen=pen)

    def _show_curve(self, trace: Trace, x: np.ndarray, y: np.ndarray, scale: float) -> None:
        style = (
            trace.colour.name(), trace.style, trace.symbol, trace.size, trace.hollow, scale, len(x) < _MANY, tokens(),
        )  # fmt: skip
        if style == self._style:  # a line that only moves keeps its pens, which take longer to make than its points
            self._curve.setData(x, y)
            return
        self._style = style
        self._curve.setData(
            x,
            y,
            pen=pg.mkPen(trace.colour, width=2 * scale, style=trace.style),
            symbol=trace.symbol or None,
            symbolSize=trace.size,
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
            own = bool(trace.keys) and trace.keys[number] in selected
            fill = QColor(trace.colour)
            fill.setAlphaF(_FADED if selected and trace.keys and not own else 1.0)
            fills.append(pg.mkBrush(fill))
            outlines.append(pg.mkPen(tokens().text if own else fill, width=(2 if own else 1) * scale))
        self._bars = pg.BarGraphItem(x=x, height=y, width=trace.width, brushes=fills, pens=outlines)
        self._plot.addItem(self._bars)
        self._bars.setZValue(-1)


def _floats(values: Sequence[float] | np.ndarray) -> tuple[float, ...]:
    return tuple(float(value) for value in values)
