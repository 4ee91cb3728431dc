"""Axes of a plot: logarithmic or of whole numbers, traces on their scales, and the theme's colours and fonts."""

import math
from dataclasses import replace

import numpy as np
import pyqtgraph as pg
from PySide6.QtGui import QColor

from wina_app.plots.plot_items import Trace
from wina_app.style.theme import font, notifier, tokens

_MIN_TICKS = 3
"""Fewest round numbers as ticks of an axis of less than two powers of ten; with fewer its steps are linear."""


class LogAxis(pg.AxisItem):
    """An axis of data given as log10, with ticks at 1, 2 and 5 times powers of ten, or at nearer steps.

    With `log` off it is an axis of the data themselves.
    """

    def __init__(self, orientation: str, *, log: bool = True) -> None:
        self.log = log
        super().__init__(orientation=orientation)

    def set_log(self, log: bool) -> None:
        """Switch between powers of ten and the data themselves."""
        if log != self.log:
            self.log = log
            # Forget pyqtgraph's drawn axis.
            self.picture = None
            self.update()

    def tickValues(self, minVal: float, maxVal: float, size: float) -> list[tuple[float, list[float]]]:
        """Return (spacing, positions) of the ticks, which all have a text where the axis is logarithmic."""
        if not self.log:
            return list(super().tickValues(minVal, maxVal, size))
        # A tick needs 40 pixels for its number.
        return [(1.0, log_ticks(minVal, maxVal, most=max(2, int(size / 40))))]

    def tickStrings(self, values: list[float], scale: float, spacing: float) -> list[str]:
        if not self.log:
            return list(super().tickStrings(values, scale, spacing))
        return [f"{10.0**value:.6g}" for value in values]


def log_ticks(low: float, high: float, most: int) -> list[float]:
    """Return log10 of round numbers from 10^low to 10^high, about `most` of them at most."""
    for factors in ((1, 2, 5), (1,)):
        ticks = [
            power + math.log10(factor)
            for power in range(math.floor(low), math.ceil(high) + 1)
            for factor in factors
            if low <= power + math.log10(factor) <= high
        ]
        if len(ticks) <= most:
            break
    ticks = ticks[:: math.ceil(len(ticks) / most)] if len(ticks) > most else ticks
    return ticks if len(ticks) >= _MIN_TICKS or high - low > 2 else _linear(low, high, most)


def _linear(low: float, high: float, most: int) -> list[float]:
    first, last = 10.0**low, 10.0**high
    raw = (last - first) / most
    if raw <= 0:
        return []
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw)
    start = math.ceil(first / step)
    return [math.log10(number * step) for number in range(start, math.floor(last / step) + 1) if number > 0]


class WholeNumberAxis(pg.AxisItem):
    """An axis with ticks at whole numbers only, without SI prefixes."""

    def __init__(self, orientation: str) -> None:
        super().__init__(orientation=orientation)
        self.enableAutoSIPrefix(False)

    def tickSpacing(self, minVal: float, maxVal: float, size: float) -> list[tuple[float, float]]:
        return [level for level in super().tickSpacing(minVal, maxVal, size) if level[0] >= 1] or [(1.0, 0.0)]


_CUT = 10.0
"""An error bar that reaches 0 or below, where there is no logarithm, ends at the value divided by this."""


def log10(values: object) -> np.ndarray:
    """Return log10 of values, float64; NaN where a value is not above 0."""
    numbers = np.asarray(values, dtype=float)
    above = numbers > 0.0
    # numpy computes both branches: the inner 1 avoids warnings about log10 of 0 and below.
    return np.where(above, np.log10(np.where(above, numbers, 1.0)), math.nan)


def on_scales(trace: Trace, *, log_x: bool, log_y: bool) -> Trace:
    """Return a trace at its places on the axes; the very same one where both are linear."""
    if not log_x and not log_y:
        return trace
    x, y, spans = trace.x, trace.y, trace.spans
    ends = trace.ends
    if log_y:
        value = np.asarray(y, dtype=float)
        y = log10(value).tolist()
        if ends is not None:
            low = np.where(ends[0] > 0.0, ends[0], value / _CUT)
            spans = tuple(zip(log10(low).tolist(), log10(ends[1]).tolist(), strict=True))
    if log_x:
        x = log10(x).tolist()
    return replace(trace, x=x, y=y, spans=spans, errors=() if log_y else trace.errors)


def may_be_log(traces: tuple[Trace, ...], side: str) -> bool:
    """Return whether the side's axis can be logarithmic: it has a value above 0, and no bars, which begin at 0."""
    if side == "y" and any(trace.width for trace in traces):
        return False
    return any(value > 0.0 for trace in traces for value in (trace.x if side == "x" else trace.y))


def style_plot(plot: pg.PlotItem) -> None:
    """Give a plot the current colours and fonts; call it after making the plot and on every change of theme."""
    t = tokens()
    view = plot.getViewWidget()
    if view is not None:
        view.setBackground(t.surface)
    for side in ("left", "bottom", "right", "top"):
        axis = plot.getAxis(side)
        axis.setPen(pg.mkPen(t.border))
        axis.setTextPen(pg.mkPen(t.muted))
        axis.setTickFont(font("small", tabular=True))
        axis.label.setFont(font("small"))
        axis.labelStyle["color"] = t.text
        axis.label.setDefaultTextColor(QColor(t.text))
    plot.showGrid(x=True, y=True, alpha=0.15)


def _set_defaults() -> None:
    pg.setConfigOptions(antialias=True, background=tokens().surface, foreground=tokens().text)


# The window does not load pyqtgraph before its first plot, so this module sets the defaults once it is loaded.
_set_defaults()
notifier().changed.connect(_set_defaults)
