"""Quality against cost of all configurations of a model: the choices, and the points with their Pareto front."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wina_app.pages.results.plots.frontier import SPARSITY_AXES, Measure, first_choice, measures, offered_one
from wina_app.style.translation import tr
from wina_core.analysis.comparison.axes import AXES, Axis, CostAxis, Quality
from wina_core.records.texts import error_text, number

if TYPE_CHECKING:  # SQLAlchemy takes a second to import: only the store's thread does
    import pandas as pd

    from wina_core.analysis.comparison.frontier import Point
    from wina_core.store import Store

PARETO_AXES: dict[CostAxis, str] = {
    "bytes_read": tr("bytes read per token"),
    "memory": tr("memory held"),
    "flops": tr("operations per token"),
    "tokens_per_s": tr("decoding speed"),
    "bits_read": tr("bits read per weight"),
    "bits_held": tr("bits held per weight"),
    "gated": tr("gated sparsity, all bits"),
    "net": tr("net sparsity, all bits"),
}
_PREFIX = "cost:"
X_AXES: tuple[tuple[str, str], ...] = (
    *((text, kind) for kind, text in SPARSITY_AXES.items()),
    *((text, _PREFIX + axis) for axis, text in PARETO_AXES.items()),
)
"""Title and key of all axes of the frontier: lines of one model over sparsity, and all bits over a cost."""
FIRST_QUALITY = Measure(*Quality())
"""Quality on a cost axis before the user chooses one."""


@dataclass(frozen=True)
class ParetoData:
    """Points of one original in all bits, rotations and methods."""

    measure: Measure
    axis: Axis
    points: "tuple[Point, ...]"
    front: tuple[bool, ...]
    """Whether each point is on the Pareto front of its group."""

    @property
    def quality(self) -> Quality:
        """Return the metric as the front has it."""
        return Quality(self.measure.task, self.measure.metric, self.measure.higher_is_better)


def cost_axis(x_axis: str) -> CostAxis | None:
    """Return the cost that a key of `X_AXES` names; None for a sparsity."""
    name = x_axis.removeprefix(_PREFIX)
    return name if name != x_axis and name in PARETO_AXES else None


def pareto_of(
    store: "Store", metrics: "pd.DataFrame", wanted: Iterable[Measure | None], model: str, axis: CostAxis
) -> tuple[list[Measure], Measure | None, dict[str, str], str, ParetoData | None]:
    """Return the metrics of the given rows, the shown one, the originals' names by their hashes, the shown original's
    hash, and its points.

    The metric is the first wanted one that is there. The original is that of `model`, which may be quantized, or else
    the first.
    """
    from wina_core.analysis.comparison.frontier import Point, frontier_points, originals

    offered = measures(metrics)
    measure = offered_one(wanted, offered) or first_choice(offered, None)
    present = set(metrics["model_hash"])
    sources = {key: source for key, source in store.model_sources().items() if key in present}
    named = originals(sources)
    original = sources[model].unquantized.content_hash() if model in sources else model
    shown = original if original in named else next(iter(named), "")
    if measure is None:
        return offered, None, named, shown, None
    quality = Quality(measure.task, measure.metric, measure.higher_is_better)
    decodings = store.decode_rows() if axis == "tokens_per_s" else ()
    found = frontier_points(metrics, sources, shown, quality, axis, decodings, store.imports())
    front = tuple(bool(each) for each in found.pop("front"))
    points = tuple(Point(*row) for row in found.itertuples(index=False))
    return offered, measure, named, shown, ParetoData(measure, AXES[axis], points, front)


def readout(data: ParetoData, index: int) -> str:
    """Describe one point in one line."""
    point = data.points[index]
    error = "" if point.stderr is None or point.stderr != point.stderr else f" ± {error_text(point.stderr)}"
    parts = [
        point.name,
        f"{data.measure.title} {number(point.y)}{error}",
        f"{data.axis.title.lower()} {number(point.x)} {data.axis.unit}",
        tr("on the front") if data.front[index] else "",
        tr("imported: {source}", source=point.source) if point.imported else point.group,
        tr("click: open its plan") if has_plan(point) else "",
    ]
    return "  \N{MIDDLE DOT}  ".join(filter(None, parts))


def has_plan(point: "Point") -> bool:
    """Return whether a point is of a stored run with gates."""
    return bool(point.run) and point.method != "dense"


def groups(points: "Sequence[Point]") -> dict[str, list[int]]:
    """Return the places of the points by what colour and marker show: bits, method and rotation, or their tool."""
    found: dict[str, list[int]] = {}
    for place, point in sorted(enumerate(points), key=lambda pair: pair[1].x):
        rotation = point.rotation if point.rotation != "none" and point.method != "dense" else ""
        parts = (point.bits, point.method, rotation)
        name = tr("imported") if point.imported else ", ".join(filter(None, parts))
        found.setdefault(name, []).append(place)
    return found
