"""Plot of a heatmap's table over depth, a line per projection."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from PySide6.QtCore import QPointF, Qt, Signal
from PySide6.QtGui import QMouseEvent, QPixmapCache
from PySide6.QtWidgets import QGraphicsItem

from wina_app.plots.axes import WholeNumberAxis
from wina_app.plots.colour_maps import ColourScale, category
from wina_app.plots.data_plot import DataPlot
from wina_app.plots.plot_items import Trace
from wina_core.specs.plans import Cell

_MLP = ("gate", "up", "down")
_COLOURS = {name: category(index) for index, name in enumerate(("q", "k", "v", "o", *_MLP))}
"""Colour of each projection, whichever others a model has."""
_WHOLE_LINE_KEY = Qt.KeyboardModifier.ShiftModifier
_WHOLE_RANGE = {"%": 100.0, "bits": 1.0}
"""Units of tables whose whole range is shown, so that plans compare, with the number shown for 1."""
_LEAST_SPAN = 0.2
"""Least part of the colour scale shown, so that equal values do not look like noise."""
_PICTURES_KB = 128 * 1024
"""Cache for pictures of lines and axes: one takes 2 MB at 1920 x 1080, 14 MB at twice that size."""
_GRIP = 12.0
"""Pixels around a point where a drag moves it, and not the plot."""
_JITTER = 3.0
"""Pixels of movement before a drag begins."""


@dataclass(frozen=True)
class _Hold:
    """Dragged cells, and the drag's start in the viewport."""

    position: QPointF
    cells: frozenset[Cell]
    point: tuple[int, int]
    """(trace, point) under the pointer."""
    moving: bool = False


class SparsityProfile(DataPlot):
    """Solid lines for attention, dashed ones for the MLP; layers along x.

    While `editable`, a drag moves a point, or with Shift the whole line.
    """

    drag_began = Signal()
    dragged = Signal(object, float)
    """Frozenset of cells, and their shift since the drag began, in percentage points or bits."""
    drag_ended = Signal()

    _scale: ColourScale | None = None

    def __init__(self) -> None:
        super().__init__("Profile over depth")
        self.editable = False
        self._columns: tuple[int, ...] = ()
        self._looks: dict[str, tuple[object, ...]] = {}
        self._drawn: dict[str, Trace] = {}
        self._axes: tuple[str, str, float] | None = None
        self._hold: _Hold | None = None
        self.setToolTip("Drag a point to change its cell; with Shift the whole line")
        layers = WholeNumberAxis("bottom")
        self.getPlotItem().setAxisItems({"bottom": layers})
        QPixmapCache.setCacheLimit(max(QPixmapCache.cacheLimit(), _PICTURES_KB))
        for axis in (self.getPlotItem().getAxis("left"), layers):
            # Painted from a picture of it: writing its texts again at every step of a drag takes longer than the lines.
            axis.setCacheMode(QGraphicsItem.CacheMode.DeviceCoordinateCache)

    def show_table(self, projections: Sequence[str], values: np.ndarray, scale: ColourScale) -> None:
        """Show a table, float64 [layers, projections]; a projection without data has no line."""
        factor = 100.0 if scale.unit in ("%", "points") else 1.0
        title = scale.title.lower()
        least = 0.0 if scale.unit in _WHOLE_RANGE else _LEAST_SPAN * factor * (scale.high - scale.low)
        axes = "decoder layer", f"{title} ({scale.unit})" if scale.unit else title, least
        if axes != self._axes:  # every change of them draws them anew, which takes longer than the lines
            self._axes = axes
            self.set_axes(*axes)
        traces, columns = [], []
        for column, name in enumerate(projections):
            layers = np.flatnonzero(~np.isnan(values[:, column])).tolist()
            if layers:
                look = (tuple(layers), values[layers, column].tobytes(), factor)
                if self._looks.get(name) != look:  # otherwise the very same trace, which is not drawn anew
                    self._looks[name] = look
                    self._drawn[name] = self._trace(name, layers, values[layers, column], factor)
                traces.append(self._drawn[name])
                columns.append(column)
        self._columns = tuple(columns)
        self.show_traces(traces)
        before, self._scale = self._scale, scale
        if before is None or before.title != scale.title:  # an edit of the same quantity keeps the user's zoom
            self.reset_zoom()

    def reset_zoom(self) -> None:
        super().reset_zoom()
        if self._scale is not None and self._scale.unit in _WHOLE_RANGE:
            factor = _WHOLE_RANGE[self._scale.unit]
            self.show_range(y=(factor * self._scale.low, factor * self._scale.high), padding=0.02)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Take hold of a point or a line; elsewhere drag the plot."""
        may_drag = event.button() == Qt.MouseButton.LeftButton and self.editable
        self._hold = self._hold_at(event.position(), bool(event.modifiers() & _WHOLE_LINE_KEY)) if may_drag else None
        if self._hold is None:
            super().mousePressEvent(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Move the held cells in tenths of a point, or show by the cursor what can be dragged."""
        hold, position = self._hold, event.position()
        if hold is None:
            super().mouseMoveEvent(event)
            within = self.editable and not event.buttons() and self._hold_at(position, whole=False) is not None
            self.viewport().setCursor(Qt.CursorShape.SizeVerCursor if within else Qt.CursorShape.ArrowCursor)
        elif hold.moving or abs(position.y() - hold.position.y()) >= _JITTER:
            if not hold.moving:
                self._hold = hold = replace(hold, moving=True)
                self.drag_began.emit()
            self.dragged.emit(hold.cells, round(self._height(position) - self._height(hold.position), 1))
            self._show_readout(hold)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        hold, self._hold = self._hold, None
        if hold is None:
            super().mouseReleaseEvent(event)
        elif hold.moving:
            self.drag_ended.emit()

    def _hold_at(self, position: QPointF, whole: bool) -> _Hold | None:
        """Return the draggable point or line at a position, or None."""
        scene = self.mapToScene(position.toPoint())
        caught = self.nearest(scene)
        if caught is None:
            return None
        trace, point = caught
        if (self.place_of(trace, point) - scene).manhattanLength() > _GRIP:
            return None
        layer = int(self.traces[trace].x[point])
        cells = self._line(trace) if whole else frozenset({(layer, self._columns[trace])})
        return _Hold(position, cells, caught)

    def _show_readout(self, hold: _Hold) -> None:
        """Mark the held point, and emit its read-out."""
        trace, point = hold.point
        self.mark(hold.point)
        readout = self.traces[trace].readout
        self.readout_changed.emit("" if readout is None else readout(point))

    def _line(self, trace: int) -> frozenset[Cell]:
        return frozenset((int(layer), self._columns[trace]) for layer in self.traces[trace].x)

    def _height(self, position: QPointF) -> float:
        return self.value_at(self.mapToScene(position.toPoint()))[1]

    def _trace(self, name: str, layers: list[int], values: np.ndarray, factor: float) -> Trace:
        return Trace(
            name,
            _COLOURS[name],
            layers,
            (factor * values).tolist(),
            lambda index: self._point_text(name, layers[index], values[index]),
            style=Qt.PenStyle.DashLine if name in _MLP else Qt.PenStyle.SolidLine,
        )

    def _point_text(self, name: str, layer: int, value: float) -> str:
        assert self._scale is not None  # there are points
        # The current scale: a trace that is drawn on may be older than it.
        return f"layer {layer}, {name}: {self._scale.text(value)} {self._scale.unit}".strip()
