"""Traces on logarithmic axes: their places as powers of ten."""

import math
from dataclasses import replace

import numpy as np

from wina_app.plots.plot_items import Trace

_CUT = 10.0
"""An error bar that reaches 0 or below, where there is no logarithm, ends at the value divided by this."""


def log10(values: object) -> np.ndarray:
    """Return log10 of values, float64; NaN where a value is not above 0."""
    known = np.asarray(values, dtype=float)
    above = known > 0.0
    return np.where(above, np.log10(np.where(above, known, 1.0)), math.nan)


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


def log_problem(traces: tuple[Trace, ...], side: str) -> str:
    """Return the side's values' fault that forbids a logarithmic axis: "bars", "none above 0", or "" for none."""
    if side == "y" and any(trace.width for trace in traces):
        return "bars"
    values = (trace.x if side == "x" else trace.y for trace in traces)
    return "" if any(value > 0.0 for each in values for value in each) else "none above 0"
