"""A plot as all pages draw it: themed axes, names beside the lines, crosshair with read-out."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QEvent, QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QAction, QColor, QPainter

from wina_app.theme import GRID, notifier, style_plot, tokens
from wina_app.views.plot_labels import LineEnd, LineLabels

_MANY = 500
"""From this many points on a line is drawn without smoothing, which would take seconds."""
_REACH = 40.0
"""Pixels within which the crosshair catches a point."""


@dataclass(frozen=True)
class Trace:
    """One line: points in the order of x."""

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


@dataclass(frozen=True)
class Reference:
    """A dashed horizontal line."""

    name: str
    colour: QColor
    y: float


class DataPlot(pg.PlotWidget):
    """Shows traces. Double-click resets the zoom; the pointer catches the nearest point and emits its read-out."""

    readout_changed = Signal(str)
    """Of the caught point; empty when none is near."""
    caught_changed = Signal(object)
    """(trace, point) under the pointer, None when none is near; for the marks of plots beside this one."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.setAccessibleName(name)
        self.setMinimumSize(240, 160)
        self._traces: tuple[Trace, ...] = ()
        self._references: tuple[Reference, ...] = ()
        self._curves: list[tuple[pg.PlotDataItem, pg.ErrorBarItem]] = []
        self._dashes: list[pg.InfiniteLine] = []
        plot = self.getPlotItem()
        plot.setMenuEnabled(False)
        plot.hideButtons()
        plot.vb.setDefaultPadding(0.06)
        plot.getAxis("left").setWidth(8 * GRID)  # left to itself it grows after its title was placed
        for side in ("left", "bottom"):
            plot.getAxis(side).enableAutoSIPrefix(False)
        self._labels = LineLabels(plot)
        self._cross = pg.InfiniteLine(angle=90)
        self._catch = pg.ScatterPlotItem(size=14, brush=None)
        for overlay in (self._cross, self._catch):
            overlay.setZValue(20)
            plot.addItem(overlay, ignoreBounds=True)
            overlay.hide()
        self.scene().sigMouseMoved.connect(self._pointer_moved)
        self.scene().sigMouseClicked.connect(self._clicked)
        reset = QAction("Reset zoom", self)
        reset.triggered.connect(self.reset_zoom)
        self.addAction(reset)
        notifier().changed.connect(self._restyle)
        self._restyle()

    # ---- what is shown -------------------------------------------------------------------------------------------

    def set_axes(self, x: str, y: str, least: float = 0.0) -> None:
        """Titles with their units, for example "target sparsity (%)"; y never shows less than `least` of them."""
        self.getPlotItem().vb.setLimits(minYRange=least)
        self.getPlotItem().setLabel("bottom", x)
        self.getPlotItem().setLabel("left", y)
        style_plot(self.getPlotItem())

    def show_traces(self, traces: Sequence[Trace], references: Sequence[Reference] = ()) -> None:
        """Replace the lines; a zoom that was chosen by hand is kept."""
        self._traces, self._references = tuple(traces), tuple(references)
        self._draw()

    @property
    def traces(self) -> tuple[Trace, ...]:
        """The lines that are shown."""
        return self._traces

    @property
    def references(self) -> tuple[Reference, ...]:
        """The horizontal lines that are shown."""
        return self._references

    def reset_zoom(self) -> None:
        """Show everything again."""
        self.getPlotItem().enableAutoRange()

    def _restyle(self) -> None:
        style_plot(self.getPlotItem())
        self._cross.setPen(pg.mkPen(tokens().muted, style=Qt.PenStyle.DotLine))
        self._catch.setPen(pg.mkPen(tokens().text, width=2))
        self._draw()

    def event(self, event: QEvent) -> bool:
        """Follow the window to a screen of another density."""
        if event.type() == QEvent.Type.DevicePixelRatioChange:
            self._draw()
        return super().event(event)

    def _draw(self, scale: float | None = None) -> None:
        """`scale` is device pixels per logical pixel: Qt measures the pens of plots in the former."""
        scale = scale or self.devicePixelRatioF()
        plot = self.getPlotItem()
        while len(self._curves) > len(self._traces):
            for item in self._curves.pop():
                plot.removeItem(item)
        while len(self._curves) < len(self._traces):
            bars = pg.ErrorBarItem(beam=0.0)
            curve = pg.PlotDataItem(connect="finite")
            self._curves.append((curve, bars))
            plot.addItem(bars)
            plot.addItem(curve)
        for trace, (curve, bars) in zip(self._traces, self._curves, strict=True):
            _fill(trace, curve, bars, scale)
        for dash in self._dashes:
            plot.removeItem(dash)
        self._dashes = [
            pg.InfiniteLine(one.y, angle=0, pen=pg.mkPen(one.colour, width=1.5 * scale, style=Qt.PenStyle.DashLine))
            for one in self._references
        ]
        for dash in self._dashes:
            plot.addItem(dash)
        self._hide_crosshair()
        plot.getAxis("left").setStyle(showValues=bool(self._traces or self._references))
        plot.getAxis("bottom").setStyle(showValues=bool(self._traces))  # a reference has no place along x
        ends = [
            LineEnd(one.name, one.colour, tuple(one.x), tuple(one.y), one.symbol, one.hollow) for one in self._traces
        ]
        ends += [LineEnd(one.name, one.colour, (math.inf,), (one.y,)) for one in self._references]
        self._labels.show(ends)

    def close(self) -> bool:
        """pyqtgraph takes the plot apart when its widget is closed, so nothing may reach it afterwards."""
        notifier().changed.disconnect(self._restyle)
        return super().close()

    # ---- pointer -------------------------------------------------------------------------------------------------

    def nearest(self, scene: QPointF) -> tuple[int, int] | None:
        """(trace, point) nearest to a position in the scene, None when none is within reach."""
        box = self.getPlotItem().vb
        at, (width, height) = box.mapSceneToView(scene), box.viewPixelSize()
        best, found = _REACH, None
        for index, trace in enumerate(self._traces):
            if trace.readout is None:
                continue
            across = (np.asarray(trace.x, dtype=float) - at.x()) / width
            up = (np.asarray(trace.y, dtype=float) - at.y()) / height
            distances = np.nan_to_num(np.hypot(across, up), nan=math.inf)
            if distances.size and distances.min() < best:
                best, found = float(distances.min()), (index, int(distances.argmin()))
        return found

    def _pointer_moved(self, scene: QPointF) -> None:
        caught = self.nearest(scene) if self.getPlotItem().vb.sceneBoundingRect().contains(scene) else None
        if caught is None:
            self._hide_crosshair()
            return
        self.mark(caught)
        self.readout_changed.emit(self._traces[caught[0]].readout(caught[1]))
        self.caught_changed.emit(caught)

    def mark(self, caught: tuple[int, int] | None) -> None:
        """Show the crosshair at a point of a trace, or none."""
        self._cross.setVisible(caught is not None)
        self._catch.setVisible(caught is not None)
        if caught is not None:
            trace = self._traces[caught[0]]
            x, y = trace.x[caught[1]], trace.y[caught[1]]
            self._cross.setPos(x)
            self._catch.setData([x], [y])

    def _hide_crosshair(self) -> None:
        self.mark(None)
        self.readout_changed.emit("")
        self.caught_changed.emit(None)

    def leaveEvent(self, event) -> None:
        """No crosshair without a pointer."""
        self._hide_crosshair()
        super().leaveEvent(event)

    def _clicked(self, event) -> None:
        if event.double():
            self.reset_zoom()

    # ---- files ---------------------------------------------------------------------------------------------------

    def paint_for_file(self, painter: QPainter, scale: float) -> None:
        """Paint everything but the crosshair for `scale` pixels per logical pixel."""
        self._hide_crosshair()
        self._draw(scale)
        # Otherwise pyqtgraph takes its markers from a bitmap.
        drawn = [item for item in self.scene().items() if hasattr(item, "setExportMode")]
        for item in drawn:
            item.setExportMode(True, {"antialias": True, "resolutionScale": 1.0})
        try:
            self.render(painter, QRectF(self.rect()), self.viewport().rect())
        finally:
            for item in drawn:
                item.setExportMode(False)
            self._draw()


def _fill(trace: Trace, curve: pg.PlotDataItem, bars: pg.ErrorBarItem, scale: float) -> None:
    x, y = np.asarray(trace.x, dtype=float), np.asarray(trace.y, dtype=float)
    marker = trace.symbol or None
    curve.setData(
        x,
        y,
        pen=pg.mkPen(trace.colour, width=2 * scale, style=trace.style),
        symbol=marker,
        symbolSize=GRID,
        symbolBrush=pg.mkBrush(tokens().surface if trace.hollow else trace.colour),
        symbolPen=pg.mkPen(trace.colour if trace.hollow else tokens().surface, width=scale),
        antialias=len(x) < _MANY,
    )
    if len(trace.spans) or len(trace.errors):
        errors = np.nan_to_num(np.asarray(trace.errors, dtype=float))
        low, high = np.asarray(trace.spans, dtype=float).T if len(trace.spans) else (y - errors, y + errors)
        bars.setData(x=x, y=y, bottom=y - low, top=high - y, pen=pg.mkPen(trace.colour, width=scale))
    else:
        bars.setData(x=None, y=None)
