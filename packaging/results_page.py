"""The guide's results page, written from committed measurements.

    python packaging/results_page.py                   write resources/guide/results.md
    python packaging/results_page.py --database FILE   first take the studies' numbers from a results database

The page is the template `resources/results/page.md.j2` with tables made of the CSV files beside it, which have columns
of `wina export`, and of the benchmarks' JSON files.
"""

import argparse
import csv
import json
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, StrictUndefined

from wina_core.analysis.comparison.frontier import pareto_front
from wina_core.studies.published import COMMONSENSE

ROOT = Path(__file__).resolve().parents[1]
NUMBERS = ROOT / "resources" / "results"
PAGE = ROOT / "resources" / "guide" / "results.md"
COLUMNS = (
    *("model", "rotation", "method", "selection", "plan", "target_sparsity", "gated_sparsity", "net_sparsity"),
    *("task", "metric", "value", "stderr"),
)
METRICS = ("kl", "perplexity", "error")
SCORES = ("acc", "acc_norm", "pct_stereotype")
"""Metrics of tasks, which only the files of real models' studies have."""
WORTH = {
    "bits_held": ("original", "bits held"),
    "bits_read": ("original", "bits read"),
    "kl": ("original", "KL, in 1/1000"),
    "top1_agreement": ("original", "same top token"),
    "bytes_held": ("cost", "MB held"),
}
"""Metrics of the table of bits and gates: the task that reports each, and its column."""
EVERY_TASK = {"": ""}
OF_PEER = "of float32's"
TOLERANCE = 0.005
"""Distance of measured and target sparsity from which a number gets a dagger."""

Row = dict[str, str]
Shown = Callable[[Row], str]


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description="Write resources/guide/results.md from stored numbers.")
    parser.add_argument("--database", metavar="FILE", help="first take the studies' numbers from this database")
    options = parser.parse_args(arguments)
    if options.database:
        refresh(options.database)
    PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True, trim_blocks=True)
    real_sizes = sorted((ROOT / "kernels" / "benchmarks" / "results").glob("real-size-*.json"))
    environment.globals.update(
        study=study_table,
        scores=scores_table,
        front=front_table,
        worth=worth_table,
        products=products_table,
        cost=cost_table,
        has=has_numbers,
        results=_benchmark,
        real_sizes=[json.loads(file.read_text(encoding="utf-8")) for file in real_sizes],
        COMMONSENSE=COMMONSENSE,
    )
    return environment.from_string((NUMBERS / "page.md.j2").read_text(encoding="utf-8")).render()


def refresh(database: str) -> None:
    """Write the CSV file of each study in the database again, with every digit."""
    from wina_core.store import MetricFilter, Store

    with Store(database) as store:
        hashes = {row.name: row.study for row in reversed(store.studies())}  # the last launched of a name
        for file in sorted(NUMBERS.glob("*-*.csv")):
            if file.stem not in hashes:
                print(f"{file.stem} is not in the database; its numbers stay.", file=sys.stderr)
                continue
            metrics = metrics_of(file.stem)
            rows = [row for row in store.metric_rows(MetricFilter(study=hashes[file.stem])) if row.metric in metrics]
            _write(file, COLUMNS, ([getattr(row, column) for column in COLUMNS] for row in rows))
    _refresh_costs()


def metrics_of(study: str) -> tuple[str, ...]:
    """Return the metrics in the CSV file of a study."""
    if study == "demo-worth":
        return tuple(WORTH)
    return METRICS + SCORES if study.startswith("real-") else METRICS


def _refresh_costs() -> None:
    """Count the operations of the paper's models, from their configs alone."""
    from wina_core.compute.reporter import NullReporter
    from wina_core.engine.server.cost import count_costs
    from wina_core.jobs import CostJob
    from wina_core.specs import MethodSpec, ModelSource
    from wina_core.specs.plans import UniformSparsity

    lines: list[tuple[object, ...]] = []
    for config in sorted((ROOT / "resources" / "paper" / "configs").iterdir()):
        source, method = ModelSource(location=str(config)), MethodSpec(name="wina", masks="shared")
        job = CostJob(model=source, method=method, plan=UniformSparsity(sparsity=0.65))
        gated = [row for row in count_costs(job, NullReporter()).rows if row.rotation != "dense"]
        lines += [(config.name, row.rotation, 0.65, row.gated_flops_saving, row.net_flops_saving) for row in gated]
    columns = ("model", "rotation", "target_sparsity", "gated_flops_saving", "net_flops_saving")
    _write(NUMBERS / "cost.csv", columns, lines)


def _write(file: Path, columns: Sequence[str], lines: Iterable[Sequence[object]]) -> None:
    with file.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream, lineterminator="\n").writerows([columns, *lines])


# ---- tables ----------------------------------------------------------------------------------------------------------


def study_table(
    name: str,
    by: Sequence[str] = ("method", "rotation"),
    metrics: Sequence[str] = ("kl", "perplexity"),
    texts: Mapping[str, str] = EVERY_TASK,
) -> str:
    """Return a study's table: a row for each value of the columns `by`, a column for each quantity and target.

    `texts` has the words behind a metric for each task that measures it, if there are several.
    """
    rows = [row for row in _read(name) if "" in texts or row["task"] in texts]
    quantities: list[tuple[str, str, str, Shown]] = [
        ("measured", "", "", _measured),
        *(
            (f"{ {'kl': 'KL'}.get(metric, metric) }{words}", task, metric, _value)
            for metric in metrics
            for task, words in texts.items()
        ),
        ("net", "", "", lambda row: _percent(row["net_sparsity"])),
    ]
    head = list(by)
    lines = {key: list(key) for key in (_key(row, by) for row in rows)}
    for title, task, metric, show in quantities:
        texts_by_cell = {
            (_key(row, by), float(row["target_sparsity"])): show(row)
            for row in rows
            if metric in ("", row["metric"]) and task in ("", row["task"])
        }
        for target in sorted({target for _, target in texts_by_cell} - {0.0}):
            values = [
                texts_by_cell.get((key, target), texts_by_cell.get((key, 0.0), "")) for key in lines
            ]  # dense has the target 0
            if any(values):
                head.append(f"{title}, {100 * target:g} %")
                for line, value in zip(lines.values(), values, strict=True):
                    line.append(value)
    return _markdown(head, lines.values(), left=len(by))


def has_numbers(name: str) -> bool:
    return (NUMBERS / f"{name}.csv").is_file()


def scores_table(name: str, by: Sequence[str] = ("method", "rotation"), averaged: Sequence[str] | None = None) -> str:
    """Return a study's scores of tasks in percent, a row for each value of the columns `by` and each target, by target.

    A task's score is acc_norm if it has one, or else its other metric of SCORES. The first column of numbers is the
    mean over the tasks `averaged`, all by default, with its standard error; tasks are independent samples.
    """
    scores = _scores(name, by)
    tasks = list(dict.fromkeys(task for task_rows in scores.values() for task in task_rows))
    lines = [
        [
            *key[:-1],
            f"{100 * float(key[-1]):g} %",
            _mean_score(task_rows, averaged or tasks),
            *(_score(task_rows[task]) if task in task_rows else "" for task in tasks),
        ]
        for key, task_rows in scores.items()
    ]
    return _markdown((*by, "target", "mean", *tasks), lines, left=len(by))


def front_table(names: Iterable[str], averaged: Sequence[str]) -> str:
    """Return the Pareto front of each model in these studies: the runs that no other beats in both the net sparsity and
    the mean score over the tasks `averaged`."""
    lines = []
    runs: dict[str, list[tuple[float, float, list[str]]]] = {}
    for name in names:
        for (model, method, rotation, target), task_rows in _scores(name, ("model", "method", "rotation")).items():
            if mean := _mean_score(task_rows, averaged):
                net = float(next(iter(task_rows.values()))["net_sparsity"])
                value = math.fsum(float(task_rows[task]["value"]) for task in averaged)
                text = [model, method, rotation, f"{100 * float(target):g} %", f"{100 * net:.1f}", mean]
                runs.setdefault(model, []).append((net, value, text))
    for points in runs.values():
        points.sort(key=lambda point: point[0])
        front = pareto_front(*np.array([point[:2] for point in points]).T, x_up=True, y_up=True)
        lines += [text for (_, _, text), is_front in zip(points, front, strict=True) if is_front]
    return _markdown(("model", "method", "rotation", "target", "net", "mean"), lines, left=3)


def _scores(name: str, by: Sequence[str]) -> dict[tuple[str, ...], dict[str, Row]]:
    """Return a study's row of each task, by the columns `by` and the target."""
    scores: dict[tuple[str, ...], dict[str, Row]] = {}
    for row in sorted(_read(name), key=lambda row: (row["model"], float(row["target_sparsity"]))):
        if row["metric"] in SCORES:
            task_rows = scores.setdefault((*_key(row, by), row["target_sparsity"]), {})
            if row["metric"] == "acc_norm" or row["task"] not in task_rows:
                task_rows[row["task"]] = row
    return scores


def _score(row: Row) -> str:
    stderr = row["stderr"]
    return f"{100 * float(row['value']):.1f}" + (f" ± {100 * float(stderr):.1f}" if stderr else "")


def _mean_score(scores: dict[str, Row], tasks: Sequence[str]) -> str:
    """Return the mean over tasks with its standard error; empty if one of them has no score."""
    rows = [scores[task] for task in tasks if task in scores]
    if len(rows) < len(tasks):
        return ""
    mean = math.fsum(float(row["value"]) for row in rows) / len(rows)
    has_errors = all(row["stderr"] for row in rows)
    stderr = str(math.hypot(*(float(row["stderr"]) for row in rows)) / len(rows)) if has_errors else ""
    return _score({"value": str(mean), "stderr": stderr})


def worth_table(name: str) -> str:
    """Return a study's table of bits and gates, a row for each run, by bits read."""
    rows_by_run: dict[tuple[str, ...], dict[str, Row]] = {}
    for row in _read(name):
        if row["metric"] in WORTH and row["task"] == WORTH[row["metric"]][0]:
            rows_by_run.setdefault(_key(row, ("model", "rotation", "method", "target_sparsity")), {})[row["metric"]] = (
                row
            )
    lines = []
    for (model, rotation, method, target), metric_rows in rows_by_run.items():
        if "kl" not in metric_rows:
            continue
        weights = model.partition(", ")[2].rstrip(")") or model.partition("(")[2].rstrip(")")
        gates = "" if method == "dense" else f"{100 * float(target):g} %"
        values = [_worth(metric_rows[metric]) if metric in metric_rows else "" for metric in WORTH]
        lines.append([weights, "none" if rotation == "none" else "free", gates, *values])
    lines.sort(key=lambda line: -float(line[4] or 99))
    return _markdown(("weights", "rotation", "dropped", *(title for _, title in WORTH.values())), lines, left=3)


def _worth(row: Row) -> str:
    value, stderr = float(row["value"]), row.get("stderr") or ""
    if row["metric"] == "kl":
        return f"{1000 * value:.3f} ± {1000 * float(stderr):.3f}" if stderr else f"{1000 * value:.3f}"
    if row["metric"] == "top1_agreement":
        return f"{100 * value:.1f} %"
    return f"{value / 1e6:.1f}" if row["metric"] == "bytes_held" else f"{value:.2f}"


def products_table() -> str:
    """Return the rate of reading weights in gated products, a row for each matrix, format and kernel."""
    rates: dict[tuple[str, str], list[str]] = {}
    shares: dict[tuple[str, str], str] = {}
    head = ["matrix", "weights, kernel"]
    for comparison in _benchmark("kernels/product")["comparisons"]:
        setting = comparison["setting"]
        dropped = f"{100 * setting['dropped']:g} %"
        head += [] if f"GB/s at {dropped}" in head else [f"GB/s at {dropped}"]
        for timing in comparison["timings"]:
            key = f"{setting['outputs']} x {setting['inputs']}", timing["name"]
            rates.setdefault(key, []).append(f"{timing['facts']['GB/s']:.1f}")
            if setting["dropped"] == 0.5:
                shares[key] = f"{100 * timing['facts'][OF_PEER]:.0f} %"
    rates = {key: row_rates for key, row_rates in rates.items() if key in shares}  # planes are timed at 0 % alone
    return _markdown(
        (*head, "of float32's at 50 %"), [[*key, *row_rates, shares[key]] for key, row_rates in rates.items()], left=2
    )


def cost_table() -> str:
    """Return the savings of a token's operations for the paper's models, a column for each rotation."""
    lines: dict[str, list[str]] = {}
    head = ["model", "as the paper counts"]
    for row in _read("cost"):
        line = lines.setdefault(row["model"], [row["model"], _percent(row["gated_flops_saving"])])
        line.append(_percent(row["net_flops_saving"]))
        head += [] if row["rotation"] in head else [row["rotation"]]
    return _markdown(head, lines.values(), left=1)


def _markdown(head: Iterable[str], lines: Iterable[Iterable[str]], left: int) -> str:
    head = list(head)
    rule = ["---"] * left + ["---:"] * (len(head) - left)
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, rule, *lines))


def _read(name: str) -> list[Row]:
    with (NUMBERS / f"{name}.csv").open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def _benchmark(name: str) -> Any:
    folder, _, file = name.partition("/")
    return json.loads((ROOT / folder / "benchmarks" / "results" / f"{file}-cpu.json").read_text(encoding="utf-8"))


def _key(row: Row, by: Sequence[str]) -> tuple[str, ...]:
    return tuple(row[column] for column in by)


def _percent(fraction: str) -> str:
    return f"{100 * float(fraction):.1f}" if fraction else ""


def _measured(row: Row) -> str:
    measured = row["gated_sparsity"]
    # 1e-9: decimal fractions at exactly the tolerance are no miss.
    misses = measured and abs(float(measured) - float(row["target_sparsity"])) > TOLERANCE + 1e-9
    return _percent(measured) + ("†" if misses else "")


def _value(row: Row) -> str:
    value = float(row["value"])
    if row["metric"] == "perplexity":
        return f"{value:.2f}"
    if row["metric"] == "error":
        return f"{value:.3f}"
    return f"{value:.2g}" if 0 < value < 0.001 else f"{value:.4f}"


if __name__ == "__main__":
    main(sys.argv[1:])
