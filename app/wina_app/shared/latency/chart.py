"""Lines of both latency plots, from the rows of one machine, subject and load."""

import math
import statistics
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from wina_app.shared.measured_sparsity import short_percent, target_miss
from wina_app.style.number_format import percent
from wina_core.records import LatencyRecord
from wina_core.records.texts import percent_apart
from wina_core.specs import DENSE
from wina_core.specs.latency import BACKENDS, DTYPE_BYTES, STEADY, VENDOR

if TYPE_CHECKING:  # SQLAlchemy takes a second to import: only the store's thread does
    from wina_core.store import DecodeRow, LatencyRow

YAxis = Literal["speedup", "roofline"]
Y_AXES: dict[YAxis, tuple[str, str]] = {
    "speedup": (
        "Speed-up",
        "Times as fast as PyTorch's dense product; reading the kept weights alone allows 1 / (1 − s)",
    ),
    "roofline": (
        "Of memory bandwidth",
        "Bytes that must be read, in the median time, over the bandwidth measured when the sweep began",
    ),
}
_CURVE_STEPS = 64
_HEADROOM = 1.5
"""Largest drawn bound over the largest speed-up: beyond, it would flatten everything else."""
_LEAST_HEIGHT = 3.0
_PYTORCH = "PyTorch dense"
DENSE_NAMES: dict[str, str] = {
    "torch": _PYTORCH,
    "torch-int8": "PyTorch with INT8 weights",
    "int8": "our kernel with INT8 weights",
    "int4": "our kernel with INT4 weights",
}
"""Names of dense products by backend; any other is our kernel at 0 %."""
_DOT = "  \N{MIDDLE DOT}  "


@dataclass(frozen=True)
class ChartLine:
    """One configuration over measured sparsity, in its order: the same points in both plots."""

    name: str
    method: str
    """Method, which decides the colour."""
    marker: int
    pattern: int
    x: tuple[float, ...]
    """Measured sparsity, in percent."""
    left: tuple[float, ...]
    right: tuple[float, ...]
    spans: tuple[tuple[float, float], ...]
    """p10 and p90 of `right`."""
    readouts: tuple[str, ...]


@dataclass(frozen=True)
class Curve:
    """A bound, or a dense speed beside each point, over sparsity in percent."""

    name: str
    """Short name beside the curve."""
    note: str
    """Sentence about what it bounds, with its unit."""
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Panel:
    """One plot beside its lines."""

    title: str
    """Title of the y axis, with its unit."""
    references: tuple[tuple[str, float], ...]
    """(name, value) of the dashed horizontal lines."""
    curves: "tuple[Curve, ...]" = ()
    ceiling: float = math.inf
    """Largest visible value; longer error bars leave the plot at its top."""


@dataclass(frozen=True)
class Chart:
    """Both plots."""

    lines: tuple[ChartLine, ...]
    left: Panel
    right: Panel
    notes: tuple[str, ...] = ()
    """Sentences about the references and curves, shown below the plots."""


def product_chart(rows: "Iterable[LatencyRow]", y_axis: YAxis) -> Chart:
    """Chart speed-up or fraction of the roofline, and milliseconds; dense is a reference, one for each dtype."""
    timed = list(rows)
    gated = [row for row in timed if row.record.point.method != DENSE.name]
    lines = _lines(
        gated,
        ("method", "backend", "dtype", "selection"),
        left=(lambda row: row.record.speedup) if y_axis == "speedup" else (lambda row: 100.0 * row.record.roofline),
        right=lambda row: (row.record.p10_ms, row.record.median_ms, row.record.p90_ms),
        readout=_product_readout,
        # The last place is for a backend that is not in the list.
        marker=lambda row: [*BACKENDS, row.record.point.backend].index(row.record.point.backend),
        pattern=lambda row: (row.record.point.dtype, row.record.point.selection),
    )
    dense = [row for row in timed if row.record.point.method == DENSE.name]
    references = _dense_ms(timed, dense)
    bandwidth = f"{max(timed, key=lambda row: row.recorded).record.bandwidth:.3g}" if timed else ""
    if y_axis == "speedup":
        strongest = [(f"{name} {record.speedup:.2f} ×", record.speedup) for name, record in _best_dense(dense)]
        left = Panel("speed-up over PyTorch dense", ((_PYTORCH, 1.0), *strongest), _kept_bound(lines))
    else:
        text = f"memory bandwidth {bandwidth} GB/s"
        left = Panel("of the memory bandwidth (%)", ((text, 100.0),))
    bounds = _bandwidth_bounds(timed, lines)
    right = Panel("latency, p10 to p90 (ms)", references, bounds, _ceiling(lines, references))
    best = tuple(f"{name}: {dense_name(record.point.backend)}" for name, record in _best_dense(dense))
    if timed:
        best = (*best, "PyTorch dense: median of its times in turns with the points, as in their speed-ups")
    notes = (*best, *(curve.note for curve in (*bounds, *left.curves)))
    return Chart(lines, left, right, notes)


def decode_chart(rows: "Iterable[DecodeRow]", y_axis: YAxis) -> Chart:  # noqa: ARG001 - as product_chart
    """Chart speed-up and tokens per second; a model has no roofline of its own here."""
    timed = list(rows)
    lines = _lines(
        timed,
        ("method", "rotation", "selection"),
        left=lambda row: row.record.speedup,
        right=lambda row: (row.record.p10, row.record.tokens_per_second, row.record.p90),
        readout=_decode_readout,
        marker=lambda row: sorted({other.rotation for other in timed}).index(row.rotation),
        pattern=lambda row: row.selection,
    )
    records = [row.record for row in timed]
    beside = sorted((100.0 * record.measured_sparsity, record.dense_tokens_per_second) for record in records)
    note = "PyTorch dense (tokens/s): as measured in turns with each point"
    dense = (Curve(_PYTORCH, note, tuple(beside)),) if timed else ()
    zeros = (record for record in records if record.point.sparsity == 0.0)
    zero = max(zeros, key=lambda record: record.speedup, default=None)
    best: list[tuple[str, float]] = []
    fastest: list[tuple[str, float]] = []
    if zero is not None:
        best = [(f"our kernels at 0 %: {zero.speedup:.2f} ×", zero.speedup)]
        speed = zero.tokens_per_second
        fastest = [(f"our kernels at 0 %: {speed:.4g} tokens/s", speed)]
    ceiling = _ceiling(lines, [*fastest, *(("", y) for _, y in beside)])
    right = Panel("tokens/s, p10 to p90", tuple(fastest), dense, ceiling)
    left = Panel("speed-up over PyTorch dense", ((_PYTORCH, 1.0), *best))
    return Chart(lines, left, right, tuple(curve.note for curve in dense))


def _lines(
    rows: Sequence[Any],
    fields: Sequence[str],
    *,
    left: Callable[[Any], float],
    right: Callable[[Any], tuple[float, float, float]],
    readout: Callable[[str, Any], str],
    marker: Callable[[Any], int],
    pattern: Callable[[Any], Any],
) -> tuple[ChartLine, ...]:
    """Return one line for all rows that agree in the fields; of rows with one target the latest.

    The names of lines say the method, and of the other fields those in which the lines differ.
    """
    groups: dict[tuple[str, ...], dict[float, Any]] = {}  # by target
    for row in sorted(rows, key=lambda row: row.recorded):
        groups.setdefault(tuple(map(row.cell, fields)), {})[row.record.point.sparsity] = row
    differing = [i for i in range(len(fields)) if i == 0 or len({key[i] for key in groups}) > 1]
    patterns = sorted({pattern(row) for row in rows})
    lines = []
    for key, by_target in sorted(groups.items()):
        name = ", ".join(key[i] for i in differing)
        ordered = sorted(by_target.values(), key=lambda row: (row.record.measured_sparsity, row.record.point.sparsity))
        measured = [right(row) for row in ordered]
        lines.append(
            ChartLine(
                name=name,
                method=key[0].partition(" ")[0],
                marker=marker(ordered[0]),
                pattern=patterns.index(pattern(ordered[0])),
                x=tuple(100.0 * row.record.measured_sparsity for row in ordered),
                left=tuple(left(row) for row in ordered),
                right=tuple(median for _, median, _ in measured),
                spans=tuple((low, high) for low, _, high in measured),
                readouts=tuple(readout(name, row) for row in ordered),
            )
        )
    return tuple(lines)


def _best_dense(dense: "Sequence[LatencyRow]") -> list[tuple[str, LatencyRecord]]:
    """Return each dtype's strongest dense product and its name, where it is not PyTorch's."""
    best: dict[str, LatencyRecord] = {}
    for record in sorted((row.record for row in dense), key=lambda record: record.speedup):
        best[record.point.dtype] = record
    return [
        (_of_dtype("best dense", dtype, best), record)
        for dtype, record in sorted(best.items())
        if record.point.backend != VENDOR
    ]


def _dense_ms(rows: "Sequence[LatencyRow]", dense: "Sequence[LatencyRow]") -> tuple[tuple[str, float], ...]:
    """Return each dtype's PyTorch dense time and its best dense time.

    PyTorch's is the median of its times in turns with the points, to which their speed-ups refer; its own row, timed
    alone, may differ.
    """
    beside: dict[str, list[float]] = {}
    for row in rows:
        beside.setdefault(row.record.point.dtype, []).append(row.record.dense_ms)
    times = {dtype: statistics.median(milliseconds) for dtype, milliseconds in sorted(beside.items())}
    texts = [(f"{_of_dtype(_PYTORCH, dtype, times)} {value:.4g} ms", value) for dtype, value in times.items()]
    best = [(f"{name} {record.median_ms:.4g} ms", record.median_ms) for name, record in _best_dense(dense)]
    return (*texts, *best)


def _of_dtype(name: str, dtype: str, dtypes: Collection[str]) -> str:
    return f"{name} {dtype}" if len(dtypes) > 1 else name


def _ceiling(lines: Sequence[ChartLine], references: Sequence[tuple[str, float]]) -> float:
    """Return twice the largest median, so that one slow turn in ten does not flatten all the others."""
    return 2.0 * max([*(y for line in lines for y in line.right), *(y for _, y in references)], default=math.inf)


def _kept_bound(lines: Sequence[ChartLine]) -> tuple[Curve, ...]:
    """Return 1 / (1 - s) up to the largest sparsity, or to the headroom above the speed-ups."""
    height = max([_LEAST_HEIGHT, *(_HEADROOM * value for line in lines for value in line.left)])
    end = min(max((x for line in lines for x in line.x), default=0.0) / 100.0, 1.0 - 1.0 / height)
    if end <= 0.0:
        return ()
    points = tuple((100.0 * s, 1.0 / (1.0 - s)) for s in _steps(end))
    note = "1 / (1 − s) bounds the speed-up of a product that reads the kept weights alone"
    return (Curve("bound 1 / (1 − s)", note, points),)


def _bandwidth_bounds(rows: "Sequence[LatencyRow]", lines: Sequence[ChartLine]) -> tuple[Curve, ...]:
    """Return the time of reading the kept weights at the memory bandwidth, a curve for each size of weights."""
    end = max((x for line in lines for x in line.x), default=0.0) / 100.0
    curves = []
    by_size = {DTYPE_BYTES[row.record.point.dtype]: row.record for row in sorted(rows, key=lambda row: row.recorded)}
    for size, latest in sorted(by_size.items()) if end > 0.0 else ():
        dense_ms = latest.point.outputs * latest.point.inputs * size / latest.bandwidth / 1e6
        bandwidth = f"{latest.bandwidth:.3g}"
        name = f"{bandwidth} GB/s, {8 * size} bits"
        note = f"memory bandwidth {bandwidth} GB/s: bound of reading the kept weights at {8 * size} bits"
        curves.append(Curve(name, note, tuple((100.0 * s, dense_ms * (1.0 - s)) for s in _steps(end))))
    return tuple(curves)


def _steps(end: float) -> list[float]:
    return [end * step / _CURVE_STEPS for step in range(_CURVE_STEPS + 1)]


def _product_readout(name: str, row: "LatencyRow") -> str:
    record = row.record
    return _DOT.join(
        (
            name,
            _sparsities(row),
            f"{record.median_ms:.4g} ms (p10 {record.p10_ms:.4g}, p90 {record.p90_ms:.4g})",
            *_speedups(row),
            f"{record.gigabytes_per_second:.4g} GB/s, {100 * record.roofline:.1f} % of the memory bandwidth",
            *filter(None, (instability(row),)),
        )
    )


def _decode_readout(name: str, row: "DecodeRow") -> str:
    return _DOT.join(
        (
            name,
            _sparsities(row),
            f"{row.record.tokens_per_second:.4g} tokens/s (p10 {row.record.p10:.4g}, p90 {row.record.p90:.4g})",
            *_speedups(row),
            *filter(None, (instability(row),)),
        )
    )


def dense_name(backend: str) -> str:
    return DENSE_NAMES.get(backend) or f"our kernel at 0 % ({backend})"


def instability(row: "LatencyRow | DecodeRow") -> str:
    """Return why a point is unstable; empty for a stable one."""
    reasons = []
    if row.record.spread > STEADY:
        reasons.append(f"runs disagree by {percent_apart(row.record.spread)}")
    if row.record.dense_spread > STEADY:
        reasons.append(f"dense runs disagree by {percent_apart(row.record.dense_spread)}")
    if row.drift > STEADY:
        reasons.append(f"dense beside it is off by {row.drift:.2f} times")
    return f"⚠ unstable: {', '.join(reasons)}" if reasons else ""


def _speedups(row: "LatencyRow | DecodeRow") -> list[str]:
    """Return the speed-up over PyTorch's dense product, and over the best one if others were timed."""
    texts = [f"{row.record.speedup:.3g} × PyTorch dense"]
    if row.best_speedup is not None:
        texts.append(f"{row.best_speedup:.3g} × best dense")
    return texts


def _sparsities(row: "LatencyRow | DecodeRow") -> str:
    """Return measured and target sparsity, and by how far the target is missed where that is beyond tolerance."""
    measured, target = row.record.measured_sparsity, row.record.point.sparsity
    both = f"measured {percent(measured)}, target {short_percent(target)}"
    miss = target_miss(measured, target)
    return f"{both}{_DOT}{miss}" if miss else both
