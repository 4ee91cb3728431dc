"""Points and lines of a plot near a position."""

import math
from collections.abc import Sequence

import numpy as np
from PySide6.QtCore import QPointF, Qt

from wina_app.plots.plot_items import Trace

_REACH = 40.0
"""Pixels within which the crosshair catches a point."""
_ON_LINE = 6.0
"""Pixels within which a click means the whole line."""


def nearest_point(traces: Sequence[Trace], at: QPointF, pixel: tuple[float, float]) -> tuple[int, int] | None:
    """Return the (trace, point) nearest to a position in data, for a pixel of this size; None without any in reach.

    Traces without a read-out are not caught.
    """
    width, height = pixel
    best, found = _REACH, None
    for index, trace in enumerate(traces):
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
    squared = np.maximum(dx**2 + dy**2, 1e-12)
    along = np.clip(-(x[:-1] * dx + y[:-1] * dy) / squared, 0.0, 1.0)
    distances = np.nan_to_num(np.hypot(x[:-1] + along * dx, y[:-1] + along * dy), nan=math.inf)
    return float(distances.min(initial=math.inf))
