"""The plot of all pages: themed axes, names beside the lines, a crosshair with a read-out."""

import math
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QEvent, QPointF, QSize, Qt, Signal
from PySide6.QtGui import QAction, QFontMetricsF

from wina_app.plots.plot_items import Reference, Trace, TraceItems
from wina_app.plots.plot_labels import LineEnd, LineLabels
from wina_app.plots.plot_style import style_plot
from wina_app.style.theme import GRID, font, notifier, scaled, tokens
from wina_app.style.translation import tr
from wina_core.figures.figure import Figure, LinePanel

UNBOUNDED = 1e307
"""pyqtgraph's value for no limit."""
_REACH = 40.0
"""Pixels within which the crosshair catches a point."""
_NEAR = 10.0
"""Pixels within which a click means the point, not its line."""
_ON_LINE = 6.0
"""Pixels within which a click means the whole line."""


class DataPlot(pg.PlotWidget):
    """A plot of traces. Double-click resets the zoom; the pointer catches the nearest point and emits its read-out."""

    readout_changed = Signal(str)
    """Read-out of the caught point; empty when none is near."""
    caught_changed = Signal(object)
    """(trace, point) under the pointer, None when none is near; for the crosshairs of plots beside this one."""
    keys_chosen = Signal(object, bool)
    """Keys of the clicked point, bar or line, and True with Ctrl or Shift held, to add them to others."""

    pictured: ClassVar[bool] = False
    """True to paint lines from cached pictures, which is faster where they change one by one."""

    def __init__(self, name: str) -> None:
        super().__init__(enableMenu=False)  # making pyqtgraph's own, which is not used, takes a third of the plot
        self.setAccessibleName(name)
        self._titles = ("", "")
        self._traces: tuple[Trace, ...] = ()
        self._references: tuple[Reference, ...] = ()
        self._items: list[TraceItems] = []
        self._selected: frozenset[str] = frozenset()
        self._ticks: tuple[tuple[float, str], ...] = ()
        self._dashes: list[pg.InfiniteLine] = []
        plot = self.getPlotItem()
        plot.hideButtons()
        plot.vb.setDefaultPadding(0.06)
        plot.getAxis("left").setWidth(8 * GRID)  # left to itself it grows after its title was placed
        for side in ("left", "bottom"):
            plot.getAxis(side).enableAutoSIPrefix(False)
        self._labels = LineLabels(plot)
        self._cross = pg.InfiniteLine(angle=90)
        self._catch = pg.ScatterPlotItem(size=14, brush=None)
        self._rings = pg.ScatterPlotItem(size=14, brush=None)
        self._rings.setZValue(10)
        plot.addItem(self._rings, ignoreBounds=True)
        for overlay in (self._cross, self._catch):
            overlay.setZValue(20)
            plot.addItem(overlay, ignoreBounds=True)
            overlay.hide()
        self.scene().sigMouseMoved.connect(self._pointer_moved)
        self.scene().sigMouseClicked.connect(self._clicked)
        reset = QAction(tr("Reset zoom"), self)
        reset.triggered.connect(self.reset_zoom)
        self.addAction(reset)
        plot.vb.sigXRangeChanged.connect(lambda: self._fit_ticks() if self._ticks else None)
        plot.vb.sigResized.connect(lambda: self._fit_ticks() if self._ticks else None)
        notifier().changed.connect(self._restyle)
        self._restyle()

    # ---- what is shown -------------------------------------------------------------------------------------------

    def set_axes(self, x: str, y: str, least: float = 0.0) -> None:
        """Set the titles with their units, for example "target sparsity (%)", and the smallest range of y."""
        self.getPlotItem().vb.setLimits(minYRange=least)
        self.getPlotItem().setLabel("bottom", x)
        self.getPlotItem().setLabel("left", y)
        self._titles = x, y
        self.updateGeometry()
        style_plot(self.getPlotItem())

    def show_traces(self, traces: Sequence[Trace], references: Sequence[Reference] = ()) -> None:
        """Replace the lines and keep the user's zoom."""
        self._traces, self._references = tuple(traces), tuple(references)
        self._draw()

    def set_ticks(self, ticks: Sequence[tuple[float, str]]) -> None:
        """Show words below the x axis in place of numbers; an empty sequence for numbers."""
        self._ticks = tuple(ticks)
        self._fit_ticks()

    def _fit_ticks(self) -> None:
        """Shorten the words to the room between them."""
        axis, box = self.getPlotItem().getAxis("bottom"), self.getPlotItem().vb
        if not self._ticks:
            axis.setTicks(None)
            return
        places = [place for place, _ in self._ticks]
        apart = min((b - a for a, b in pairwise(places)), default=1.0)
        room = apart / max(box.viewPixelSize()[0], 1e-12) - GRID
        metrics, middle = QFontMetricsF(font("small", tabular=True)), Qt.TextElideMode.ElideMiddle
        axis.setTicks([[(place, metrics.elidedText(text, middle, room)) for place, text in self._ticks]])

    def list_names(self, on: bool) -> None:
        """Show the names as a list, or each beside the end of its line."""
        self._labels.listed = on

    def highlight(self, keys: Collection[str]) -> None:
        """Mark the points with these keys and fade the lines without any; no keys to show all alike."""
        if frozenset(keys) != self._selected:
            self._selected = frozenset(keys)
            self._draw()

    @property
    def highlighted(self) -> frozenset[str]:
        """The marked keys that are in this plot."""
        return self._selected & {key for trace in self._traces for key in trace.keys}

    @property
    def traces(self) -> tuple[Trace, ...]:
        """The shown lines."""
        return self._traces

    @property
    def references(self) -> tuple[Reference, ...]:
        """The shown horizontal lines."""
        return self._references

    def reset_zoom(self) -> None:
        """Show everything again."""
        self.getPlotItem().enableAutoRange()

    def minimumSizeHint(self) -> QSize:
        """Return room for the titles of the axes."""
        across, up = map(QFontMetricsF(font("small")).horizontalAdvance, self._titles)
        return QSize(
            max(scaled(30 * GRID), math.ceil(across) + 12 * GRID),
            max(scaled(20 * GRID), math.ceil(up) + scaled(6 * GRID)),
        )

    def _restyle(self) -> None:
        style_plot(self.getPlotItem())
        self.updateGeometry()
        self._cross.setPen(pg.mkPen(tokens().muted, style=Qt.PenStyle.DotLine))
        self._catch.setPen(pg.mkPen(tokens().text, width=2))
        self._rings.setPen(pg.mkPen(tokens().text, width=2))
        self._draw()

    def event(self, event: QEvent) -> bool:
        """Draw again on a screen of another density."""
        if event.type() == QEvent.Type.DevicePixelRatioChange:
            self._draw()
        return bool(super().event(event))

    def _draw(self) -> None:
        scale = self.devicePixelRatioF()  # Qt measures the pens of plots in device pixels
        plot = self.getPlotItem()
        while len(self._items) > len(self._traces):
            self._items.pop().remove()
        while len(self._items) < len(self._traces):
            self._items.append(TraceItems(plot, self.pictured))
        selected = self.highlighted  # a selection of what is not shown here lets nothing step back
        for trace, items in zip(self._traces, self._items, strict=True):
            items.show(trace, scale, selected)
        rings = [
            (x, y)
            for trace in self._traces
            if not trace.width
            for x, y, key in zip(trace.x, trace.y, trace.keys, strict=False)
            if key in selected
        ]
        if rings or len(self._rings.points()):
            self._rings.setData([x for x, _ in rings], [y for _, y in rings])
        for dash in self._dashes:
            plot.removeItem(dash)
        self._dashes = [
            pg.InfiniteLine(one.y, angle=0, pen=pg.mkPen(one.colour, width=1.5 * scale, style=Qt.PenStyle.DashLine))
            for one in self._references
        ]
        for dash in self._dashes:
            plot.addItem(dash)
        self._hide_crosshair()
        _show_values(plot.getAxis("left"), bool(self._traces or self._references))
        _show_values(plot.getAxis("bottom"), bool(self._traces))  # a reference has no place along x
        self._labels.show([*map(self._line_end, self._named()), *map(_reference_end, self._references)])

    def _named(self) -> list[Trace]:
        return [trace for trace in self._traces if trace.named]

    def _line_end(self, trace: Trace) -> LineEnd:
        prominent = any(key in self._selected for key in trace.keys)
        symbol, style = ("s", Qt.PenStyle.NoPen) if trace.width else (trace.symbol, trace.style)
        return LineEnd(trace.name, trace.colour, tuple(trace.x), tuple(trace.y), symbol, trace.hollow, style, prominent)

    def close(self) -> bool:
        """Stop following the theme: pyqtgraph takes a closed plot apart."""
        notifier().changed.disconnect(self._restyle)
        return bool(super().close())

    # ---- pointer -------------------------------------------------------------------------------------------------

    def nearest(self, scene: QPointF) -> tuple[int, int] | None:
        """Return the (trace, point) nearest to a position in the scene, None when none is within reach."""
        box = self.getPlotItem().vb
        at, (width, height) = box.mapSceneToView(scene), box.viewPixelSize()
        best, found = _REACH, None
        for index, trace in enumerate(self._traces):
            if trace.readout is None:
                continue
            dx, dy = np.asarray(trace.x, dtype=float) - at.x(), np.asarray(trace.y, dtype=float) - at.y()
            if trace.width:  # a bar is met anywhere between 0 and its end
                dx = np.maximum(np.abs(dx) - trace.width / 2, 0.0)
                dy = np.where((dy > 0) == (at.y() > 0), 0.0, np.minimum(np.abs(dy), abs(at.y())))
            across, up = dx / width, dy / height
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
        readout = self._traces[caught[0]].readout
        self.readout_changed.emit(readout(caught[1]) if readout else "")
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

    def leaveEvent(self, event: QEvent) -> None:
        """Hide the crosshair."""
        self._hide_crosshair()
        super().leaveEvent(event)

    def _clicked(self, event: Any) -> None:
        if event.double():
            self.reset_zoom()
        elif event.button() == Qt.MouseButton.LeftButton:
            keys = self.keys_at(event.scenePos())
            more = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier
            if keys:
                self.keys_chosen.emit(keys, bool(event.modifiers() & more))

    def keys_at(self, scene: QPointF) -> tuple[str, ...]:
        """Return the key of the point or bar at a position in the scene, else all keys of the line or name."""
        caught, name = self.nearest(scene), self._labels.at(scene)
        if name is not None:
            named = self._named()
            return tuple(named[name].keys) if name < len(named) else ()
        if caught is None or not self.getPlotItem().vb.sceneBoundingRect().contains(scene):
            return self._line_at(scene)
        trace = self._traces[caught[0]]
        at = self.getPlotItem().vb.mapViewToScene(QPointF(trace.x[caught[1]], trace.y[caught[1]]))
        on_point = trace.width or math.hypot(at.x() - scene.x(), at.y() - scene.y()) <= _NEAR
        line = () if on_point else self._line_at(scene)
        return line or tuple(trace.keys[caught[1] : caught[1] + 1])

    def _line_at(self, scene: QPointF) -> tuple[str, ...]:
        box = self.getPlotItem().vb
        at, (width, height) = box.mapSceneToView(scene), box.viewPixelSize()
        for trace in self._traces:
            if len(trace.keys) > 1 and not trace.width and trace.style != Qt.PenStyle.NoPen:
                x = (np.asarray(trace.x, dtype=float) - at.x()) / width
                y = (np.asarray(trace.y, dtype=float) - at.y()) / height
                if _distance_of_origin(x, y) <= _ON_LINE:
                    return tuple(trace.keys)
        return ()

    # ---- files ---------------------------------------------------------------------------------------------------

    def figure(self) -> Figure:
        """Return what is shown, within the visible ranges."""
        plot = self.getPlotItem()
        x_range, y_range = plot.vb.viewRange()
        return (
            LinePanel(
                title=self.accessibleName(),
                x_title=plot.getAxis("bottom").labelText,
                y_title=plot.getAxis("left").labelText,
                x_range=(float(x_range[0]), float(x_range[1])),
                y_range=(float(y_range[0]), float(y_range[1])),
                series=tuple(trace.series() for trace in self._traces),
                references=tuple((one.name, one.colour.name(), one.y) for one in self._references),
                ticks=self._ticks,
                legend=self._labels.listed,
            ),
        )


def _reference_end(reference: Reference) -> LineEnd:
    style = Qt.PenStyle.DashLine
    return LineEnd(reference.name, reference.colour, (math.inf,), (reference.y,), style=style)


def _distance_of_origin(x: np.ndarray, y: np.ndarray) -> float:
    """Return the distance from (0, 0) to a line through points, without the pieces with an unknown end."""
    dx, dy = np.diff(x), np.diff(y)
    squared = np.maximum(dx**2 + dy**2, 1e-12)
    along = np.clip(-(x[:-1] * dx + y[:-1] * dy) / squared, 0.0, 1.0)
    distances = np.nan_to_num(np.hypot(x[:-1] + along * dx, y[:-1] + along * dy), nan=math.inf)
    return float(distances.min(initial=math.inf))


def _show_values(axis: pg.AxisItem, on: bool) -> None:
    if axis.style["showValues"] != on:  # setting it draws the axis anew, which takes longer than the lines
        axis.setStyle(showValues=on)
