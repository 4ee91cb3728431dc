"""All measurements of the kernels on a GPU, by one command that takes at most eight minutes:

    python kernels/benchmarks/run.py gpu

Four parts, each in a process of its own, so that one that fails or hangs loses nothing of the others:

- device: a copy's bandwidth, the time of a launch in a CUDA graph, and every kernel against the reference;
- products: gated at 40, 50 and 65 %, 1 to 8 rows, in bfloat16, INT8 and INT4, against the vendor's dense call and a
  split-K kernel of TEAL's published design;
- decoding: a random model of Llama-3-8B's shapes, dense and gated, by transformers' step and by the fused one, all in
  CUDA graphs;
- evaluation: tokens per second of measuring the fidelity of that model.

Each part keeps its time by measuring less often and, at last, by leaving cases out, which the result lists. Expected:
75 % of the copy's bandwidth at 50 %, always faster than split-K, and 1.8 times the dense model's tokens per second.

`results/gpu-<device>.json` is rewritten after each part. At the end, the tables go into `resources/guide/gpu.md`, and
the tuned divisions of work into the table that ships (`wina_kernels/gpu/tuned.json`).
For a functional test in tiny sizes on the processor, with its tables beside FILE:

    TRITON_INTERPRET=1 python kernels/benchmarks/run.py gpu --toy --out FILE
"""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gpu_page
import torch
from gpu_products import bars as product_bars
from wina_kernels.gpu import table
from wina_kernels.gpu.operands import INTERPRETED

from wina_core.compute.session.environment import environment
from wina_core.files.tables import write_atomically

HERE = Path(__file__).parent
RESULTS = HERE / "results"
SECONDS = {"device": 55.0, "products": 175.0, "decoding": 95.0, "evaluation": 35.0}
"""Time of each part's measurements, without its start: 480 seconds with `_START` for each."""
IN_ALL = 480.0
_START = 30.0
"""Longest start of a part's process, and longest case that is under way when its time is over."""
_TAIL = 3000
"""Characters kept of what a failed part wrote to stderr."""


def run(out: Path | None, toy: bool) -> None:
    """Measure, print and write; exit with a message if there is no GPU, and with 1 if a part failed."""
    on_gpu = torch.cuda.is_available()
    if not on_gpu and not (toy and INTERPRETED):
        raise SystemExit(
            f"There is no GPU: torch {torch.__version__} finds no CUDA device here. Where there is one, run: python "
            "kernels/benchmarks/run.py gpu. To see the code run on the processor: TRITON_INTERPRET=1 python "
            "kernels/benchmarks/run.py gpu --toy --out FILE."
        )
    start = time.perf_counter()
    here = environment()
    file = out or RESULTS / f"gpu-{re.sub(r'[^a-z0-9]+', '-', here.hardware.lower()).strip('-')}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    versions = {**here.versions, "triton": _triton(), "cuda": str(torch.version.cuda)}
    content: dict[str, Any] = {"benchmark": "gpu", "hardware": here.hardware, "versions": versions, "failures": []}
    for name, seconds in SECONDS.items():
        left = math.inf if toy else IN_ALL - (time.perf_counter() - start)
        print(f"{time.perf_counter() - start:6.0f} s  {name}", flush=True)
        found, why = run_part(name, math.inf if toy else min(seconds, left), left, toy, content)
        content[name] = found
        if why:
            content["failures"].append({"part": name, "why": why})
            print(f"{name} failed; the other parts go on.\n{why}", file=sys.stderr, flush=True)
        content |= {"bars": bars(content), "seconds": time.perf_counter() - start}
        write_atomically(file, (json.dumps(content, indent=1) + "\n").encode())
    for bar in content["bars"]:
        print(f"{'met   ' if bar['met'] else 'MISSED'} {bar['bar']}: {bar['measured']}")
    page = file.with_suffix(".md") if out or toy else gpu_page.PAGE
    gpu_page.write(page, content)
    print(f"-> {file}, {page}")
    entries = [table.Entry.of(line) for line in content["products"].get("table", ())]
    if entries and not toy:
        table.write(entries)
        print(f"{len(entries)} tuned divisions -> {table.FILE}")
    if content["failures"]:
        raise SystemExit(f"Failed: {', '.join(each['part'] for each in content['failures'])}. The rest is written.")


def run_part(
    name: str, seconds: float, at_most: float, toy: bool, earlier: Mapping[str, Any]
) -> tuple[dict[str, Any], str]:
    """Return what a part measured in a process of its own, and why it failed, empty if it did not.

    The process is ended `_START` after its time, or after `at_most` seconds in all. What it wrote until then is kept.
    """
    if seconds <= 0:
        return {}, "no time was left"
    copy = earlier.get("device", {}).get("copy_gb_per_second")
    with tempfile.TemporaryDirectory() as folder:
        file, errors = Path(folder) / "part.json", Path(folder) / "stderr"
        given = [name, str(file), str(seconds), json.dumps(copy), json.dumps(toy)]
        with errors.open("wb") as stderr:
            process = subprocess.Popen([sys.executable, str(HERE / "gpu_part.py"), *given], stderr=stderr, env=_paths())
            try:
                longest = min(seconds + _START, at_most)
                code, why = process.wait(timeout=None if math.isinf(longest) else longest), ""
            except subprocess.TimeoutExpired:
                process.kill()
                code, why = process.wait(), "it did not end in its time and was stopped; "
            finally:
                process.kill()  # if the benchmark is interrupted; one that has ended ignores it
        found = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        if code == 0:
            return found, ""
        return found, f"{why}exit code {code}\n{errors.read_text(encoding='utf-8', errors='replace')[-_TAIL:]}"


def _paths() -> dict[str, str]:
    """Return the environment of a part, which imports what this process imports."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def bars(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the bars of all parts that have measured something."""
    found: list[dict[str, Any]] = product_bars(content.get("products", {}).get("lines", ()))
    return found + content.get("decoding", {}).get("bars", [])


def _triton() -> str:
    import triton

    return str(triton.__version__)
