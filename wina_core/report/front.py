"""The report's plot of quality against cost, with the Pareto front."""

from typing import TYPE_CHECKING, Any

from wina_core.analysis.comparison.axes import AXES, CostAxis, Quality, front_steps
from wina_core.analysis.comparison.frontier import frontier_points, originals
from wina_core.report.drawing.figure import LinePanel, Series
from wina_core.report.findings import Findings
from wina_core.specs.methods.colours import method_colour
from wina_core.store import Store
from wina_core.store.metric_frames import metrics_frame

if TYPE_CHECKING:
    import pandas as pd

_AXES: tuple[CostAxis, ...] = ("bytes_read", "bits_read")
"""Costs to plot against: the first that the study counted."""
_MARKERS = "os^Dv*Ph"
"""By bits; unquantized configurations have the first."""
_FADED = "59"
"""Opacity of dominated points, as two hex digits."""
_ROOM = 1.3
"""Factor beyond the points on a logarithmic axis, and its share of the width on a linear one."""


def front_panels(store: Store, findings: Findings, ink: str) -> tuple[LinePanel, ...]:
    """Return a panel for each original of the study with two configurations or more; none where their KL from the
    original was not measured. Points of `ink` colour are dense ones."""
    if not findings.study.evaluation.original:
        return ()
    metrics = metrics_frame(findings.rows)
    present = set(metrics["model_hash"])
    sources = {key: source for key, source in store.model_sources().items() if key in present}
    found = []
    for model, name in originals(sources).items():
        for axis in _AXES:
            points = frontier_points(metrics, sources, model, Quality(), axis)
            if len(points) > 1:
                found.append(front_panel(name, points, axis, ink))
                break
    return tuple(found)


def front_panel(
    title: str, points: "pd.DataFrame", axis: CostAxis, ink: str, quality: Quality | None = None
) -> LinePanel:
    """Draw `frontier_points` of a quality, by default the KL from the original, with the steps of their front."""
    usual, points = quality in (None, Quality()), points.sort_values("x")
    quality = quality or Quality()
    points = points.assign(y=[quality.height(value) for value in points["y"]])
    on_front = points[points["front"]]
    steps = front_steps(list(zip(on_front["x"], on_front["y"], strict=True)), x_up=AXES[axis].higher_is_better)
    series = [Series("Pareto front", ink, *steps, line="dash", named=False)]
    markers = dict(zip(dict.fromkeys(("", *points["bits"])), _MARKERS * 9, strict=False))
    for _, rows in points.groupby(["bits", "method", "front"], sort=False):
        first = next(rows.itertuples())
        bits, method, front = str(first.bits), str(first.method), bool(first.front)
        colour = ink if method == "dense" else method_colour(method.split(" ")[0]) or ink
        named = front or not ((points["bits"] == bits) & (points["method"] == method) & points["front"]).any()
        name = ", ".join(filter(None, (bits, method))) or "imported"
        series.append(_points(name, colour + ("" if front else _FADED), rows, markers[bits], named=bool(named)))
    x, y = points["x"], points["y"]
    room, height = ((_ROOM - 1) * (float(each.max() - each.min()) or 1.0) for each in (x, y))
    log = quality.is_divergence
    return LinePanel(
        title=title,
        x_title=AXES[axis].label,
        y_title="KL from the original (nats per token)" if usual else quality.title,
        x_range=(float(x.min()) - room, float(x.max()) + room),
        y_range=(float(y.min()) / _ROOM, float(y.max()) * _ROOM) if log else (y.min() - height, y.max() + height),
        series=tuple(series),
        legend=True,
        log_y=log,
    )


def _points(name: str, colour: str, rows: "pd.DataFrame", marker: str, *, named: bool) -> Series:
    errors: Any = rows["stderr"].astype(float).fillna(0.0)
    low = tuple(max(value - error, value / 10) for value, error in zip(rows["y"], errors, strict=True))
    high = tuple(value + error for value, error in zip(rows["y"], errors, strict=True))
    return Series(name, colour, tuple(rows["x"]), tuple(rows["y"]), low, high, marker, "none", named=named, size=6)
