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

from jinja2 import Environment, StrictUndefined

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
    environment.globals.update(study=study_table, benchmark=benchmark_table, products=products_table, cost=cost_table)
    environment.globals.update(prompts=prompts_table, real_size=real_size_table, scaling=scaling_table)
    environment.globals.update(sharing=sharing_table, has=has_numbers, scores=scores_table, COMMONSENSE=COMMONSENSE)
    environment.globals.update(peers=peers_table, peer_bars=peer_bars, planes=planes_table, worth=worth_table)
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
            with file.open("w", newline="", encoding="utf-8") as stream:
                writer = csv.writer(stream, lineterminator="\n")
                writer.writerow(COLUMNS)
                writer.writerows([getattr(row, column) for column in COLUMNS] for row in rows)

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

    with (NUMBERS / "cost.csv").open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(("model", "rotation", "target_sparsity", "gated_flops_saving", "net_flops_saving"))
        for config in sorted((ROOT / "resources" / "paper" / "configs").iterdir()):
            source, method = ModelSource(location=str(config)), MethodSpec(name="wina", masks="shared")
            job = CostJob(model=source, method=method, plan=UniformSparsity(sparsity=0.65))
            gated = [row for row in count_costs(job, NullReporter()).rows if row.rotation != "dense"]
            writer.writerows(
                (config.name, row.rotation, 0.65, row.gated_flops_saving, row.net_flops_saving) for row in gated
            )


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
    scores: dict[tuple[str, ...], dict[str, Row]] = {}
    for row in sorted(_read(name), key=lambda row: (row["model"], float(row["target_sparsity"]))):
        if row["metric"] in SCORES:
            task_rows = scores.setdefault((*_key(row, by), f"{100 * float(row['target_sparsity']):g} %"), {})
            if row["metric"] == "acc_norm" or row["task"] not in task_rows:
                task_rows[row["task"]] = row
    tasks = list(dict.fromkeys(task for task_rows in scores.values() for task in task_rows))
    lines = [
        [
            *key,
            _mean_score(task_rows, averaged or tasks),
            *(_score(task_rows[task]) if task in task_rows else "" for task in tasks),
        ]
        for key, task_rows in scores.items()
    ]
    return _markdown((*by, "target", "mean", *tasks), lines, left=len(by))


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


def benchmark_table(*files: str) -> str:
    """Return the medians and ratios of benchmarks, one row for each timing beside its peer."""
    lines = []
    for file in files:
        for comparison in _benchmark(file)["comparisons"]:
            setting = comparison["setting"]
            threads = f"{setting['threads']} thread{'s' * (setting['threads'] > 1)}"
            where = ", ".join(filter(None, (setting.get("dtype"), threads)))
            for timing in comparison["timings"]:
                if timing["name"] != comparison["peer"]:
                    aim = timing["at_most"]
                    lines.append(
                        [
                            *(timing["name"], where, comparison["peer"]),
                            _seconds(timing["wall_seconds"]["median"]),
                            f"{timing['wall_ratio']['median']:.2f}",
                            "" if aim is None else f"{aim:.2f}",
                        ]
                    )
    head = ("timed", "setting", "peer", "median", "time over the peer's", "aim, at most")
    return _markdown(head, lines, left=3)


def prompts_table() -> str:
    """Return the times of prompts and batches through gates over those of the dense model, a row for each input."""
    lines = []
    for comparison in _benchmark("kernels/prompts")["comparisons"]:
        setting = comparison["setting"]
        batch, tokens = setting["batch"], setting["tokens"]
        dense, *gated = comparison["timings"]
        input_text = f"a batch of {batch}" if batch > 1 else f"{tokens} tokens"
        ratios = [f"{timing['wall_ratio']['median']:.2f}" for timing in gated]
        lines.append([str(setting["bits"]), input_text, _seconds(dense["wall_seconds"]["median"]), *ratios])
    return _markdown(("bits", "input", "dense", "0 % dropped, over dense", "50 %"), lines, left=2)


def real_size_table() -> str:
    """Return time and memory of each stage on models of real size, a row for each model, limit and stage."""
    lines = []
    for file in sorted((ROOT / "kernels" / "benchmarks" / "results").glob("real-size-*.json")):
        results = json.loads(file.read_text(encoding="utf-8"))
        setting = results["setting"]
        weights = setting["weights_bytes"]
        for stage in results["stages"]:
            peak = stage["peak_bytes"]
            lines.append(
                [
                    f"{setting['shape'].removesuffix('b')} B, {weights / 1e9:.1f} GB",
                    setting["memory"] or "",
                    stage["name"],
                    str(stage.get("kills", "") or ""),
                    f"{stage['seconds']:,.0f} s",
                    f"{peak / 1e9:.1f} GB",
                    f"{peak / weights:.2f}",
                ]
            )
    head = (
        "model",
        "limit",
        "stage",
        "killed",
        "time",
        "peak",
        "over the weights (aim: 1.35 at 1.1 B)",
    )
    return _markdown(head, lines, left=3)


def scaling_table() -> str:
    """Return the exponents of the costs in streaming mode, a row for each size."""
    costs = _benchmark("kernels/scaling")["costs"]
    lines = [
        [name, ", ".join(map(str, cost["sizes"])), *(f"{value:.2f}" for value in cost["exponents"].values())]
        for name, cost in costs.items()
    ]
    return _markdown(("size", "measured at", "rotation", "evaluation"), lines, left=2)


def sharing_table() -> str:
    """Return the time of one and of five configurations that share a pass, a row for each length of the text."""
    lines = [
        [f"{row['tokens']:,}", f"{row['one_seconds']:.0f} s", f"{row['five_seconds']:.0f} s", f"{row['ratio']:.2f}"]
        for row in _benchmark("kernels/scaling")["sharing"]["lengths"]
    ]
    return _markdown(("tokens of text", "one", "five", "five over one"), lines, left=1)


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


def peers_table() -> str:
    """Return decoding speeds beside llama.cpp and transformers, a row for each width."""
    speeds = {}
    for line in _benchmark("kernels/peers")["speeds"]:
        speed = line["tokens_per_second"]
        text = f"{speed['median']:.1f} ({speed['p10']:.1f} to {speed['p90']:.1f})"
        speeds[line["contender"], line["bits"], line["sparsity"]] = text
    lines = [
        [
            str(bits),
            ", ".join(f"{kind} {speeds[kind, 0, 0.0]}" for kind in kinds),
            speeds.get(("transformers", bits, 0.0), ""),
            *(speeds["gated", bits, sparsity] for sparsity in (0.0, 0.5, 0.65)),
        ]
        for bits, kinds in ((16, ("F16",)), (8, ("Q8_0",)), (4, ("Q4_0", "Q4_K_M")))
    ]
    return _markdown(("bits", "llama.cpp, dense", "transformers, dense", "ours, 0 %", "50 %", "65 %"), lines, left=2)


def planes_table() -> str:
    """Return decoding speeds of planes by the bits that they read."""
    lines = [
        [
            f"{line['bits_read']:g}",
            f"{100 * line['sparsity']:.0f} %",
            "{median:.1f} ({p10:.1f} to {p90:.1f})".format(**line["tokens_per_second"]),
            f"{line['over Q4_0']:.2f}",
        ]
        for line in _benchmark("kernels/peers")["speeds"]
        if line["contender"] == "planes"
    ]
    return _markdown(("bits read, about", "dropped", "tokens per second", "over Q4_0"), lines, left=1)


def peer_bars() -> str:
    """Return the speeds over llama.cpp's and their aims."""
    lines = [
        [bar["bar"].removeprefix("tokens per second "), f"{bar['measured']:.2f}", f"{bar['wanted']:.1f}"]
        for bar in _benchmark("kernels/peers")["bars"]
    ]
    return _markdown(("speed", "median of the turns' ratios", "aim, at least"), lines, left=1)


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


def _seconds(value: float) -> str:
    return f"{value:.2f} s" if value >= 1 else f"{1000 * value:.0f} ms"


if __name__ == "__main__":
    main(sys.argv[1:])
