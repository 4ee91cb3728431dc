"""Tables on stdout: aligned text for people, JSON for programs."""

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

import typer

from wina_core.errors import without_controls
from wina_core.records import QuantizationReport
from wina_core.specs import COST, FIDELITY, ORIGINAL, OWN_UNITS, EvaluationSpec
from wina_core.store import MetricRow
from wina_core.studies.published import preferred_metric

PIVOT_COLUMNS = ("model", "method", "rotation", "gated", "net", "target")

_SUMMARY = {
    ORIGINAL: ("kl", "kl_p99", "delta_p_rms", "top1_agreement", "perplexity_ratio", "bits_read"),
    COST: ("net_bytes", "net_bytes_saving", "net_flops_saving", "bytes_held"),
}
"""Metrics in tables for people of units that have many."""

_DIFFERING = ("selection", "plan", "settings")
"""Columns where not all rows have the same."""


def pivot(rows: Iterable[MetricRow]) -> tuple[list[str], list[list[Any]]]:
    """Return one row per run, one column per task and metric; columns for selection, plan and settings that differ.

    `gated` and `net` are those of the run's first metric, and so is the warning that some runs may have.
    """
    rows = list(rows)
    metrics = {
        (row.task, row.metric): row.metric if row.task == FIDELITY else f"{row.task} {row.metric}" for row in rows
    }
    runs: dict[str, list[MetricRow]] = {}
    for row in rows:
        runs.setdefault(row.run, []).append(row)
    extra = [name for name in _DIFFERING if len({getattr(row, name) for row in rows}) > 1]
    warnings = {run: found[0].warning for run, found in runs.items()}
    warned = any(warnings.values())
    columns = [*PIVOT_COLUMNS, *extra, *metrics.values(), *(["warning"] if warned else [])]
    table = []
    for run, found in runs.items():
        first = found[0]
        values = {(row.task, row.metric): row.value for row in found}
        table.append(
            [
                *(first.model, first.method, first.rotation),
                *(first.gated_sparsity, first.net_sparsity, first.target_sparsity),
                *(getattr(first, name) for name in extra),
                *(values.get(key) for key in metrics),
                *([warnings[run]] if warned else []),
            ]
        )
    return columns, table


def one_line_each(rows: Iterable[MetricRow]) -> tuple[list[str], list[list[Any]]]:
    """Return one row per metric of each run; columns for selection, plan and settings that differ."""
    rows = list(rows)
    extra = [name for name in _DIFFERING if len({getattr(row, name) for row in rows}) > 1]
    table = [
        [
            *(row.model, row.method, row.rotation, row.gated_sparsity, row.net_sparsity, row.target_sparsity),
            *(getattr(row, name) for name in extra),
            *(row.task, row.metric, row.value, row.stderr, row.n),
        ]
        for row in rows
    ]
    return [*PIVOT_COLUMNS, *extra, "task", "metric", "value", "stderr", "n"], table


def summarized(rows: Iterable[MetricRow]) -> list[MetricRow]:
    """Return the rows without details; of runs that only counted the cost of a token, all."""
    rows = list(rows)
    if {row.unit for row in rows} <= {COST}:
        return rows
    return [row for row in rows if row.metric in _SUMMARY.get(row.unit, (row.metric,))]


def shown_first(rows: Iterable[MetricRow], evaluation: EvaluationSpec | None = None) -> list[MetricRow]:
    """Sort rows that tables show first to the front: the workbench's own numbers, and of every requested task the
    metric that `evaluation` declares or the published evaluation prefers."""
    rows = list(rows)
    metrics: dict[str, list[str]] = {}
    for row in rows:
        metrics.setdefault(row.task, []).append(row.metric)
    declared = evaluation.metrics if evaluation else {}
    shown = {task: declared.get(task) or preferred_metric(names) for task, names in metrics.items()}
    return sorted(
        rows, key=lambda row: row.unit not in OWN_UNITS and (row.task, row.metric) != (row.unit, shown[row.task])
    )


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], as_json: bool) -> None:
    """Print rows under their columns, or as a JSON list of objects with every digit (NaN and infinities as words)."""
    if as_json:
        objects = [{name: _plain(cell) for name, cell in zip(columns, row, strict=True)} for row in rows]
        typer.echo(json.dumps(objects, indent=1, ensure_ascii=False, allow_nan=False))
        return
    texts = [list(columns), *([_readable(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    numeric = [all(isinstance(cell, int | float | None) for cell in column) for column in zip(*rows, strict=True)]
    for line in texts:
        cells = zip(line, widths, numeric or [False] * len(widths), strict=True)
        typer.echo(
            "  ".join(text.rjust(width) if right else text.ljust(width) for text, width, right in cells).rstrip()
        )


def print_pairs(pairs: dict[str, Any]) -> None:
    """Print one line for each name and value."""
    width = max(map(len, pairs))
    for name, value in pairs.items():
        typer.echo(f"{name.ljust(width)}  {_readable(value)}")


def quantization_pairs(report: QuantizationReport) -> dict[str, Any]:
    """Return the changes by quantizing, for `print_pairs`."""
    return {
        "quantization": report.quantization,
        "its logits deviation": report.logits_deviation,
        "its KL divergence": report.kl,
        "its seconds": report.seconds,
    }


def _readable(cell: Any) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, float):
        return f"{cell:.4g}"
    return (
        f"{cell:,}"
        if isinstance(cell, int) and not isinstance(cell, bool)
        else " ".join(without_controls(str(cell)).splitlines())
    )


def _plain(cell: Any) -> Any:
    return str(cell) if isinstance(cell, float) and not math.isfinite(cell) else cell
