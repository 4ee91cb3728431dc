"""The paper's published numbers, cell by cell, as in `resources/paper/results.csv`. Light: it never imports torch."""

import csv
from collections.abc import Collection, Mapping
from functools import cache
from typing import NamedTuple

from wina_core.files.paths import resources_folder
from wina_core.records import METRIC_UNITS

MEAN = "average"
"""The task of numbers that are means over tasks, `mean_weights` says which."""

COMMONSENSE = ("piqa", "arc_challenge", "winogrande", "hellaswag", "sciq", "openbookqa", "boolq", "arc_easy")
"""lm-eval's names of the eight commonsense tasks, in the order of the paper's columns."""

_LONGBENCH = {
    "longbench_code": 2,
    "longbench_fewshot": 4,
    "longbench_summarization": 4,
    "longbench_multi": 4,
    "longbench_single": 4,
    "longbench_synthetic": 3,
}
"""LongBench's groups and how many data sets each has: "Overall" is the mean over the data sets, not over the groups."""

_PREFERENCE = ("acc_norm", "exact_match,flexible-extract", "acc")
"""Of the published evaluation."""
_NEXT = ("pct_stereotype", "pass@1", "score", "exact_match", "word_perplexity", "perplexity", "kl", "error")


class PublishedNumber(NamedTuple):
    """One cell of one of the paper's tables."""

    study: str
    """What belongs together: "commonsense", "additional", "quantization", "ablation", "longbench", "gsm8k",
    "crows_pairs", "synthetic", "gflops"."""
    table: str
    """Number as printed, and title."""
    model: str
    """As printed, "Llama-2-7B", or "synthetic" for random networks; what studies name as a role."""
    quantization: str
    method: str
    """As printed, "dense" for the full model; "CATS/TEAL" stands for both."""
    sparsity: float
    column: str
    """As printed."""
    task: str
    """lm-eval's name, MEAN, or the workbench's own: "cost" and the names of random networks."""
    metric: str
    """As the workbench stores it; "mean" for means, whose tasks have metrics of their own."""
    value: float
    """As printed: in percent what is stored as a fraction."""


@cache
def published(study: str = "") -> tuple[PublishedNumber, ...]:
    """The numbers of a study in the paper's order, or all; empty for a study that is not the paper's."""
    if study:
        return tuple(number for number in published() if number.study == study)
    with (resources_folder() / "paper" / "results.csv").open(encoding="utf-8", newline="") as file:
        _, *rows = csv.reader(file)  # the header names the fields
    return tuple(map(_number, rows))


def _number(row: list[str]) -> PublishedNumber:
    study, table, model, quantization, method, sparsity, column, task, metric, value = row
    return PublishedNumber(
        study, table, model, quantization, method, float(sparsity), column, task, metric, float(value)
    )


def published_value(
    study: str, model: str, arm: str, sparsity: float, task: str, metric: str = "", quantization: str = "none"
) -> float | None:
    """One number as printed; None where the paper has none.

    `model` is a role's name, `arm` an arm's; the dense arm has one number whatever the sparsity. Without `metric`, the
    task's only one: its numbers' deviations have metrics of their own.
    """
    wanted = (study, model, quantization, 0.0 if arm == "dense" else round(sparsity, 6), task)
    for number in _by_cell().get(wanted, ()):
        if arm in (number.method, *number.method.split("/")) and metric in ("", number.metric):
            return number.value
    return None


@cache
def _by_cell() -> Mapping[tuple[str, str, str, float, str], list[PublishedNumber]]:
    cells: dict[tuple[str, str, str, float, str], list[PublishedNumber]] = {}
    for number in published():
        key = (number.study, number.model, number.quantization, number.sparsity, number.task)
        cells.setdefault(key, []).append(number)
    return cells


def mean_weights(study: str) -> Mapping[str, int]:
    """The tasks of a study's MEAN and how much each counts in it; empty where the study has none."""
    if study == "longbench":
        return _LONGBENCH
    return dict.fromkeys(COMMONSENSE, 1) if any(number.task == MEAN for number in published(study)) else {}


def preferred_metric(metrics: Collection[str]) -> str | None:
    """The metric that tables show of a task that has these: the published evaluation's preference where it says one.

    A metric may have its filter after a comma, as "pass@1,create_test". Standard deviations and the like are never
    preferred; None where nothing is left.
    """
    for wanted in (*_PREFERENCE, *_NEXT):
        found = wanted if wanted in metrics else next((name for name in metrics if base_metric(name) == wanted), None)
        if found is not None:
            return found
    return next((name for name in metrics if not name.endswith("_deviation")), None)


def base_metric(metric: str) -> str:
    """A metric's name without its filter: "exact_match" of "exact_match,flexible-extract"."""
    return metric.partition(",")[0]


def display_scale(metric: str) -> float:
    """What a stored value is multiplied by to be printed as the paper does: fractions in percent."""
    return 100.0 if METRIC_UNITS.get(base_metric(metric)) == "fraction" else 1.0
