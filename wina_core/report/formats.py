"""Formats of numbers, the same in HTML, Markdown and LaTeX."""

import math

from wina_core.records import METRIC_UNITS, noise_of
from wina_core.report.layout import ABSENT, Cell
from wina_core.studies.published import base_metric

AGREES, DIFFERS = "≈", "≠"
TWO_DIGITS = ("l2 norm", "fraction", "per token", "per word", "per byte")


def number(value: float, metric: str) -> str:
    """Write a value as the paper prints it: two decimals, for other units four significant digits."""
    if abs(value) < noise_of(metric):
        return "0"
    if not math.isfinite(value):
        return str(value)
    unit = METRIC_UNITS.get(base_metric(metric))
    return f"{value:.2f}" if metric == "mean" or unit in TWO_DIGITS else f"{value:.4g}"


def signed(value: float, metric: str) -> str:
    """Write a value with its sign, and a typographic minus."""
    text = number(abs(value), metric)
    return f"{'−' if value < 0 else '+'}{text}"


def ours(cell: Cell) -> str:
    """Write the cell's own value, with its deviation over seeds or its distance from neutral."""
    value = cell.value
    if value is None:
        return f"{ABSENT} ({cell.missing} missing)" if cell.missing else ""
    text = number(value.value, value.metric)
    if value.deviation is not None:
        return f"{text} ± {number(value.deviation, value.metric)}"
    if base_metric(value.metric) == "pct_stereotype":
        return f"{text} ({number(abs(value.value - 50), value.metric)})"
    return text


def papers(cell: Cell) -> str:
    """Write the published value, ours minus it, and its agreement; empty without a published value."""
    if cell.paper is None:
        return ""
    metric = cell.value.metric if cell.value else "mean"
    text = number(cell.paper, metric)
    if cell.paper_deviation is not None:
        text += f" ± {number(cell.paper_deviation, metric)}"
    if cell.difference is not None:
        mark = {True: f" {AGREES}", False: f" {DIFFERS}", None: ""}[cell.agrees]
        text += f", {signed(cell.difference, metric)}{mark}"
    return text
