"""The frontier plot's choices, its lines over sparsity and its points over a cost, from the rows in the table."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar, get_args

from wina_app.pages.results.runs import PublishedLine, Scope
from wina_app.shared.measured_sparsity import sparsity_parts
from wina_app.shared.method_choices import WORDS
from wina_app.style.number_format import percent
from wina_core.analysis.comparison.axes import AXES, Axis, CostAxis, Quality
from wina_core.analysis.results.measured import DEFAULT_COUNT, Count, SparsityKind
from wina_core.records.texts import count_text, error_text, number
from wina_core.specs import ORIGINAL
from wina_core.store.metric_frames import metric_rows_of
from wina_core.studies.published import preferred_metric

if TYPE_CHECKING:  # SQLAlchemy takes a second to import: only the store's thread does
    import pandas as pd

    from wina_core.analysis.comparison.frontier import FrontierLine, Point
    from wina_core.store import MetricRow, Store

T = TypeVar("T")

MOST_LINES = 20
"""Most lines at once; more could neither be distinguished nor drawn without a stall."""


@dataclass(frozen=True)
class FrontierMeasure:
    """One metric of one task."""

    task: str
    metric: str
    higher_is_better: bool | None = None

    @property
    def title(self) -> str:
        return f"{self.task}: {self.metric}"


@dataclass(frozen=True)
class FrontierData:
    """Lines over sparsity, and the dense references."""

    measure: FrontierMeasure
    lines: "tuple[FrontierLine, ...]"
    dense: "tuple[FrontierLine, ...]"
    published: tuple[PublishedLine, ...] = ()
    """Published lines of the same metric and model."""
    configurations: tuple[str, ...] = ()
    """The study's names of the lines; empty without a study, or where the names are not unique."""
    left_out: int = 0
    """Lines beyond the most that are drawn."""
    count: Count = DEFAULT_COUNT
    """Kind of measured sparsity for comparisons."""


class FrontierChoices(NamedTuple):
    """Metrics and models that are offered, and those that are shown."""

    measures: Sequence[FrontierMeasure]
    measure: FrontierMeasure | None
    models: dict[str, str]
    """Model's hash: its name."""
    model: str


def lines_of(
    metrics: "pd.DataFrame",
    preferred: Iterable[FrontierMeasure | None],
    model: str,
    scope: Scope | None,
    paper: bool,
    count: Count,
) -> tuple[FrontierChoices, FrontierData | None]:
    """Return the choices, and the lines of the first preferred metric that is there, or else of the usual one."""
    offered, named = measures(metrics), models(metrics)
    measure = first_offered(preferred, offered) or first_choice(offered, scope)
    model = model if model in named else next(iter(named), "")
    data = frontier(metrics, measure, model, scope, paper, count) if measure else None
    return FrontierChoices(offered, measure, named, model), data


def measures(metrics: "pd.DataFrame") -> list[FrontierMeasure]:
    """Return the stored metrics in the order of their titles, each once."""
    first = metrics.drop_duplicates(["task", "metric"])
    stored = [FrontierMeasure(row.task, row.metric, row.higher_is_better) for row in metric_rows_of(first)]
    return sorted(stored, key=lambda measure: measure.title)


def first_choice(offered: Sequence[FrontierMeasure], scope: Scope | None) -> FrontierMeasure | None:
    """Return the published measure, a task's preferred accuracy, the KL from the original or from the model without
    gates, or the first one."""
    published = scope.published_measures if scope else frozenset()
    offered = [measure for measure in offered if (measure.task, measure.metric) in published] or offered
    from_original = [measure for measure in offered if (measure.task, measure.metric) == (ORIGINAL, "kl")]
    preferred = (
        measure
        for start in ("acc", "kl", "")
        for measure in (*from_original, *offered)
        if measure.metric.startswith(start)
    )
    first = next(preferred, None)
    if first is None or not first.metric.startswith("acc"):
        return first
    of_task = {measure.metric: measure for measure in offered if measure.task == first.task}
    return of_task[preferred_metric(of_task) or first.metric]


def first_offered(preferred: Iterable[T | None], offered: Sequence[T]) -> T | None:
    return next((choice for choice in preferred if choice in offered), None)


def models(metrics: "pd.DataFrame") -> dict[str, str]:
    """Return the short name of each model by its hash."""
    first = metrics.drop_duplicates("model_hash")
    return dict(zip(first["model_hash"], first["model"], strict=True))


def frontier(
    metrics: "pd.DataFrame",
    measure: FrontierMeasure,
    model: str,
    scope: Scope | None = None,
    paper: bool = True,
    count: Count = DEFAULT_COUNT,
) -> FrontierData:
    """Return the lines of one metric of one model from the given rows, with `paper` also the published ones."""
    from wina_core.analysis.comparison.frontier import sparsity_lines

    of_measure = (metrics["metric"] == measure.metric) & (metrics["task"] == measure.task)
    rows = metric_rows_of(metrics[of_measure & (metrics["model_hash"] == model)])
    lines = sparsity_lines([row for row in rows if row.method != "dense"])
    dense = sparsity_lines([row for row in rows if row.method == "dense"])
    left_out, lines = len(lines[MOST_LINES:]), lines[:MOST_LINES]
    if scope is None:
        return FrontierData(measure, lines, dense, left_out=left_out, count=count)
    configurations = tuple(scope.configurations[line.points[0].run] for line in lines)
    published = scope.published_lines(model, measure.task, measure.metric) if paper else ()
    configurations = configurations if len(set(configurations)) == len(configurations) else ()
    return FrontierData(measure, lines, dense, published, configurations, left_out, count)


def readout(label: str, measure: FrontierMeasure, point: "MetricRow", count: Count = DEFAULT_COUNT) -> str:
    """Describe one point in one line; `count` is the measured sparsity to name first."""
    value = number(point.value) + (f" ± {error_text(point.stderr)}" if point.stderr is not None else "")
    texts = [label, f"{measure.title} {value}", *sparsity_parts(point, count)]
    if point.n is not None:
        texts.append(f"n {count_text(point.n)}")
    return "  \N{MIDDLE DOT}  ".join(texts)


def published_readout(measure: FrontierMeasure, line: PublishedLine, index: int) -> str:
    """Describe a published value in one line; the paper has nominal sparsities alone."""
    texts = [
        f"{line.method}, paper",
        f"{measure.title} {number(line.y[index])}",
        f"nominal sparsity {percent(line.x[index])}, as printed",
    ]
    return "  \N{MIDDLE DOT}  ".join(texts)


def names(lines: "Sequence[FrontierLine]") -> list[str]:
    """Name each line by method, rotation and selection, and by plan and settings where these differ."""
    several = {key: len({getattr(line, key) for line in lines}) > 1 for key in ("plan", "settings")}
    return [
        ", ".join(
            text
            for text in (
                line.method,
                line.rotation if line.rotation != "none" else "",
                _selection(line),
                *(getattr(line, key) for key, differs in several.items() if differs),
            )
            if text
        )
        for line in lines
    ]


def _selection(line: "FrontierLine") -> str:
    words = {str(key): word for key, word in WORDS.items()}
    return words.get(line.selection, line.selection)


def kinds(lines: "Sequence[FrontierLine]") -> list[int]:
    """Number each line by its variant, masks, selection and plan, which colour and marker do not show.

    0 is the plainest; lines of one number differ in method, rotation or settings alone.
    """
    variants = [(line.method.partition(" ")[2], _selection(line), line.plan) for line in lines]

    def plainest_first(variant: tuple[str, str, str]) -> tuple[int, tuple[str, str, str]]:
        masks, selection, plan = variant
        return bool(masks) + bool(selection) + (plan != "uniform"), variant

    order = sorted(set(variants), key=plainest_first)
    return [order.index(variant) for variant in variants]


def distinct_references(dense: "Sequence[FrontierLine]") -> list[tuple[str, float]]:
    """Return (name, value) of the dense references, equal ones once, without those that are not finite."""
    names_by_value: dict[float, str] = {}
    for line, name in zip(dense, names(dense), strict=True):
        for point in line.points:
            if math.isfinite(point.value):
                names_by_value.setdefault(point.value, name)
    return [(name if len(names_by_value) > 1 else "dense", value) for value, name in names_by_value.items()]


PARETO_AXES: dict[CostAxis, str] = {
    "bytes_read": "bytes read per token",
    "memory": "memory held",
    "flops": "operations per token",
    "tokens_per_s": "decoding speed",
    "bits_read": "bits read per weight",
    "bits_held": "bits held per weight",
    "gated": "gated sparsity, all bits",
    "net": "net sparsity, all bits",
}
_PREFIX = "cost:"
X_AXES: tuple[tuple[str, str], ...] = (
    *((f"{kind} sparsity", kind) for kind in get_args(SparsityKind)),
    *((text, _PREFIX + axis) for axis, text in PARETO_AXES.items()),
)
"""Title and key of all axes of the frontier: lines of one model over sparsity, and all bits over a cost."""
FIRST_QUALITY = FrontierMeasure(*Quality())
"""Quality on a cost axis before the user chooses one."""


@dataclass(frozen=True)
class ParetoData:
    """Points of one original in all bits, rotations and methods."""

    measure: FrontierMeasure
    axis: Axis
    points: "tuple[Point, ...]"
    front: tuple[bool, ...]
    """Whether each point is on the Pareto front of its group."""

    @property
    def quality(self) -> Quality:
        return Quality(self.measure.task, self.measure.metric, self.measure.higher_is_better)


def cost_axis(x_axis: str) -> CostAxis | None:
    """Return the cost that a key of `X_AXES` names; None for a sparsity."""
    name = x_axis.removeprefix(_PREFIX)
    return name if name != x_axis and name in PARETO_AXES else None


def pareto_of(
    store: "Store", metrics: "pd.DataFrame", preferred: Iterable[FrontierMeasure | None], model: str, axis: CostAxis
) -> tuple[FrontierChoices, ParetoData | None]:
    """Return the choices, whose models are the originals of the stored ones, and the points of the shown original.

    The metric is the first preferred one that is there. The original is that of `model`, which may be quantized, or
    else the first.
    """
    from wina_core.analysis.comparison.frontier import Point, frontier_points, originals

    offered = measures(metrics)
    measure = first_offered(preferred, offered) or first_choice(offered, None)
    present = set(metrics["model_hash"])
    sources = {key: source for key, source in store.model_sources().items() if key in present}
    named = originals(sources)
    original = sources[model].unquantized.content_hash() if model in sources else model
    original = original if original in named else next(iter(named), "")
    choices = FrontierChoices(offered, measure, named, original)
    if measure is None:
        return choices, None
    quality = Quality(measure.task, measure.metric, measure.higher_is_better)
    # No other axis needs the timed tokens.
    decodings = store.decode_rows() if axis == "tokens_per_s" else ()
    frame = frontier_points(metrics, sources, original, quality, axis, decodings, store.imports())
    front = tuple(map(bool, frame.pop("front")))
    points = tuple(Point(*row) for row in frame.itertuples(index=False))
    return choices, ParetoData(measure, AXES[axis], points, front)


def pareto_readout(data: ParetoData, index: int) -> str:
    """Describe one point in one line."""
    point = data.points[index]
    error = "" if point.stderr is None or math.isnan(point.stderr) else f" ± {error_text(point.stderr)}"
    texts = [
        point.name,
        f"{data.measure.title} {number(point.y)}{error}",
        f"{data.axis.title.lower()} {number(point.x)} {data.axis.unit}",
        "on the front" if data.front[index] else "",
        f"imported: {point.source}" if point.imported else point.group,
        "click: open its plan" if has_plan(point) else "",
    ]
    return "  \N{MIDDLE DOT}  ".join(filter(None, texts))


def has_plan(point: "Point") -> bool:
    """Return whether a point is of a stored run with gates."""
    return bool(point.run) and point.method != "dense"


def groups(points: "Sequence[Point]") -> dict[str, list[int]]:
    """Return the indices of the points by name: bits, method and rotation, or one name for all imported points."""
    by_name: dict[str, list[int]] = {}
    for index, point in sorted(enumerate(points), key=lambda pair: pair[1].x):
        rotation = point.rotation if point.rotation != "none" and point.method != "dense" else ""
        words = (point.bits, point.method, rotation)
        name = "imported" if point.imported else ", ".join(filter(None, words))
        by_name.setdefault(name, []).append(index)
    return by_name
