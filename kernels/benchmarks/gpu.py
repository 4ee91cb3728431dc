"""All measurements of the kernels on a GPU, by one command that takes at most eight minutes:

    python kernels/benchmarks/run.py gpu

Four parts, each in a process of its own, so that one that fails or hangs loses nothing of the others:

- device: a copy's bandwidth and the time of a launch in a CUDA graph;
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

import importlib
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import triton
from gpu_products import bars as product_bars
from jinja2 import Environment
from wina_kernels.gpu import tiles
from wina_kernels.gpu.operands import INTERPRETED

from wina_core.compute.session.environment import environment
from wina_core.files.tables import write_atomically

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parents[2] / "resources" / "guide" / "gpu.md"
HEADING = "## Measured on a GPU"
LEAST_TURNS = 3
SECONDS = {"device": 15.0, "products": 125.0, "decoding": 125.0, "evaluation": 55.0}
"""Seconds of each part's measurements, without its start: IN_ALL with `_START` for each."""
IN_ALL = 480.0
_START = 30.0
"""Longest start of a part's process, and longest case that is under way when its time is over."""
_TAIL = 3000
"""Characters kept of what a failed part wrote to stderr."""
_TOY_CACHE = 1 << 16
_MERGED = {"device": ("gpu_products", "measure_device"), "evaluation": ("gpu_decoding", "measure_evaluation")}
"""Module and function of a part that is in the module of another one."""
Content = Mapping[str, Any]


@dataclass(frozen=True)
class GpuMachine:
    """A device and the numbers that the measurements of all parts need."""

    device: torch.device
    cache_bytes: int
    """Size of the last-level cache."""
    copy: float | None = None
    """Bandwidth of a copy in GB/s (1e9 bytes); None if it is unknown."""


@dataclass
class Budget:
    """Seconds from now on."""

    seconds: float
    _start: float = field(default_factory=time.perf_counter)

    @property
    def left(self) -> float:
        return self.seconds - (time.perf_counter() - self._start)

    def one_of(self, count: int) -> Budget:
        """Return an equal share of the remaining time for the next of `count` cases."""
        return Budget(self.left / count)

    def turns(self, most: int) -> Iterator[int]:
        """Yield 0, 1, ... up to `most` turns; after LEAST_TURNS only those that will probably end in time."""
        start = time.perf_counter()
        for turn in range(most):
            seconds_per_turn = (time.perf_counter() - start) / max(turn, 1)
            if turn >= LEAST_TURNS and self.left < seconds_per_turn:
                return
            yield turn


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
    machine = environment()
    file = out or RESULTS / f"gpu-{re.sub(r'[^a-z0-9]+', '-', machine.hardware.lower()).strip('-')}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    versions = {**machine.versions, "triton": str(triton.__version__), "cuda": str(torch.version.cuda)}
    content: dict[str, Any] = {"benchmark": "gpu", "hardware": machine.hardware, "versions": versions, "failures": []}
    for name, seconds in SECONDS.items():
        left = math.inf if toy else IN_ALL - (time.perf_counter() - start)
        print(f"{time.perf_counter() - start:6.0f} s  {name}", flush=True)
        measured, why = run_part(name, math.inf if toy else min(seconds, left), left, toy, content)
        content[name] = measured
        if why:
            content["failures"].append({"part": name, "why": why})
            print(f"{name} failed; the other parts go on.\n{why}", file=sys.stderr, flush=True)
        bars = product_bars(content.get("products", {}).get("lines", ()))
        bars += content.get("decoding", {}).get("bars", [])
        content |= {"bars": bars, "seconds": time.perf_counter() - start}
        write_atomically(file, (json.dumps(content, indent=1) + "\n").encode())
    for bar in content["bars"]:
        print(f"{'met   ' if bar['met'] else 'MISSED'} {bar['bar']}: {bar['measured']}")
    page = file.with_suffix(".md") if out or toy else PAGE
    write_page(page, content)
    print(f"-> {file}, {page}")
    entries = [tiles.TunedConfig.of(line) for line in content["products"].get("table", ())]
    if entries and not toy:
        tiles.write_entries(entries)
        print(f"{len(entries)} tuned divisions -> {tiles.FILE}")
    if content["failures"]:
        raise SystemExit(
            f"Failed: {', '.join(failure['part'] for failure in content['failures'])}. The rest is written."
        )


def run_part(
    name: str, seconds: float, at_most: float, toy: bool, earlier: Mapping[str, Any]
) -> tuple[dict[str, Any], str]:
    """Measure a part in a process of its own; return its results and the reason of a failure, empty without one.

    The process is ended `_START` after its time, or after `at_most` seconds in all. Results until then are kept.
    """
    if seconds <= 0:
        return {}, "no time was left"
    copy = earlier.get("device", {}).get("copy_gb_per_second")
    longest = min(seconds + _START, at_most)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "part.json"
        command = [sys.executable, __file__, name, str(file), str(seconds), json.dumps(copy), json.dumps(toy)]
        # A part imports what this process imports, from the same folders.
        paths = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        why = ""
        try:
            timeout = None if math.isinf(longest) else longest
            done = subprocess.run(command, stderr=subprocess.PIPE, env=paths, timeout=timeout)
            if done.returncode:
                why = f"exit code {done.returncode}\n{done.stderr.decode(errors='replace')[-_TAIL:]}"
        except subprocess.TimeoutExpired:
            why = "it did not end in its time and was stopped"
        return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}, why


def main_of_part(arguments: Sequence[str]) -> None:
    """Measure a part, NAME FILE SECONDS COPY TOY: FILE is rewritten each time, so that a failure loses nothing."""
    name, file, seconds, copy, toy = arguments
    for content in measure(name, float(seconds), json.loads(copy), json.loads(toy)):
        write_atomically(Path(file), json.dumps(content).encode())


def measure(name: str, seconds: float, copy: float | None, toy: bool) -> Iterator[dict[str, Any]]:
    """Yield all results of a part so far, again and again; `copy` is the copy's bandwidth, None if it is unknown."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    module, function = _MERGED.get(name, (f"gpu_{name}", "measure"))
    measured = getattr(importlib.import_module(module), function)
    if toy and device.type == "cpu":
        cache = _TOY_CACHE
    else:
        from wina_core.compute.latency.device import cache_bytes

        cache = cache_bytes(device)
    yield from measured(toy, GpuMachine(device, cache, copy), Budget(seconds))


def write_page(page: Path, content: Content) -> None:
    """Replace the page's last section; without a page, write one of this section alone."""
    before = page.read_text(encoding="utf-8").partition(HEADING)[0] if page.exists() else ""
    template = Path(__file__).with_name("gpu.md.j2").read_text(encoding="utf-8")
    environment = Environment(trim_blocks=True)
    page.write_text(before + environment.from_string(template).render(content).rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main_of_part(sys.argv[1:])
