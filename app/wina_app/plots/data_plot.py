"""The plot of all pages: traces, a crosshair with a read-out, clicks, and the figure for files."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QEvent, QPointF, Qt, Signal

from wina_app.plots.plot_items import Trace
from wina_app.plots.trace_plot import UNBOUNDED, TracePlot
from wina_app.style.theme import tokens
from wina_core.report.drawing import Figure, LinePanel

__all__ = ["UNBOUNDED", "DataPlot"]
_NEAR = 10.0
"""Pixels within which a click means the point, not its line."""


class DataPlot(TracePlot):
    """A plot of traces. Double-click resets the zoom; the pointer catches the nearest point and emits its read-out."""

    readout_changed = Signal(str)
    """Read-out of the caught point; empty when none is near."""
    caught_changed = Signal(object)
    """(trace, point) under the pointer, None when none is near; for the crosshairs of plots beside this one."""
    keys_chosen = Signal(object, bool)
    """Keys of the clicked point, bar or line, and True with Ctrl or Shift held, to add them to others."""

    def __init__(self, name: str, *, log_axes: str = "y") -> None:
        """`log_axes` are the axes, "x" and "y", that the user can make logarithmic."""
        super().__init__(name, log_axes=log_axes)
        self._cross = pg.InfiniteLine(angle=90)
        self._catch = pg.ScatterPlotItem(size=14, brush=None)
        # The crosshair lies above everything, and the range does not follow it.
        for overlay in (self._cross, self._catch):
            overlay.setZValue(20)
            self.getPlotItem().addItem(overlay, ignoreBounds=True)
            overlay.hide()
        self.scene().sigMouseMoved.connect(self._pointer_moved)
        self.scene().sigMouseClicked.connect(self._clicked)
        self._restyle()

    def _restyle(self) -> None:
        super()._restyle()
        self._cross.setPen(pg.mkPen(tokens().muted, style=Qt.PenStyle.DotLine))
        self._catch.setPen(pg.mkPen(tokens().text, width=2))

    def _draw(self) -> None:
        super()._draw()
        self._hide_crosshair()

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
        elif event.button() == Qt.MouseButton.LeftButton and not event.isAccepted():  # the legend takes its own
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
