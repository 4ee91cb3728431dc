"""Traces on themed axes, linear or logarithmic, with names beside the lines and controls above them."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QEvent, QPointF, QSize, Qt, Signal
from PySide6.QtGui import QAction, QColor, QFontMetricsF

from wina_app.plots.axes import LogAxis, log10, log_problem, on_scales, style_plot
from wina_app.plots.coincidence import CoincidingLines, Points, coinciding
from wina_app.plots.controls import PlotControls
from wina_app.plots.plot_items import Reference, Trace, TraceItems
from wina_app.plots.plot_labels import LineEnd, LineLabels
from wina_app.style.theme import GRID, HALF, font, restyle_when_shown, scaled, tokens

UNBOUNDED = 1e307
"""pyqtgraph's value for no limit."""
_SHORT = 500
"""Most points of a line that is compared with others."""


class TracePlot(pg.PlotWidget):
    """A plot of traces without a pointer; a subclass calls `_restyle` once it is made."""

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
        self._groups: tuple[CoincidingLines, ...] = ()
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
        self.controls = PlotControls(self)
        self._labels = LineLabels(plot, self._head())
        self._rings = pg.ScatterPlotItem(size=14, brush=None)
        self._rings.setZValue(10)
        plot.addItem(self._rings, ignoreBounds=True)
        reset = QAction("Reset zoom", self)
        reset.triggered.connect(lambda: self.reset_zoom())
        self.addAction(reset)
        plot.vb.sigRangeChanged.connect(self._follow_view)
        plot.vb.sigResized.connect(self._follow_view)
        restyle_when_shown(self, self._restyle)

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
        before, self.traces, self.references = self.traces, tuple(traces), tuple(references)
        self._place_traces()
        self._draw()
        if [(trace.name, trace.colour) for trace in before] != [(trace.name, trace.colour) for trace in self.traces]:
            self.controls.follow()

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

    def list_names(self, on: bool) -> None:
        self._labels.listed = on

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

    @property
    def series(self) -> tuple[tuple[str, QColor], ...]:
        """Name and colour of each series that can be switched off."""
        # Reversed twice: of traces with one name the first gives the colour, and their order stays.
        return tuple({trace.name: trace.colour for trace in reversed(self.traces) if trace.name}.items())[::-1]

    def hide_series(self, names: frozenset[str]) -> None:
        """Switch these series off and all others on."""
        if names != self.hidden:
            self.hidden = names
            self._place_traces()
            self._draw()
            self.getPlotItem().vb.updateAutoRange()
            self._choose_view()

    def is_log(self, side: str) -> bool:
        return self._log[side]

    def log_problem(self, side: str) -> str:
        """Return the fault of the shown values that forbids a logarithmic axis, or ""."""
        return log_problem(tuple(filter(self._shows, self.traces)), side)

    def set_log(self, side: str, on: bool) -> None:
        """Choose a logarithmic or a linear axis; an axis of words or whole numbers stays as it is."""
        if on != self._log[side] and side in self.log_axes:
            self._log[side] = on
            self._place_traces()
            self._draw()
            self.reset_zoom()  # the visible range is in the units of the other scale
            self.getPlotItem().vb.updateAutoRange()
            self._choose_view()

    def _choose_view(self) -> None:
        self.controls.follow()
        self.view_changed.emit()

    def view_state(self) -> dict[str, object]:
        return {"log": [side for side in self.log_axes if self._log[side]], "hidden": sorted(self.hidden)}

    def restore_view(self, state: Mapping[str, object]) -> None:
        """Restore choices that `view_state` returned; what cannot be read is left out."""
        log, hidden = (choice if isinstance(choice, list) else [] for choice in map(state.get, ("log", "hidden")))
        for side in self.log_axes:
            self.set_log(side, side in log)
        self.hide_series(frozenset(name for name in hidden if isinstance(name, str)))

    def _shows(self, trace: Trace) -> bool:
        return trace.name not in self.hidden

    def _place_traces(self) -> None:
        """Place the traces on the axes, which are logarithmic where that is chosen and possible."""
        log = (self._log["x"] and not self.log_problem("x"), self._log["y"] and not self.log_problem("y"))
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

    def _head(self) -> float:
        return float(self.controls.sizeHint().height() + HALF // 2)

    def _restyle(self) -> None:
        style_plot(self.getPlotItem())
        self.updateGeometry()
        self._rings.setPen(pg.mkPen(tokens().text, width=2))
        self._labels.set_head(self._head())
        self._draw()

    def event(self, event: QEvent) -> bool:
        """Draw again on a screen of another density."""
        if event.type() == QEvent.Type.DevicePixelRatioChange:
            self._draw()
        return bool(super().event(event))

    def _follow_view(self) -> None:
        """Follow the zoom and the size with ticks, names, controls, and lines that came to lie upon each other."""
        if self._ticks:
            self._fit_ticks()
        if self._coinciding() != self._groups:
            self._draw()
        else:
            self._labels.arrange()
        self.controls.end_at(round(self.getPlotItem().vb.sceneBoundingRect().right()))

    @property
    def pixel(self) -> tuple[float, float]:
        """Width and height of a pixel on the axes; pyqtgraph's own is that before the last change of range."""
        box = self.getPlotItem().vb
        (left, right), (bottom, top) = box.viewRange()
        return (right - left) / max(box.width(), 1.0), (top - bottom) / max(box.height(), 1.0)

    def _coinciding(self) -> tuple[CoincidingLines, ...]:
        return coinciding([self._comparable(trace) for trace in self._placed], self.pixel)

    def _comparable(self, trace: Trace) -> Points | None:
        """Return the points of a shown and named line without gaps; None for all else."""
        drawn = trace.named and trace.name and not trace.width and trace.style != Qt.PenStyle.NoPen
        if not drawn or not self._shows(trace) or not 0 < len(trace.x) <= _SHORT:
            return None
        x, y = np.asarray(trace.x, dtype=float), np.asarray(trace.y, dtype=float)
        return (x, y) if np.isfinite(x).all() and np.isfinite(y).all() and (np.diff(x) >= 0).all() else None

    def _draw(self) -> None:
        scale = self.devicePixelRatioF()  # Qt measures the pens of plots in device pixels
        plot = self.getPlotItem()
        while len(self._items) > len(self._placed):
            self._items.pop().remove()
        while len(self._items) < len(self._placed):
            self._items.append(TraceItems(plot))
        selected = self.highlighted  # keys of other plots must not fade all lines of this one
        self._groups = self._coinciding()
        for index, (trace, items) in enumerate(zip(self._placed, self._items, strict=True)):
            items.show(trace, scale, selected, self._upon(index), hidden=not self._shows(trace))
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
        named = self._named()
        row_of_trace = {index: row for row, index in enumerate(named)}
        groups = [
            CoincidingLines(tuple(row_of_trace[member] for member in group.members), group.equal)
            for group in self._groups
        ]
        ends = [self._line_end(self._placed[index]) for index in named]
        self._labels.show([*ends, *map(_reference_end, references)], groups)

    def _upon(self, index: int) -> tuple[int, int]:
        """Return a line's place above the lowest of its group, and the size of the group."""
        members = next((group.members for group in self._groups if index in group.members), (index,))
        return members.index(index), len(members)

    def _placed_references(self) -> list[Reference]:
        if not self._drawn_log[1]:
            return list(self.references)
        return [replace(reference, y=math.log10(reference.y)) for reference in self.references if reference.y > 0.0]

    def _named(self) -> list[int]:
        return [index for index, trace in enumerate(self.traces) if trace.named and self._shows(trace)]

    def named_at(self, scene: QPointF) -> int | None:
        """Return the index of the line whose name is at a position in the scene."""
        row, named = self._labels.at(scene), self._named()
        return named[row] if row is not None and row < len(named) else None

    def _line_end(self, trace: Trace) -> LineEnd:
        prominent = any(key in self._selected for key in trace.keys)
        symbol, style = ("s", Qt.PenStyle.NoPen) if trace.width else (trace.symbol, trace.style)
        return LineEnd(trace.name, trace.colour, tuple(trace.x), tuple(trace.y), symbol, trace.hollow, style, prominent)


def _reference_end(reference: Reference) -> LineEnd:
    style = Qt.PenStyle.DashLine
    return LineEnd(reference.name, reference.colour, (math.inf,), (reference.y,), style=style)


def _show_values(axis: pg.AxisItem, on: bool) -> None:
    if axis.style["showValues"] != on:  # setting it draws the axis anew, which takes longer than the lines
        axis.setStyle(showValues=on)
