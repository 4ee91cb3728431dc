"""Tables on stdout: aligned text for people, JSON for programs."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import typer

from wina_core.api.stored import DIFFERING, PIVOT_COLUMNS
from wina_core.errors import without_controls
from wina_core.files.tables import finite_or_text
from wina_core.records import QuantizationReport
from wina_core.specs import COST, ORIGINAL
from wina_core.store import MetricRow

_SUMMARY = {
    ORIGINAL: ("kl", "kl_p99", "delta_p_rms", "top1_agreement", "perplexity_ratio", "bits_read"),
    COST: ("net_bytes", "net_bytes_saving", "net_flops_saving", "bytes_held"),
}
"""Metrics in tables for people of units that have many."""


def one_line_each(rows: Iterable[MetricRow]) -> tuple[list[str], list[list[Any]]]:
    """Return one row per metric of each run; columns for selection, plan and settings that differ."""
    rows = list(rows)
    extra = [name for name in DIFFERING if len({getattr(row, name) for row in rows}) > 1]
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


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], as_json: bool) -> None:
    """Print rows under their columns, or as a JSON list of objects with every digit (NaN and infinities as words)."""
    if as_json:
        objects = [{name: finite_or_text(cell) for name, cell in zip(columns, row, strict=True)} for row in rows]
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


def counted(count: int, noun: str) -> str:
    """Return "1 job" or "2,000 jobs"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


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
