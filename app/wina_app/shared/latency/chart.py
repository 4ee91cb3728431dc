"""Lines of both latency plots, from the rows of one machine, subject and load."""

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from wina_app.shared.measured_sparsity import short_percent, target_miss
from wina_app.style.number_format import percent
from wina_app.style.translation import tr
from wina_core.specs import DENSE
from wina_core.specs.latency import BACKENDS

if TYPE_CHECKING:  # SQLAlchemy takes a second to import: only the store's thread does
    from wina_core.store import DecodeRow, LatencyRow

YAxis = Literal["speedup", "roofline"]
Y_AXES: dict[YAxis, tuple[str, str]] = {
    "speedup": (
        tr("Speed-up"),
        tr("Times as fast as dense; the roofline is what reading fewer bytes allows, 1 / (1 − s)"),
    ),
    "roofline": (
        tr("Fraction of the roofline"),
        tr("Of the speed at which the memory could bring the bytes that are needed"),
    ),
}
_ROOFLINE_STEPS = 64
_HEADROOM = 1.5
"""Largest drawn roofline over the largest speed-up: beyond, it would flatten everything else."""
_LEAST_HEIGHT = 3.0
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
    keys: tuple[str, ...]
    """`matching_key` of each point."""


@dataclass(frozen=True)
class Panel:
    """One plot beside its lines."""

    title: str
    """Title of the y axis, with its unit."""
    references: tuple[tuple[str, float], ...]
    """(name, value) of the dashed horizontal lines."""
    roofline: tuple[tuple[float, float], ...] = ()
    """(sparsity in percent, bound of the speed-up)."""
    ceiling: float = math.inf
    """Largest visible value; longer error bars leave the plot at its top."""


@dataclass(frozen=True)
class Chart:
    """Both plots."""

    lines: tuple[ChartLine, ...]
    left: Panel
    right: Panel


def matching_key(method: str, sparsity: float) -> str:
    """Return what a timed point and an evaluated run have in common: the method's name and the target sparsity."""
    return f"{method.partition(' ')[0]} {sparsity:.3f}"


def product_chart(rows: "Iterable[LatencyRow]", y_axis: YAxis) -> Chart:
    """Chart speed-up or fraction of the roofline, and milliseconds; dense is a reference, one for each dtype."""
    found = list(rows)
    gated = [row for row in found if row.method != DENSE.name]
    lines = _lines(
        gated,
        ("method", "backend", "dtype", "selection"),
        left=(lambda row: row.speedup) if y_axis == "speedup" else (lambda row: 100.0 * row.roofline),
        right=lambda row: (row.p10_ms, row.median_ms, row.p90_ms),
        readout=_product_readout,
        marker=lambda row: BACKENDS.index(row.backend) if row.backend in BACKENDS else len(BACKENDS),
        pattern=lambda row: (row.dtype, row.selection),
    )
    dense = _dense_ms(found)
    if y_axis == "speedup":
        left = Panel(tr("speed-up over dense"), (("dense", 1.0),), _roofline(lines))
    else:
        left = Panel(tr("of the roofline (%)"), ((tr("memory bandwidth"), 100.0),))
    return Chart(lines, left, Panel(tr("latency, p10 to p90 (ms)"), dense, ceiling=_ceiling(lines, dense)))


def decode_chart(rows: "Iterable[DecodeRow]", y_axis: YAxis) -> Chart:  # noqa: ARG001 - as product_chart
    """Chart speed-up and tokens per second; a model has no roofline of its own here."""
    found = list(rows)
    lines = _lines(
        found,
        ("method", "rotation", "selection"),
        left=lambda row: row.speedup,
        right=lambda row: (row.p10, row.tokens_per_second, row.p90),
        readout=_decode_readout,
        marker=lambda row: sorted({each.rotation for each in found}).index(row.rotation),
        pattern=lambda row: row.selection,
    )
    dense = statistics.median(row.dense_tokens_per_second for row in found) if found else None
    references = () if dense is None else ((tr("dense {speed} tokens/s", speed=f"{dense:.4g}"), dense),)
    right = Panel(tr("tokens/s, p10 to p90"), references, ceiling=_ceiling(lines, references))
    return Chart(lines, Panel(tr("speed-up over dense"), (("dense", 1.0),)), right)


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
        groups.setdefault(tuple(getattr(row, field) for field in fields), {})[row.sparsity] = row
    differing = [i for i in range(len(fields)) if i == 0 or len({key[i] for key in groups}) > 1]
    patterns = sorted({pattern(row) for row in rows})
    lines = []
    for key, by_target in sorted(groups.items()):
        name = ", ".join(key[i] for i in differing)
        ordered = sorted(by_target.values(), key=lambda row: (row.measured_sparsity, row.sparsity))
        measured = [right(row) for row in ordered]
        lines.append(
            ChartLine(
                name=name,
                method=key[0].partition(" ")[0],
                marker=marker(ordered[0]),
                pattern=patterns.index(pattern(ordered[0])),
                x=tuple(100.0 * row.measured_sparsity for row in ordered),
                left=tuple(left(row) for row in ordered),
                right=tuple(median for _, median, _ in measured),
                spans=tuple((low, high) for low, _, high in measured),
                readouts=tuple(readout(name, row) for row in ordered),
                keys=tuple(matching_key(row.method, row.sparsity) for row in ordered),
            )
        )
    return tuple(lines)


def _dense_ms(rows: "Sequence[LatencyRow]") -> tuple[tuple[str, float], ...]:
    """Return each dtype's median dense time, measured in turns with the rows."""
    by_dtype: dict[str, list[float]] = {}
    for row in rows:
        by_dtype.setdefault(row.dtype, []).append(row.dense_ms)
    return tuple(
        (f"dense{f' {dtype}' if len(by_dtype) > 1 else ''} {statistics.median(times):.4g} ms", statistics.median(times))
        for dtype, times in sorted(by_dtype.items())
    )


def _ceiling(lines: Sequence[ChartLine], references: Sequence[tuple[str, float]]) -> float:
    """Return twice the largest median, so that one slow turn in ten does not flatten all the others."""
    return 2.0 * max([*(y for line in lines for y in line.right), *(y for _, y in references)], default=math.inf)


def _roofline(lines: Sequence[ChartLine]) -> tuple[tuple[float, float], ...]:
    """Return 1 / (1 - s) up to the largest sparsity, or to the headroom above the speed-ups."""
    height = max([_LEAST_HEIGHT, *(_HEADROOM * value for line in lines for value in line.left)])
    end = min(max((x for line in lines for x in line.x), default=0.0) / 100.0, 1.0 - 1.0 / height)
    if end <= 0.0:
        return ()
    steps = (end * step / _ROOFLINE_STEPS for step in range(_ROOFLINE_STEPS + 1))
    return tuple((100.0 * s, 1.0 / (1.0 - s)) for s in steps)


def _product_readout(name: str, row: "LatencyRow") -> str:
    return _DOT.join(
        (
            name,
            _sparsities(row),
            f"{row.median_ms:.4g} ms (p10 {row.p10_ms:.4g}, p90 {row.p90_ms:.4g})",
            f"{row.speedup:.3g} × dense",
            tr(
                "{bandwidth} GB/s, {percentage} % of the roofline",
                bandwidth=f"{row.gigabytes_per_second:.4g}",
                percentage=f"{100 * row.roofline:.1f}",
            ),
        )
    )


def _decode_readout(name: str, row: "DecodeRow") -> str:
    return _DOT.join(
        (
            name,
            _sparsities(row),
            tr(
                "{median} tokens/s (p10 {p10}, p90 {p90})",
                median=f"{row.tokens_per_second:.4g}",
                p10=f"{row.p10:.4g}",
                p90=f"{row.p90:.4g}",
            ),
            f"{row.speedup:.3g} × dense",
        )
    )


def _sparsities(row: "LatencyRow | DecodeRow") -> str:
    """Return measured and target sparsity, and by how far the target is missed where that is beyond tolerance."""
    both = tr(
        "measured {measured}, target {target}",
        measured=percent(row.measured_sparsity),
        target=short_percent(row.sparsity),
    )
    miss = target_miss(row.measured_sparsity, row.sparsity)
    return f"{both}{_DOT}{miss}" if miss else both
