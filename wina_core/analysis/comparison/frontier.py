"""Quality against sparsity and against cost: lines of configurations, and points in any bits and rotation with the
Pareto front."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wina_core.analysis.comparison.axes import AXES, CostAxis, Quality
from wina_core.records.imports import ImportedPoint, ImportedValue, StoredImport
from wina_core.specs import COST, ORIGINAL, ModelSource, quantization_label
from wina_core.specs.evaluations import SECOND_HALF
from wina_core.store.imported.metrics import date_text
from wina_core.store.metric_frames import metric_rows_of
from wina_core.store.rows import MetricRow
from wina_core.store.timings import DecodeRow
from wina_core.studies.run_labels import model_label

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Point:
    """One configuration, a row of `frontier_points`."""

    name: str
    """Bits, method, sparsity, rotation, and selection and plan where they are not the usual ones."""
    x: float
    """In the axis's unit."""
    y: float
    stderr: float | None
    run: str = ""
    """Hash of the run; empty for an imported point."""
    method: str = ""
    rotation: str = ""
    bits: str = ""
    plan: str = ""
    group: str = ""
    """Settings and number of documents or tokens; only points of one group are compared."""
    imported: bool = False
    source: str = ""
    """Tool, file and date of an imported point."""


def originals(sources: Mapping[str, ModelSource]) -> dict[str, str]:
    """Return the name of each original, by the hash of its unquantized source.

    `sources` are the sources of the stored models by their hashes.
    """
    plain = (source.unquantized for source in sources.values())
    return {source.content_hash(): model_label(source) for source in plain}


def frontier_points(
    metrics: "pd.DataFrame",
    sources: Mapping[str, ModelSource],
    model: str,
    quality: Quality,
    axis: CostAxis,
    decodings: Sequence[DecodeRow] = (),
    imports: Sequence[StoredImport] = (),
) -> "pd.DataFrame":
    """Return one row per configuration, with the fields of `Point` as columns and "front" for the Pareto front.

    Args:
        metrics: Stored metrics, as `Store.metrics` returns them.
        sources: Sources of the stored models by their hashes.
        model: Hash of the original, one of `originals`.
        quality: The metric on y.
        axis: The cost on x; a configuration without it is left out.
        decodings: Timed decoding, of which the machine that was timed last counts.
        imports: Imported files. Their points are in the table, but neither on the front nor compared with it.
    """
    import pandas as pd

    model_hashes = {model, *(key for key, source in sources.items() if source.unquantized.content_hash() == model)}
    of_model = metrics[metrics["model_hash"].isin(model_hashes)]
    rows = metric_rows_of(_of_metric(of_model, quality.task, quality.metric))
    costs = _costs(of_model, rows, axis, decodings)
    points = [
        _point(row, sources[row.model_hash], AXES[axis].scale * costs[row.run]) for row in rows if row.run in costs
    ]
    models = [sources[key] for key in model_hashes & sources.keys()]
    halves = all(SECOND_HALF in point.group for point in points)
    imported = _imported([stored for stored in imports if any(map(stored.is_of, models))], quality, axis)
    points += imported if halves else map(_of_other_positions, imported)
    frame = pd.DataFrame(points, columns=list(Point.__dataclass_fields__))
    return frame.assign(front=_front(frame, quality, axis))


def pareto_front(
    x: NDArray[np.float64], y: NDArray[np.float64], *, x_up: bool = False, y_up: bool = False
) -> NDArray[np.bool_]:
    """Return which points no other is better than in one value and at least as good in the other, shape [points].

    `x_up` and `y_up` say that higher is better. Points that are not finite are on no front.
    """
    x, y = np.negative(x) if x_up else np.asarray(x), np.negative(y) if y_up else np.asarray(y)
    front = np.zeros(len(x), np.bool_)
    best = (np.inf, np.inf)
    for at in np.lexsort((y, x)):
        if np.isfinite(x[at]) and np.isfinite(y[at]) and (y[at] < best[1] or (x[at], y[at]) == best):
            front[at], best = True, (x[at], y[at])
    return front


def _front(frame: "pd.DataFrame", quality: Quality, axis: CostAxis) -> NDArray[np.bool_]:
    """Return the fronts of all groups of comparable points."""
    front = np.zeros(len(frame), np.bool_)
    if quality.higher_is_better is None:
        return front
    for _, group in frame[~frame["imported"].astype(bool)].groupby("group"):
        x, y = group["x"].to_numpy(np.float64), group["y"].to_numpy(np.float64)
        front[group.index] = pareto_front(x, y, x_up=AXES[axis].higher_is_better, y_up=quality.higher_is_better)
    return front


def _costs(
    metrics: "pd.DataFrame", rows: Iterable[MetricRow], axis: CostAxis, decodings: Sequence[DecodeRow]
) -> dict[str, float]:
    """Return the x of each run that has a cost on this axis."""
    if axis in ("gated", "net"):
        both = ((row.run, row.gated_sparsity if axis == "gated" else row.net_sparsity) for row in rows)
        return {run: sparsity for run, sparsity in both if sparsity is not None}
    if axis == "tokens_per_s":
        speeds = _speeds(decodings)
        return {row.run: speeds[key] for row in rows if (key := _timed_as(row)) in speeds}
    values = _values(metrics, AXES[axis].task, AXES[axis].metric)
    values = _with_measured_bits(values, metrics) if axis == "bytes_read" else values
    return {str(run): value for run, value in values.items()}


def _with_measured_bits(counted: "pd.Series[float]", metrics: "pd.DataFrame") -> "pd.Series[float]":
    """Return bytes read with the measured bits per weight in place of the counted ones, where both are known.

    Inputs that gates keep have more bits than the mean if bits go by energy, fewer of weights in planes. The measured
    ones include the norms of masks.
    """
    weights, bits = _values(metrics, COST, "gated_weights"), _values(metrics, COST, "bits_read")
    masks, measured = _values(metrics, COST, "mask_bytes"), _values(metrics, ORIGINAL, "bits_read")
    corrected = counted + weights * (measured - bits) / 8 - masks  # NaN where one of them is unknown
    return corrected.reindex(counted.index).fillna(counted)


def _values(metrics: "pd.DataFrame", task: str, metric: str) -> "pd.Series[float]":
    rows = _of_metric(metrics, task, metric).drop_duplicates("run", keep="last")
    return rows["value"].set_axis(rows["run"].astype(object))


def _of_metric(metrics: "pd.DataFrame", task: str, metric: str) -> "pd.DataFrame":
    return metrics[(metrics["task"] == task) & (metrics["metric"] == metric)]


_Timed = tuple[str, str, str, str, float]


def _timed_as(row: MetricRow) -> _Timed | None:
    """Return the key of a run's timed decoding; None for a plan that is not uniform, which is never timed."""
    if row.method == "dense":
        return row.model, "", row.method, "", 0.0
    uniform = row.plan == "uniform"
    return (row.model, row.rotation, row.method, row.selection, round(row.target_sparsity, 4)) if uniform else None


def _speeds(decodings: Sequence[DecodeRow]) -> dict[_Timed | None, float]:
    """Return tokens per second of one sequence on the machine that was timed last."""
    speeds: dict[_Timed | None, float] = {}
    last = max(decodings, key=lambda row: row.recorded, default=None)
    # By time, so that a later timing replaces an earlier one.
    for row in sorted(decodings, key=lambda row: row.recorded):
        record = row.record
        if last is not None and record.point.batch == 1 and row.machine == last.machine:
            speeds[row.model, "", "dense", "", 0.0] = record.dense_tokens_per_second
            target = round(record.point.sparsity, 4)
            speeds[row.model, row.rotation, row.method, row.selection, target] = record.tokens_per_second
    return speeds


def _point(row: MetricRow, source: ModelSource, x: float) -> Point:
    bits = "" if source.quantization == "none" else quantization_label(source.quantization)
    dense = row.method == "dense"
    labels = (
        bits,
        row.method if dense else f"{row.method} {100 * row.target_sparsity:.4g} %",
        row.rotation if row.rotation != "none" else "",
        row.selection if row.selection != "topk" and not dense else "",
        row.plan if row.plan != "uniform" and not dense else "",
    )
    settings = [setting for setting in row.settings.split(", ") if setting and not _of_gates(setting)]
    return Point(
        name=", ".join(filter(None, labels)),
        x=x,
        y=row.value,
        stderr=row.stderr,
        run=row.run,
        method=row.method,
        rotation=row.rotation,
        bits=bits,
        plan="" if dense else row.plan,
        group=", ".join((*settings, f"n {row.n}")),
    )


def _of_gates(setting: str) -> bool:
    """Return whether a setting of a run is about its gates, and not about its evaluation."""
    return setting.startswith(("calibrated on", "batches")) or setting.endswith("thresholds")


def _of_other_positions(point: Point) -> Point:
    """Return a point with the remark that llama-perplexity has scored fewer positions than measured points."""
    if "llama-perplexity" not in point.source:
        return point
    return replace(point, source=f"{point.source}; second halves of rows, measured points have all: --second-half")


def _imported(imports: Iterable[StoredImport], quality: Quality, axis: CostAxis) -> Iterable[Point]:
    """Yield the imported points that have both numbers; speed and quality of one GGUF file may be in two files."""
    name = AXES[axis].imported
    for point in join_points(imports) if name else ():
        if name in point.metrics and quality.imported in point.metrics:
            value = point.metrics[quality.imported]
            x = AXES[axis].scale * point.metrics[name].value
            yield Point(point.name, x, value.value, value.stderr, imported=True, source=point.source)


@dataclass(frozen=True)
class FrontierLine:
    """Runs that differ in nothing but their sparsity, in its order."""

    label: str
    model: str
    method: str
    """Method, which decides the colour."""
    rotation: str
    selection: str
    plan: str
    settings: str
    points: tuple[MetricRow, ...]


def sparsity_lines(rows: list[MetricRow]) -> tuple[FrontierLine, ...]:
    """Sort rows of one metric into lines that differ in more than their sparsity and plans of one provenance.

    Labels say only what sets a line apart; settings, also how many examples a task was asked with and on how many
    documents, where that is not the same for all: a task may have numbers of its own.
    """
    several_examples = len({row.num_fewshot for row in rows}) > 1
    several_counts = len({row.n for row in rows}) > 1
    groups: dict[tuple[str, ...], list[MetricRow]] = {}
    for row in rows:
        conditions = [row.settings]
        if several_examples and row.num_fewshot is not None and f"{row.num_fewshot}-shot" not in row.settings:
            conditions.append(f"{row.num_fewshot}-shot")
        if several_counts and row.n is not None and f"limit {row.n}" not in row.settings:
            conditions.append(f"n {row.n}")
        settings = ", ".join(filter(None, conditions))
        key = (row.model, row.model_hash, row.method, row.rotation, row.selection, row.plan, settings)
        groups.setdefault(key, []).append(row)
    several_models = len({row.model_hash for row in rows}) > 1
    lines = []
    for (model, _, method, rotation, selection, plan, settings), members in groups.items():
        label_parts = (
            model if several_models else "",
            method,
            rotation if rotation != "none" else "",
            selection if selection != "topk" else "",
            plan if plan != "uniform" else "",
            settings,
        )
        members.sort(key=lambda row: row.target_sparsity)
        label = ", ".join(label_part for label_part in label_parts if label_part)
        lines.append(FrontierLine(label, model, method, rotation, selection, plan, settings, tuple(members)))
    return tuple(lines)


# ---- imported points: speed and quality of one GGUF file, which llama.cpp's tools write into two files ---------------

_SUFFIX = ".gguf"


class JoinedPoint(NamedTuple):
    """An imported point with its files; those of a GGUF file's speed also have its quality."""

    name: str
    metrics: dict[str, ImportedValue]
    stored: StoredImport
    """The file of its speed, or its only one."""
    source: str
    """Tool, file and date of each file that it is from."""


def join_points(imports: Iterable[StoredImport]) -> list[JoinedPoint]:
    """Return the points of files on one model, the last imported first.

    A point with a decoding speed gets the metrics that it lacks from points of the same GGUF file name without one, the
    last imported first, and these are left out then. All others stay as they are.
    """
    stored_points = [(stored, point) for stored in imports for point in stored.content.points]
    timed = {point.name for _, point in stored_points if _is_timed(point)}
    qualities: dict[str, list[tuple[StoredImport, ImportedPoint]]] = {}
    for stored, point in stored_points:
        if point.name in timed and not _is_timed(point) and point.name.lower().endswith(_SUFFIX):
            qualities.setdefault(point.name, []).append((stored, point))
    merged = {id(point) for quality_points in qualities.values() for _, point in quality_points}
    return [
        _joined(stored, point, qualities.get(point.name, []) if _is_timed(point) else [])
        for stored, point in stored_points
        if id(point) not in merged
    ]


def _is_timed(point: ImportedPoint) -> bool:
    return "tokens_per_s" in point.metrics


def _joined(
    stored: StoredImport, point: ImportedPoint, quality_points: Iterable[tuple[StoredImport, ImportedPoint]]
) -> JoinedPoint:
    metrics, files = dict(point.metrics), [stored]
    for file, other in quality_points:
        if new := other.metrics.keys() - metrics.keys():
            metrics |= {name: other.metrics[name] for name in new}
            files.append(file)
    source = "; ".join(f"{file.content.tool}, {file.content.file}, {date_text(file)}" for file in files)
    return JoinedPoint(point.name, metrics, stored, source)
