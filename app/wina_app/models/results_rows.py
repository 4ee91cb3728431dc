"""The columns of the results table: how each reads, sorts and aligns."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # SQLAlchemy takes a second to import: only the store's thread does
    from wina_core.store import MetricRow

UNKNOWN = "\N{EN DASH}"
"""Shown where there is no number."""

Value = str | float | int | None


@dataclass(frozen=True)
class Column:
    """One column: `value` is what is sorted and exported, `text` what is shown."""

    key: str
    title: str
    value: Callable[["MetricRow"], Value]
    text: Callable[["MetricRow"], str]
    numeric: bool = False
    width: int = 10
    """In digits."""
    explanation: str = ""


def _plain(key: str, title: str, width: int, explanation: str = "") -> Column:
    return Column(
        key, title, lambda row: getattr(row, key), lambda row: getattr(row, key), width=width, explanation=explanation
    )


def _percentage(key: str, title: str, explanation: str) -> Column:
    def value(row: "MetricRow") -> float | None:
        fraction = getattr(row, f"{key}_sparsity")
        return None if fraction is None else 100.0 * fraction

    def text(row: "MetricRow") -> str:
        shown = value(row)
        return UNKNOWN if shown is None else f"{shown:.1f}".replace("-", "\N{MINUS SIGN}")

    return Column(key, title, value, text, numeric=True, width=9, explanation=explanation)


def number(value: float | None) -> str:
    """Six significant digits, with a real minus sign."""
    return UNKNOWN if value is None else f"{value:.6g}".replace("-", "\N{MINUS SIGN}")


def error_text(stderr: float | None) -> str:
    """A standard error with two significant digits."""
    return UNKNOWN if stderr is None else f"{stderr:.2g}"


def moment(seconds: float) -> str:
    """Local date and time to the minute, which sorts as text too."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


COLUMNS: tuple[Column, ...] = (
    _plain("model", "model", 16),
    _plain("method", "method", 10),
    _plain("rotation", "rotation", 18),
    _plain("selection", "selection", 10),
    _percentage("target", "target %", "Sparsity asked for: the uniform target, or the plan's budget"),
    _percentage("counted", "counted %", "Sparsity measured from the masks over the gated weights"),
    _percentage("full", "full %", "Measured sparsity with the rotation's shortcuts counted as kept weights"),
    _plain("task", "task", 16),
    _plain("metric", "metric", 14),
    Column("value", "value", lambda row: row.value, lambda row: number(row.value), numeric=True, width=10),
    Column(
        "stderr",
        "± stderr",
        lambda row: row.stderr,
        lambda row: error_text(row.stderr),
        numeric=True,
        width=9,
    ),
    Column(
        "n",
        "n",
        lambda row: row.n,
        lambda row: UNKNOWN if row.n is None else f"{row.n:,}",
        numeric=True,
        width=8,
        explanation="Documents (tasks) or tokens (deviation) behind the value",
    ),
    _plain("plan", "plan", 8, "How the sparsity plan came to be"),
    _plain("settings", "settings", 12, "What of the evaluation differs from the defaults"),
    Column("when", "when", lambda row: row.finished, lambda row: moment(row.finished), width=15),
    _plain("status", "status", 9, "Of the run"),
)
