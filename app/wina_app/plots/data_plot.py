"""The plot of all pages: traces with a legend, a crosshair with a read-out, clicks, and the figure for files."""

import html
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pyqtgraph as pg
from PySide6.QtCore import QEvent, QPointF, QSize, Qt, Signal
from PySide6.QtGui import QAction, QFontMetricsF

from wina_app.plots.axes import LogAxis, log10, may_be_log, on_scales, style_plot
from wina_app.plots.plot_items import Reference, Trace, TraceItems, line_at, nearest_point
from wina_app.style.theme import GRID, HALF, font, restyle_when_shown, scaled, tokens
from wina_core.report.drawing import Figure, LinePanel

UNBOUNDED = 1e307
"""pyqtgraph's value for no limit."""
_NEAR = 10.0
"""Pixels within which a click means the point, not its line."""
_WIDEST = 0.4
"""Largest part of the plot's width for the legend."""
_SAMPLE = 20
"""Width and height of pyqtgraph's sample before a name."""


class DataPlot(pg.PlotWidget):
    """A plot of traces. Double-click resets the zoom; the pointer catches the nearest point and emits its read-out."""

    readout_changed = Signal(str)
    """Read-out of the caught point; empty when none is near."""
    caught_changed = Signal(object)
    """(trace, point) under the pointer, None when none is near; for the crosshairs of plots beside this one."""
    keys_chosen = Signal(object, bool)
    """Keys of the clicked point, bar or line, and True with Ctrl or Shift held, to add them to others."""

    view_changed = Signal()
    """The user chose another scale or other series."""

    def __init__(self, name: str, *, log_axes: str = "y") -> None:
        """`log_axes` are the axes, "x" and "y", that the user can make logarithmic."""
        # Making pyqtgraph's own menu, which is not used, takes a third of the plot.
        super().__init__(enableMenu=False, axisItems={side: LogAxis(side, log=False) for side in ("left", "bottom")})
        self.setAccessibleName(name)
        self.log_axes = log_axes
        self._titles = ("", "")
        self.traces: tuple[Trace, ...] = ()
        """The lines, also those that are switched off."""
        self._placed: tuple[Trace, ...] = ()
        self.references: tuple[Reference, ...] = ()
        """The shown horizontal lines."""
        self._items: list[TraceItems] = []
        self.hidden: frozenset[str] = frozenset()
        """Names of the series that are off."""
        self._log: dict[str, bool] = {"x": False, "y": False}
        self._drawn_log = (False, False)
        self._y_limits, self._y_least = (-UNBOUNDED, UNBOUNDED), 0.0
        self._selected: frozenset[str] = frozenset()
        self._ticks: tuple[tuple[float, str], ...] = ()
        self._dashes: list[pg.InfiniteLine] = []
        plot = self.getPlotItem()
        plot.hideButtons()
        plot.vb.setDefaultPadding(0.06)
        plot.getAxis("left").setWidth(8 * GRID)  # left to itself it grows after its title was placed
        for side in ("left", "bottom"):
            plot.getAxis(side).enableAutoSIPrefix(False)
        self.legend = pg.LegendItem(frame=False)
        self.legend.setParentItem(plot)
        self.legend.anchor((1, 0), (1, 0), offset=(0, HALF))
        self.legend.sigSampleClicked.connect(self._switch)
        self._legend_look: tuple[object, ...] = ()
        self._rings = pg.ScatterPlotItem(size=14, brush=None)
        self._rings.setZValue(10)
        plot.addItem(self._rings, ignoreBounds=True)
        reset = QAction("Reset zoom", self)
        reset.triggered.connect(lambda: self.reset_zoom())
        self.addAction(reset)
        self._log_actions = {side: QAction(f"Logarithmic {side} axis", self, checkable=True) for side in log_axes}
        for side, action in self._log_actions.items():
            action.triggered.connect(lambda on, side=side: self.set_log(side, on))
            self.addAction(action)
        plot.vb.sigRangeChanged.connect(self._follow_range)
        plot.vb.sigResized.connect(self._follow_size)
        self._cross = pg.InfiniteLine(angle=90)
        self._catch = pg.ScatterPlotItem(size=14, brush=None)
        # The crosshair lies above everything, and the range does not follow it.
        for overlay in (self._cross, self._catch):
            overlay.setZValue(20)
            self.getPlotItem().addItem(overlay, ignoreBounds=True)
            overlay.hide()
        self.scene().sigMouseMoved.connect(self._pointer_moved)
        self.scene().sigMouseClicked.connect(self._clicked)
        restyle_when_shown(self, self._restyle)
        self._restyle()

    # ---- what is shown -------------------------------------------------------------------------------------------

    def set_axes(self, x: str, y: str, least: float = 0.0) -> None:
        """Set the titles with their units, for example "target sparsity (%)", and the smallest range of y."""
        self._y_least = least
        self._limit()
        self.getPlotItem().setLabel("bottom", x)
        self.getPlotItem().setLabel("left", y)
        self._titles = x, y
        self.updateGeometry()
        style_plot(self.getPlotItem())

    def set_y_limits(self, low: float = -UNBOUNDED, high: float = UNBOUNDED) -> None:
        """Set the values that a linear y axis shows at most."""
        self._y_limits = low, high
        self._limit()

    def show_range(
        self, *, x: tuple[float, float] | None = None, y: tuple[float, float] | None = None, padding: float = 0.0
    ) -> None:
        """Show a range of values, and a part of it beyond both ends; one that the axis cannot show stays as it is."""
        for values, log, show in zip(
            (x, y), self._drawn_log, (self.getPlotItem().setXRange, self.getPlotItem().setYRange), strict=True
        ):
            low, high = (math.nan, math.nan) if values is None else log10(values) if log else values
            if not math.isnan(low + high):
                show(low, high, padding=padding)

    def show_traces(self, traces: Sequence[Trace], references: Sequence[Reference] = ()) -> None:
        """Replace the lines and keep the user's zoom."""
        self.traces, self.references = tuple(traces), tuple(references)
        self._place_traces()
        self._draw()

    def set_ticks(self, ticks: Sequence[tuple[float, str]]) -> None:
        """Show words below the x axis in place of numbers; an empty sequence for numbers."""
        self._ticks = tuple(ticks)
        self._fit_ticks()

    def _fit_ticks(self) -> None:
        """Shorten the words to the room between them."""
        axis = self.getPlotItem().getAxis("bottom")
        if not self._ticks:
            axis.setTicks(None)
            return
        positions = [position for position, _ in self._ticks]
        apart = min((b - a for a, b in pairwise(positions)), default=1.0)
        room = apart / max(self.pixel[0], 1e-12) - GRID
        metrics, middle = QFontMetricsF(font("small", tabular=True)), Qt.TextElideMode.ElideMiddle
        axis.setTicks([[(position, metrics.elidedText(text, middle, room)) for position, text in self._ticks]])

    def highlight(self, keys: Collection[str]) -> None:
        """Mark the points with these keys and fade the lines without any; no keys to show all alike."""
        if frozenset(keys) != self._selected:
            self._selected = frozenset(keys)
            self._draw()

    @property
    def highlighted(self) -> frozenset[str]:
        """The marked keys that are in this plot."""
        return self._selected & {key for trace in self.traces for key in trace.keys}

    # ---- choices of the user -------------------------------------------------------------------------------------

    def hide_series(self, names: frozenset[str]) -> None:
        """Switch these series off and all others on."""
        if names != self.hidden:
            self.hidden = names
            self._place_traces()
            self._draw()
            self.getPlotItem().vb.updateAutoRange()
            self.view_changed.emit()

    def _switch(self, sample: pg.PlotDataItem) -> None:
        if sample.name():  # else the row that counts those without room
            self.hide_series(self.hidden ^ {sample.name()})

    def is_log(self, side: str) -> bool:
        return self._log[side]

    def set_log(self, side: str, on: bool) -> None:
        """Choose a logarithmic or a linear axis; an axis of words or whole numbers stays as it is."""
        if on != self._log[side] and side in self.log_axes:
            self._log[side] = on
            self._log_actions[side].setChecked(on)
            self._place_traces()
            self._draw()
            self.reset_zoom()  # the visible range is in the units of the other scale
            self.getPlotItem().vb.updateAutoRange()
            self.view_changed.emit()

    def view_state(self) -> dict[str, object]:
        return {"log": [side for side in self.log_axes if self._log[side]], "hidden": sorted(self.hidden)}

    def restore_view(self, state: Mapping[str, object]) -> None:
        """Restore choices that `view_state` returned; what cannot be read is left out."""
        log, hidden = (choice if isinstance(choice, list) else [] for choice in map(state.get, ("log", "hidden")))
        for side in self.log_axes:
            self.set_log(side, side in log)
        self.hide_series(frozenset(name for name in hidden if isinstance(name, str)))

    def _shows(self, drawn: Trace | Reference) -> bool:
        return drawn.name not in self.hidden

    def _place_traces(self) -> None:
        """Place the traces on the axes, which are logarithmic where that is chosen and possible."""
        shown = tuple(filter(self._shows, self.traces))
        log = (self._log["x"] and may_be_log(shown, "x"), self._log["y"] and may_be_log(shown, "y"))
        if log != self._drawn_log:
            self._drawn_log = log
            for side, on in zip(("bottom", "left"), log, strict=True):
                axis = self.getPlotItem().getAxis(side)
                if isinstance(axis, LogAxis):
                    axis.set_log(on)
            self._limit()
        self._placed = tuple(on_scales(trace, log_x=log[0], log_y=log[1]) for trace in self.traces)

    def _limit(self) -> None:
        free = self._drawn_log[1]
        low, high, least = (-UNBOUNDED, UNBOUNDED, 0.0) if free else (*self._y_limits, self._y_least)
        self.getPlotItem().vb.setLimits(yMin=low, yMax=high, minYRange=least)

    # ---- drawing -------------------------------------------------------------------------------------------------

    def reset_zoom(self) -> None:
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
        self._rings.setPen(pg.mkPen(tokens().text, width=2))
        self._cross.setPen(pg.mkPen(tokens().muted, style=Qt.PenStyle.DotLine))
        self._catch.setPen(pg.mkPen(tokens().text, width=2))
        self._draw()

    def event(self, event: QEvent) -> bool:
        """Draw again on a screen of another density."""
        if event.type() == QEvent.Type.DevicePixelRatioChange:
            self._draw()
        return bool(super().event(event))

    def _follow_range(self) -> None:
        if self._ticks:
            self._fit_ticks()

    def _follow_size(self) -> None:
        self._follow_range()
        self._show_legend()

    @property
    def pixel(self) -> tuple[float, float]:
        """Width and height of a pixel on the axes; pyqtgraph's own is that before the last change of range."""
        box = self.getPlotItem().vb
        (left, right), (bottom, top) = box.viewRange()
        return (right - left) / max(box.width(), 1.0), (top - bottom) / max(box.height(), 1.0)

    def _draw(self) -> None:
        scale = self.devicePixelRatioF()  # Qt measures the pens of plots in device pixels
        plot = self.getPlotItem()
        while len(self._items) > len(self._placed):
            self._items.pop().remove()
        while len(self._items) < len(self._placed):
            self._items.append(TraceItems(plot))
        selected = self.highlighted  # keys of other plots must not fade all lines of this one
        for trace, items in zip(self._placed, self._items, strict=True):
            items.show(trace, scale, selected, hidden=not self._shows(trace))
        rings = [
            (x, y)
            for trace in filter(self._shows, self._placed)
            if not trace.width
            for x, y, key in zip(trace.x, trace.y, trace.keys, strict=False)
            if key in selected
        ]
        if rings or len(self._rings.points()):
            self._rings.setData([x for x, _ in rings], [y for _, y in rings])
        for dash in self._dashes:
            plot.removeItem(dash)
        references = self._placed_references()
        self._dashes = [
            pg.InfiniteLine(
                reference.y, angle=0, pen=pg.mkPen(reference.colour, width=1.5 * scale, style=Qt.PenStyle.DashLine)
            )
            for reference in references
        ]
        for dash in self._dashes:
            plot.addItem(dash)
        _show_values(plot.getAxis("left"), bool(self.traces or self.references))
        _show_values(plot.getAxis("bottom"), bool(self.traces))  # a reference has no place along x
        self._show_legend()
        self._hide_crosshair()

    def _show_legend(self) -> None:
        """List the series at the right, as many as there is room for; a click on a sample switches its series."""
        plot, small = self.getPlotItem(), font("small")
        dashed = [
            Trace(reference.name, reference.colour, (0,), (0,), None, style=Qt.PenStyle.DashLine)
            for reference in self.references
        ]
        named = (trace for trace in (*self.traces, *dashed) if trace.named and trace.name)
        # Of series with one name the first gives the look, and their order stays.
        rows = list({trace.name: trace for trace in reversed(list(named))}.values())[::-1]
        size = plot.size()
        kinds = [(row.name, row.colour.name(), row.symbol, row.style, row.hollow, row.width) for row in rows]
        look = (tokens(), size, kinds)
        if look != self._legend_look:
            self._legend_look = look
            self.legend.clear()
            metrics, room = QFontMetricsF(small), max(int(size.height()) // _SAMPLE, 1)
            fitting = rows if len(rows) <= room else rows[: room - 1]
            widest = _WIDEST * size.width() - _SAMPLE
            names = [metrics.elidedText(row.name, Qt.TextElideMode.ElideMiddle, widest) for row in fitting]
            self.legend.setLabelTextSize(f"{small.pixelSize()}px")
            self.legend.setLabelTextColor(tokens().text)
            for row, name in zip(fitting, names, strict=True):
                bar = replace(row, symbol="s", style=Qt.PenStyle.NoPen) if row.width else row
                sample = pg.PlotDataItem([0], [0], name=row.name, **replace(bar, size=GRID).pens(1.0))
                self.legend.addItem(sample, html.escape(name))
            if len(fitting) < len(rows):
                self.legend.addItem(pg.PlotDataItem([0], [0], pen=None), f"and {len(rows) - len(fitting)} more")
            width = max((metrics.horizontalAdvance(name) for name in names), default=-_SAMPLE) + _SAMPLE + 4 * GRID
            plot.layout.setContentsMargins(GRID, HALF, width if names else 2 * GRID, HALF)
        for sample, _ in self.legend.items:
            sample.item.setVisible(sample.item.name() not in self.hidden)
            sample.update()

    def _placed_references(self) -> list[Reference]:
        shown = list(filter(self._shows, self.references))
        if not self._drawn_log[1]:
            return shown
        return [replace(reference, y=math.log10(reference.y)) for reference in shown if reference.y > 0.0]

    # ---- pointer -------------------------------------------------------------------------------------------------

    def nearest(self, scene: QPointF) -> tuple[int, int] | None:
        """Return the (trace, point) nearest to a position in the scene, None when none is within reach."""
        # Hidden traces stay in the list, whose indices are those of `traces`.
        catchable = [trace if self._shows(trace) else replace(trace, readout=None) for trace in self._placed]
        return nearest_point(catchable, self.getPlotItem().vb.mapSceneToView(scene), self.pixel)

    def place_of(self, trace: int, point: int) -> QPointF:
        placed = self._placed[trace]
        return QPointF(self.getPlotItem().vb.mapViewToScene(QPointF(placed.x[point], placed.y[point])))

    def value_at(self, scene: QPointF) -> tuple[float, float]:
        """Return the values (x, y) at a position in the scene."""
        at = self.getPlotItem().vb.mapSceneToView(scene)
        x, y = (10.0**value if log else value for value, log in zip((at.x(), at.y()), self._drawn_log, strict=True))
        return float(x), float(y)

    def _pointer_moved(self, scene: QPointF) -> None:
        caught = self.nearest(scene) if self.getPlotItem().vb.sceneBoundingRect().contains(scene) else None
        if caught is None:
            self._hide_crosshair()
            return
        self.mark(caught)
        readout = self.traces[caught[0]].readout
        self.readout_changed.emit(readout(caught[1]) if readout else "")
        self.caught_changed.emit(caught)

    def mark(self, caught: tuple[int, int] | None) -> None:
        """Show the crosshair at a point of a trace, or none."""
        self._cross.setVisible(caught is not None)
        self._catch.setVisible(caught is not None)
        if caught is not None:
            trace = self._placed[caught[0]]
            x, y = trace.x[caught[1]], trace.y[caught[1]]
            self._cross.setPos(x)
            self._catch.setData([x], [y])

    def _hide_crosshair(self) -> None:
        self.mark(None)
        self.readout_changed.emit("")
        self.caught_changed.emit(None)

    def leaveEvent(self, event: QEvent) -> None:
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
        """Return the key of the point or bar at a position in the scene, else all keys of the line."""
        if not self.getPlotItem().vb.sceneBoundingRect().contains(scene):
            return ()
        if (caught := self.nearest(scene)) is None:
            return self._line_at(scene)
        trace, at = self.traces[caught[0]], self.place_of(*caught)
        on_point = trace.width or math.hypot(at.x() - scene.x(), at.y() - scene.y()) <= _NEAR
        line = () if on_point else self._line_at(scene)
        return line or tuple(trace.keys[caught[1] : caught[1] + 1])

    def _line_at(self, scene: QPointF) -> tuple[str, ...]:
        visible = list(filter(self._shows, self._placed))
        index = line_at(visible, self.getPlotItem().vb.mapSceneToView(scene), self.pixel)
        return () if index is None else tuple(visible[index].keys)

    # ---- files ---------------------------------------------------------------------------------------------------

    def figure(self) -> Figure:
        """Return what is shown, within the visible ranges."""
        plot = self.getPlotItem()
        ranges = zip(plot.vb.viewRange(), self._drawn_log, strict=True)
        x_range, y_range = (
            (10.0**low, 10.0**high) if log else (float(low), float(high)) for (low, high), log in ranges
        )
        return (
            LinePanel(
                title=self.accessibleName(),
                x_title=plot.getAxis("bottom").labelText,
                y_title=plot.getAxis("left").labelText,
                x_range=x_range,
                y_range=y_range,
                series=tuple(trace.series() for trace in self.traces if self._shows(trace)),
                references=tuple(
                    (reference.name, reference.colour.name(), reference.y)
                    for reference in self.references
                    if self._shows(reference)
                ),
                ticks=self._ticks,
                log_x=self._drawn_log[0],
                log_y=self._drawn_log[1],
            ),
        )


def _show_values(axis: pg.AxisItem, on: bool) -> None:
    if axis.style["showValues"] != on:  # setting it draws the axis anew, which takes longer than the lines
        axis.setStyle(showValues=on)
