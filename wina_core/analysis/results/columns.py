"""Columns of a table of stored metrics: their fields, texts, order and exports."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from wina_core.model_info.cost.warning import chosen_warning, joined, sparsity_warning
from wina_core.records.texts import count_text, error_text, moment, number, percentage_text

if TYPE_CHECKING:  # pandas takes seconds to import; the command line and the window's first paint do without
    import pandas as pd

Value = str | float | int | None

WARNING = "\N{WARNING SIGN}"
"""Before a number that has a warning as its tool tip."""
PINNED = "pinned"


def _same(raw: Any) -> Any:
    return raw


@dataclass(frozen=True)
class ResultColumn:
    """One column. A cell's content is a field of the row, or made of the row.

    `value` makes of it the value to sort, compare and export, and `text` the text to show.
    """

    key: str
    title: str
    source: str = ""
    """Field of a MetricRow, or of its run's RunDetails."""
    of_run: bool = False
    made: "Callable[[pd.DataFrame], pd.Categorical] | None" = None
    """Function of the metrics, in place of a field."""
    numeric: bool = False
    width: int = field(default=10, compare=False)
    """Width in digits."""
    explanation: str = field(default="", compare=False)
    value: Callable[[Any], Value] = _same
    text: Callable[[Any], str] = str
    tip: Callable[[Any], str] | None = None
    """A sentence about the cell; where there is none, or it is empty, the text is shown."""
    usual: bool = True
    """Shown unless a user chose otherwise."""
    heading: str = ""
    """Title in several lines, for a narrow column; the title where it is empty."""


def _column(key: str, width: int, explanation: str = "", **more: Any) -> ResultColumn:
    """Return a column whose title and source are its key unless they are given."""
    named: dict[str, Any] = {"title": key, "source": key, **more}
    return ResultColumn(key, width=width, explanation=explanation, **named)


def _percentage(fraction: float | None) -> float | None:
    # Rounded, since 100 * 0.07 is 7.000000000000001.
    return None if fraction is None or math.isnan(fraction) else round(100.0 * fraction, 10)


def _sparsity(key: str, explanation: str) -> ResultColumn:
    return ResultColumn(
        key,
        f"{key} %",
        f"{key}_sparsity",
        numeric=True,
        width=8,
        explanation=explanation,
        value=_percentage,
        text=lambda fraction: percentage_text(_percentage(fraction)),
    )


def _net_text(sparsities: tuple[float | None, float | None]) -> str:
    """Format a sparsity, marked where the shortcuts cost more than it saves."""
    text = percentage_text(_percentage(sparsities[1]))
    return f"{WARNING} {text}" if sparsity_warning(*sparsities) else text


def _known(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else value


def _words(raw: object) -> str:
    return "" if raw is None else str(raw)


def _pin(pinned: bool) -> str:
    return PINNED if pinned else ""


_FURTHER = {"of_run": True, "usual": False}
"""Settings of a column of runs that is shown on request alone."""


def made_of(frame: "pd.DataFrame", fields: Sequence[str], make: Callable[..., Any]) -> "pd.Categorical":
    """Return what a function makes of several categorical columns, called once for each combination that is there.

    `make` gets None for an absent cell, and may return it.
    """
    import numpy as np
    import pandas as pd

    rows = frame[list(fields)].reset_index(drop=True)
    combinations = rows.groupby(list(fields), observed=True, sort=False, dropna=False).ngroup()
    first = rows.loc[combinations.drop_duplicates().index].astype(object)
    cells = list(map(make, *(first[name].where(first[name].notna(), None) for name in fields)))
    # Cells may be tuples, of which np.array would make a second dimension, and an index several levels.
    codes, categories = pd.factorize(np.fromiter(cells, object, len(cells)))
    return pd.Categorical.from_codes(codes[combinations], pd.Index(categories, tupleize_cols=False))


def _warnings(metrics: "pd.DataFrame") -> "pd.Categorical":
    """Return the warnings of rows."""
    import pandas as pd

    # In steps: of sparsities and tasks together, there may be half a million combinations.
    warnings = {
        "superseded": metrics["superseded"],
        "sparsity": made_of(metrics, ("gated_sparsity", "net_sparsity"), sparsity_warning),
        "chosen": made_of(metrics, ("chosen_on_evaluation", "task"), chosen_warning),
    }
    return made_of(pd.DataFrame(warnings), tuple(warnings), lambda *sentences: joined(sentences))


COLUMNS: tuple[ResultColumn, ...] = (
    _column("model", 14),
    _column("method", 16),
    _column("rotation", 16),
    _column(
        "selection",
        8,
        "topk: an exact number of inputs per token; threshold: one calibrated value for all tokens; mixed: threshold "
        "for gate and up, topk elsewhere",
    ),
    _column("settings", 12, "Evaluation settings that differ from the defaults"),
    _sparsity("gated", "Sparsity measured from the masks, over the gated weights"),
    _column(
        "net",
        8,
        "The same with shortcuts, norms and added biases counted as kept; may be negative",
        title="net %",
        source="",
        made=lambda metrics: made_of(metrics, ("gated_sparsity", "net_sparsity"), lambda *sparsities: sparsities),
        numeric=True,
        value=lambda sparsities: _percentage(sparsities[1]),
        text=_net_text,
        tip=lambda sparsities: sparsity_warning(*sparsities),
    ),
    _sparsity("target", "The plan's: its uniform target, or its budget"),
    _column("task", 14),
    _column("metric", 18),
    _column("value", 12, numeric=True, value=_known, text=lambda value: "nan" if value is None else number(value)),
    _column(
        "stderr",
        8,
        "Standard error over documents, or over rows of a text; none of fewer than 6, whose error is hardly known",
        title="± stderr",
        numeric=True,
        value=_known,
        text=error_text,
    ),
    _column("n", 7, "Documents (tasks) or tokens (fidelity) behind the value", numeric=True, text=count_text),
    _column("when", 15, source="finished", value=moment, text=lambda seconds: moment(seconds)[:16]),
    _column("status", 8, "Status of the run; finished measurements stay valid after any end"),
    _column("plan", 8, "Origin of the sparsity plan: uniform, edited, or an allocator"),
    _column(
        "warning",
        8,
        "Superseded runs, rotations that cost more than they save, choices made on the evaluation's text",
        source="",
        made=_warnings,
    ),
    _column("tags", 12, "Your tags of the run, with commas between", of_run=True),
    _column("note", 20, "Your note on the run", of_run=True),
    _column("pin", 7, "Pinned runs stay at the top", source="pinned", value=_pin, text=_pin, **_FURTHER),
    _column("details", 30, "All settings of the rotation", title="rotation in detail", source="rotation", **_FURTHER),
    _column(
        "fewshot",
        8,
        "Solved examples before each question",
        title="few-shot",
        source="num_fewshot",
        numeric=True,
        text=count_text,
        usual=False,
    ),
    _column("seed", 7, "Seed of the evaluation", numeric=True, **_FURTHER),
    _column("hardware", 20, "Hardware of the run's last computation", **_FURTHER),
    _column("user", 10, "Who computed the run last", **_FURTHER),
    _column("host", 12, "Computer whose program computed the run last", **_FURTHER),
    _column("seconds", 9, "Time to measure the task, or the fidelity", numeric=True, text=error_text, usual=False),
    _column("study", 16, "Studies that contain the run", source="studies", **_FURTHER),
    _column("version", 8, "Version of the task's definition", value=_words, text=_words, usual=False),
    _column(
        "truncated",
        8,
        "Prompts that were longer than the model's window and lost their beginning",
        title="cut off",
        numeric=True,
        text=count_text,
        usual=False,
    ),
    _column("hash", 17, "Content hash that identifies the run", title="run", source="run", usual=False),
)
BY_KEY = {column.key: index for index, column in enumerate(COLUMNS)}
