"""The paper's published numbers, cell by cell, from `resources/paper/results.csv`."""

import csv
from collections.abc import Collection, Mapping
from functools import cache
from typing import NamedTuple

from wina_core.files.paths import resources_folder
from wina_core.records import METRIC_UNITS
from wina_core.specs import SYNTHETIC

MEAN = "average"
"""The task of numbers that are means over the tasks of `mean_weights`."""

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
"""LongBench's groups and their numbers of data sets: "Overall" is the mean over data sets, not groups."""

_PREFERENCE = ("acc_norm", "exact_match,flexible-extract", "acc")
"""The metrics of the published evaluation."""
_NEXT = ("pct_stereotype", "pass@1", "score", "exact_match", "word_perplexity", "perplexity", "kl", "error")


class PublishedNumber(NamedTuple):
    """One cell of one of the paper's tables."""

    study: str
    """Group of tables: "commonsense", "additional", "quantization", "ablation", "longbench", "gsm8k",
    "crows_pairs", "synthetic", "gflops"."""
    table: str
    """Number as printed, and title."""
    model: str
    """As printed, "Llama-2-7B", which is also the role in studies; "synthetic" for random networks."""
    quantization: str
    method: str
    """As printed; "dense" for the full model, "CATS/TEAL" for both."""
    sparsity: float
    column: str
    """As printed."""
    task: str
    """lm-eval's name, MEAN, or the workbench's own: "cost" and the names of random networks."""
    metric: str
    """As stored; "mean" for means, whose tasks have metrics of their own."""
    value: float
    """As printed: stored fractions in percent."""


@cache
def published(study: str = "") -> tuple[PublishedNumber, ...]:
    """Return the numbers of a study in the paper's order, or all; empty for a study of others."""
    if study:
        return tuple(number for number in published() if number.study == study)
    with (resources_folder() / "paper" / "results.csv").open(encoding="utf-8", newline="") as file:
        _, *rows = csv.reader(file)  # the header names the fields
    return tuple(
        PublishedNumber(study, table, model, bits, method, float(sparsity), column, task, metric, float(value))
        for study, table, model, bits, method, sparsity, column, task, metric, value in rows
    )


def published_value(
    study: str, model: str, configuration: str, sparsity: float, task: str, metric: str = "", quantization: str = "none"
) -> float | None:
    """Return one number as printed; None where the paper has none.

    `model` is a role's name, `configuration` a configuration's; the dense one has one number for all sparsities.
    Without `metric`, the task's only one: standard deviations have metrics of their own.
    """
    cell = (study, model, quantization, 0.0 if configuration == "dense" else round(sparsity, 6), task)
    for number in _by_cell().get(cell, ()):
        if configuration in (number.method, *number.method.split("/")) and metric in ("", number.metric):
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
    """Return the weight of each task in a study's MEAN; empty where the study has none."""
    if study == "longbench":
        return _LONGBENCH
    return dict.fromkeys(COMMONSENSE, 1) if any(number.task == MEAN for number in published(study)) else {}


def preferred_metric(metrics: Collection[str]) -> str | None:
    """Return a task's metric for tables: the published evaluation's preference, if any.

    A metric may have its filter after a comma, as "pass@1,create_test". None where all are standard deviations.
    """
    for preferred in (*_PREFERENCE, *_NEXT):
        if preferred in metrics:
            return preferred
        for name in metrics:
            if base_metric(name) == preferred:
                return name
    return next((name for name in metrics if not name.endswith("_deviation")), None)


def base_metric(metric: str) -> str:
    """Return a metric's name without its filter: "exact_match" of "exact_match,flexible-extract"."""
    return metric.partition(",")[0]


def display_scale(metric: str) -> float:
    """Return the factor from a stored to a printed value: 100 for fractions, else 1."""
    return 100.0 if METRIC_UNITS.get(base_metric(metric)) == "fraction" else 1.0


class ErrorBar(NamedTuple):
    """Mean and deviation over 20 seeds, of the paper's errors over randomly initialized networks (section 3.4)."""

    mean: float
    deviation: float

    def holds(self, value: float) -> bool:
        """Return whether a value, rounded to the table's two digits, is at most one deviation from the mean."""
        # Differences of decimals are inexact in binary: equality needs a margin.
        return abs(round(value, 2) - self.mean) <= self.deviation + 1e-9


ERROR_SPARSITIES = (0.25, 0.40, 0.50, 0.65)
ERROR_SIZE = 1024
"""The width that reproduces the table; the paper does not state it."""

_ARMS = {"teal": "TEAL", "cats": "CATS", "rsparse": "R-Sparse", "wina": "WINA"}
"""The methods' names in the registry: those in the paper."""


def paper_error(network: str, method: str, sparsity: float) -> ErrorBar | None:
    """Return the table's cell or None; CATS shares TEAL's row."""
    configuration = _ARMS.get(method, method)
    mean, deviation = (
        published_value("synthetic", SYNTHETIC, configuration, sparsity, network, metric)
        for metric in ("error", "error_deviation")
    )
    return None if mean is None or deviation is None else ErrorBar(mean, deviation)
