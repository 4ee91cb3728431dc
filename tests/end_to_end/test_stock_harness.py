"""The dense model's numbers are those of the stock lm-eval command line on the same folder, to the last digit."""

import json
import os
import subprocess
import sys
from pathlib import Path

DEMO = Path(__file__).parents[2] / "resources" / "demo"
TASKS = ("demo_choice", "demo_ppl")
LIMIT, BATCH = 40, 8


def stock_results(folder: Path) -> dict[str, dict[str, float]]:
    """What `lm_eval --model hf` writes, as task -> metric -> value."""
    command = [
        *(sys.executable, "-m", "lm_eval", "run", "--model", "hf"),
        *("--model_args", f"pretrained={DEMO / 'model'},dtype=float32", "--device", "cpu"),
        *("--tasks", ",".join(TASKS), "--include_path", DEMO / "tasks"),
        *("--limit", LIMIT, "--batch_size", BATCH, "--output_path", folder),
    ]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "hub")}
    subprocess.run([str(word) for word in command], check=True, cwd=DEMO.parents[1], env=environment)
    (file,) = folder.rglob("results_*.json")
    return json.loads(file.read_text())["results"]


def our_results(folder: Path) -> dict[str, dict[str, float]]:
    """What `wina eval` stores for the dense method, in the same form."""
    command = [
        *(sys.executable, "-m", "wina_core.cli", "eval", "--model", "demo", "--method", "dense", "--no-deviation"),
        *("--dtype", "float32", "--device", "cpu", "--tasks", ",".join(TASKS)),
        *("--limit", LIMIT, "--batch-size", BATCH, "--name", "stock"),
    ]
    environment = {**os.environ, "WINA_HOME": str(folder)}
    subprocess.run([str(word) for word in command], check=True, env=environment)
    table = folder / "results.json"
    export = [sys.executable, "-m", "wina_core.cli", "export", str(table), "--study", "stock"]
    subprocess.run(export, check=True, env=environment)
    results: dict[str, dict[str, float]] = {task: {} for task in TASKS}
    for row in json.loads(table.read_text()):
        results[row["task"]][row["metric"]] = row["value"]
        if row["stderr"] is not None:
            results[row["task"]][f"{row['metric']}_stderr"] = row["stderr"]
    return results


def test_dense_results_equal_the_stock_command_line_to_the_last_digit(tmp_path: Path) -> None:
    stock = stock_results(tmp_path / "stock")
    ours = our_results(tmp_path / "ours")
    for task in TASKS:
        expected = {
            name.removesuffix(",none"): value for name, value in stock[task].items() if isinstance(value, float)
        }
        assert expected, f"lm_eval reported nothing for {task}"
        assert ours[task] == expected
