"""The columns of the results table: how each reads, sorts and aligns."""

import time
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from wina_app.models.row_table import UNKNOWN, Column, TableEntry
from wina_core.accounting import sparsity_warning

if TYPE_CHECKING:  # SQLAlchemy takes a second to import: only the store's thread does
    from wina_core.store import MetricRow

WARNING = "\N{WARNING SIGN}"
"""Before a number that has a warning as its tool tip."""


def _plain(key: str, width: int, explanation: str = "") -> Column:
    def value(row: "MetricRow") -> str:
        return str(getattr(row, key))

    return Column(key, key, value, value, width=width, explanation=explanation)


def _percentage(key: str, explanation: str) -> Column:
    def value(row: "MetricRow") -> float | None:
        fraction = getattr(row, f"{key}_sparsity")
        return None if fraction is None else round(100.0 * fraction, 10)

    def text(row: "MetricRow") -> str:
        shown = value(row)
        return UNKNOWN if shown is None else _minus(f"{shown:.1f}")

    return Column(key, f"{key} %", value, text, numeric=True, width=8, explanation=explanation)


def _sparsity_warning(row: "MetricRow") -> str:
    return sparsity_warning(row.counted_sparsity, row.full_sparsity)


def _full() -> Column:
    """The full sparsity, marked where the shortcuts cost more than the sparsity bought."""
    plain = _percentage("full", "The same with shortcuts, norms and added biases counted as kept; may be negative")

    def text(row: "MetricRow") -> str:
        return f"{WARNING} {plain.text(row)}" if _sparsity_warning(row) else plain.text(row)

    return replace(plain, text=text, tip=_sparsity_warning)


def number(value: float | None) -> str:
    """Six significant digits, with a real minus sign."""
    return UNKNOWN if value is None else _minus(f"{value:.6g}")


def error_text(stderr: float | None) -> str:
    """A standard error with two significant digits."""
    return UNKNOWN if stderr is None else f"{stderr:.2g}"


def count_text(n: int | None) -> str:
    """Thousands apart: 16384 -> "16,384"."""
    return UNKNOWN if n is None else f"{n:,}"


def moment(seconds: float) -> str:
    """Local date and time, to the second."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def _minus(text: str) -> str:
    return text.replace("-", "\N{MINUS SIGN}")


COLUMNS: tuple[Column, ...] = (
    _plain("model", 14),
    _plain("method", 8),
    _plain("rotation", 16),
    _plain("selection", 8, "topk: an exact number of inputs per token; threshold: a calibrated one for all"),
    _percentage("target", "Sparsity asked for: the uniform target, or the plan's budget"),
    _percentage("counted", "Sparsity measured from the masks, over the gated weights"),
    _full(),
    _plain("task", 14),
    _plain("metric", 18),
    Column("value", "value", lambda row: row.value, lambda row: number(row.value), numeric=True, width=12),
    Column("stderr", "± stderr", lambda row: row.stderr, lambda row: error_text(row.stderr), numeric=True, width=8),
    Column(
        "n",
        "n",
        lambda row: row.n,
        lambda row: count_text(row.n),
        numeric=True,
        width=7,
        explanation="Documents (tasks) or tokens (deviation) behind the value",
    ),
    Column("when", "when", lambda row: moment(row.finished), lambda row: moment(row.finished)[:16], width=15),
    _plain("status", 8, "Of the run; its finished units stay valid whatever became of the rest"),
    _plain("plan", 8, "How the sparsity plan came to be"),
    _plain("settings", 12, "What of the evaluation differs from the defaults"),
    Column(
        "warning",
        "warning",
        lambda row: row.warning,
        lambda row: row.warning,
        width=8,
        explanation="Where a rotation costs more than it saves, or a choice was made on the text of the evaluation",
    ),
)
BY_KEY = {column.key: index for index, column in enumerate(COLUMNS)}


class Entry(TableEntry):
    """A stored metric with what the table shows of it."""

    columns = COLUMNS

    def __init__(self, row: "MetricRow", columns: tuple[Column, ...] = COLUMNS) -> None:
        """`columns` are those of a study, where its table has others."""
        self.columns = columns
        super().__init__((row.run, row.unit, row.task, row.metric), row)

    @cached_property
    def folded(self) -> tuple[str, ...]:
        """The texts without case, to search in."""
        return tuple(text.casefold() for text in self.texts)
