"""All measurements of the kernels on a GPU, by one command that takes at most eight minutes:

    python kernels/benchmarks/run.py gpu

Five parts, each in a process of its own, so that one that fails or hangs loses nothing of the others:

- device: a copy's bandwidth, the time of a launch in a CUDA graph, and every kernel against the reference;
- products: gated at 40, 50 and 65 %, 1 to 8 rows, in bfloat16, INT8 and INT4, against the vendor's dense call and a
  split-K kernel of TEAL's published design;
- variants: a design of the product that does not ship, beside the shipped one;
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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from gpu_products import bars as product_bars
from wina_kernels.gpu import tiles
from wina_kernels.gpu.operands import INTERPRETED

from wina_core.compute.session.environment import environment
from wina_core.files.tables import write_atomically

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parents[2] / "resources" / "guide" / "gpu.md"
HEADING = "## Measured on a GPU"
_SHOWN = ("wina", "teal", "split-k")
LEAST_TURNS = 3
SECONDS = {"device": 55.0, "products": 95.0, "variants": 60.0, "decoding": 95.0, "evaluation": 25.0}
"""Seconds of each part's measurements, without its start: IN_ALL with `_START` for each."""
IN_ALL = 480.0
_START = 30.0
"""Longest start of a part's process, and longest case that is under way when its time is over."""
_TAIL = 3000
"""Characters kept of what a failed part wrote to stderr."""
_TOY_CACHE = 1 << 16
_MERGED = {"evaluation": ("gpu_decoding", "measure_evaluation")}
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
    versions = {**machine.versions, "triton": _triton(), "cuda": str(torch.version.cuda)}
    content: dict[str, Any] = {"benchmark": "gpu", "hardware": machine.hardware, "versions": versions, "failures": []}
    for name, seconds in SECONDS.items():
        left = math.inf if toy else IN_ALL - (time.perf_counter() - start)
        print(f"{time.perf_counter() - start:6.0f} s  {name}", flush=True)
        measured, why = run_part(name, math.inf if toy else min(seconds, left), left, toy, content)
        content[name] = measured
        if why:
            content["failures"].append({"part": name, "why": why})
            print(f"{name} failed; the other parts go on.\n{why}", file=sys.stderr, flush=True)
        content |= {"bars": bars(content), "seconds": time.perf_counter() - start}
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
    with tempfile.TemporaryDirectory() as folder:
        file, errors = Path(folder) / "part.json", Path(folder) / "stderr"
        arguments = [name, str(file), str(seconds), json.dumps(copy), json.dumps(toy)]
        with errors.open("wb") as stderr:
            process = subprocess.Popen([sys.executable, __file__, *arguments], stderr=stderr, env=_paths())
            try:
                longest = min(seconds + _START, at_most)
                code, why = process.wait(timeout=None if math.isinf(longest) else longest), ""
            except subprocess.TimeoutExpired:
                process.kill()
                code, why = process.wait(), "it did not end in its time and was stopped; "
            finally:
                process.kill()  # if the benchmark is interrupted; one that has ended ignores it
        measured = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        if code == 0:
            return measured, ""
        return measured, f"{why}exit code {code}\n{errors.read_text(encoding='utf-8', errors='replace')[-_TAIL:]}"


def _paths() -> dict[str, str]:
    # A part imports what this process imports, from the same folders.
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def bars(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    product_bar_lines: list[dict[str, Any]] = product_bars(content.get("products", {}).get("lines", ()))
    return product_bar_lines + content.get("decoding", {}).get("bars", [])


def _triton() -> str:
    import triton

    return str(triton.__version__)


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
    page.write_text(before + "\n".join(section(content)), encoding="utf-8")


def write_launches(page: Path, steps: Sequence[Content]) -> None:
    """Replace the lines of the page's table of launches."""
    lines = page.read_text(encoding="utf-8").splitlines()
    new = list(launch_table(steps))
    first = lines.index(new[0])
    end = lines.index("", first)
    page.write_text("\n".join([*lines[:first], *new, *lines[end:]]) + "\n", encoding="utf-8")


def launch_table(steps: Iterable[Content]) -> Iterator[str]:
    """Yield the table of counted steps, those of `launches.json`."""
    rows = [
        (
            step["step"], step["gates"], f"{100 * step['sparsity']:g} %", str(step["context"]),
            str(step["launches_outside"]),
            f"{step['megabytes_outside']:.1f}", f"{step['microseconds_outside']:.0f}",
            f"{100 * step['share_outside']:.1f} %",
        )
        for step in steps
    ]  # fmt: skip
    head = ("step", "gates", "dropped", "context", "launches outside", "MB outside", "µs outside", "of the token")
    yield from _table(head, rows)


def section(content: Content) -> Iterator[str]:
    versions = content["versions"]
    yield from (HEADING, "")
    yield f"{content['hardware']}, torch {versions['torch']}, CUDA {versions['cuda']}, Triton {versions['triton']}."
    yield f"Measured in {content['seconds']:.0f} s by `python kernels/benchmarks/run.py gpu`."
    yield from ("", *_bars(content["bars"]))
    for subsection in (_device, _decoding, _evaluation, _products, _variants):
        lines = list(subsection(content))
        yield from (*lines, "") if lines else ()
    for failure in content["failures"]:
        yield from (f"The part *{failure['part']}* failed:", "")
        yield from (*(f"    {line}" for line in failure["why"].strip().splitlines()[-12:]), "")


def _bars(bars: Sequence[Content]) -> Iterator[str]:
    if not bars:
        return
    rows = [
        (bar["bar"], f"{bar['wanted']:g}", f"{bar['measured']:.3f}", "met" if bar["met"] else "missed") for bar in bars
    ]
    yield from _table(("aim", "wanted", "measured", ""), rows)
    missed = [f"- {bar['bar']}: {'; '.join(bar['missed'])}." for bar in bars if bar["missed"]]
    yield from ("", "Missed:", "", *missed) if missed else ()
    yield ""


def _device(content: Content) -> Iterator[str]:
    device = content.get("device", {})
    if "copy_gb_per_second" in device:
        launch = device.get("launch_microseconds")
        took = "" if launch is None else f"; a launch in a CUDA graph takes {launch:.2f} µs"
        yield f"A copy moves {device['copy_gb_per_second']:.0f} GB/s{took}."
    checks = device.get("checks", [])
    failed = [check for check in checks if not check["passed"]]
    if checks:
        yield f"{len(checks) - len(failed)} of {len(checks)} checks of the kernels against the reference passed."
    if failed:
        yield from ("", *(f"- {check['check']}: {check['why']}" for check in failed))


def _decoding(content: Content) -> Iterator[str]:
    decoding = content.get("decoding", {})
    if "tokens_per_second" not in decoding:
        return
    yield from ("### Decoding a Llama of 8 billion random parameters", "")
    yield f"One sequence in bfloat16, {100 * decoding['dropped']:.1f} % dropped, in CUDA graphs."
    yield f"The best gated way is {decoding['speed_up']:.2f} times as fast as the best dense one; bytes allow"
    yield f"{decoding['speed_up_allowed_by_bytes']:.2f}."
    yield from (f"Not fused: {reason}." for reason in decoding["not_fused"])
    for way, agreement in decoding.get("tokens_that_agree", {}).items():
        yield f"Tokens of *{way}* equal those of transformers' step in the first {100 * agreement:.0f} %."
    yield ""
    rows = [
        (way, *(f"{speed[name]:.1f}" for name in ("median", "p10", "p90")))
        for way, speed in decoding["tokens_per_second"].items()
    ]
    yield from _table(("model, step", "tokens/s", "p10", "p90"), rows)


def _evaluation(content: Content) -> Iterator[str]:
    evaluation = content.get("evaluation", {})
    if "tokens_per_second" in evaluation:
        yield f"Fidelity, dense and gated together: {evaluation['tokens_per_second']['median']:.0f} tokens/s in batches"
        yield f"of {evaluation['batch']} rows of {evaluation['sequence']} tokens."


def _products(content: Content) -> Iterator[str]:
    products = content.get("products", {})
    lines = [line for line in products.get("lines", ()) if line["contender"] in _SHOWN]
    if not lines:
        return
    yield from ("### Gated products on the GPU", "")
    yield "Against the vendor's dense product in bfloat16, and a split-K kernel of TEAL's design."
    if products["left_out"]:
        yield f"Left out for lack of time: {'; '.join(products['left_out'])}."
    yield ""
    rows = [
        (
            f"{line['outputs']} x {line['inputs']}", str(line["batch"]), line["format"], line["contender"],
            f"{100 * line['sparsity']:g} %", f"{1000 * line['milliseconds']['median']:.1f}",
            f"{line['gb_per_second']:.0f}", f"{100 * line['of_copy']:.0f} %" if "of_copy" in line else "-",
            f"{1 / line['over_vendor']:.2f}", f"{1 / line['over_split-k']:.2f}" if "over_split-k" in line else "-",
        )
        for line in lines
    ]  # fmt: skip
    head = ("shape", "rows", "weights", "kernel", "dropped", "µs", "GB/s", "of copy", "vs dense", "vs split-K")
    yield from _table(head, rows)


def _variants(content: Content) -> Iterator[str]:
    lines = content.get("variants", {}).get("lines", ())
    if not lines:
        return
    yield from ("### A design that does not ship", "")
    yield f"Kept inputs are listed first; one row, bfloat16, {100 * lines[0]['sparsity']:g} % dropped."
    yield ""
    rows = [
        (
            f"{line['outputs']} x {line['inputs']}", line["contender"], f"{1000 * line['milliseconds']:.1f}",
            f"{line['over_shipped']:.2f}", f"{100 * line['deviation']:.2g} %",
        )
        for line in lines
    ]  # fmt: skip
    yield from _table(("shape", "kernel", "µs", "of the shipped one", "deviation"), rows)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    yield from (f"| {' | '.join(row)} |" for row in rows)


if __name__ == "__main__":
    main_of_part(sys.argv[1:])
