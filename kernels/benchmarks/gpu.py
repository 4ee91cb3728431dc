"""All measurements of the kernels on a GPU, by one command that takes some minutes:

    python kernels/benchmarks/run.py gpu

Sparse products of all presets' shapes, gated by TEAL and by WINA, against the vendor's dense call, a split-K kernel of
TEAL's published design, and a copy's bandwidth; and greedy decoding of a random model of Llama-3-8B's shapes. Weights
are cold, contenders take turns, CUDA events time several queued calls in a row, and the division of work is tuned
first.

Expected: 75 % of the copy's bandwidth at 50 % of 5120 x 17920 in bfloat16; at most 3 % for WINA's norms; always faster
than split-K, without clearing the output or atomics; and 1.8 times the tokens per second at 50 %, of the possible 1.87.
`results/gpu-<device>.json` is rewritten after each shape. For a functional test in tiny sizes on the processor:

    TRITON_INTERPRET=1 python kernels/benchmarks/run.py gpu --toy --out FILE
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import split_k
import torch
from gpu_decoding import TOY_DECODING, Decoding, measure_decoding
from torch.nn import functional
from wina_kernels import gpu, tuning
from wina_kernels.gpu.operands import INTERPRETED

from wina_core.compute.latency.arithmetic import copies
from wina_core.compute.latency.device import cache_bytes
from wina_core.compute.latency.products import INPUTS, Inputs, Weights, kept_by_any_row, make_inputs, make_weights
from wina_core.compute.latency.timing import Work
from wina_core.compute.reporter import NullReporter
from wina_core.compute.session.environment import environment
from wina_core.specs.latency import PRESETS, LatencyPoint, Shape

RESULTS = Path(__file__).parent / "results"
TEAL, WINA, SPLIT_K, VENDOR = "teal", "wina", "split-k", ("torch.mv", "F.linear")
_HEAD_START = 4_000_000
"""Cycles, about 2 ms, that keep the device busy while the calls of a turn are queued."""
Line = dict[str, Any]
"""Measurements of one contender."""


@dataclass(frozen=True)
class Products:
    """The grid of products."""

    shapes: tuple[Shape, ...] = tuple({(s.outputs, s.inputs): s for own in PRESETS.values() for s in own}.values())
    batched: tuple[Shape, ...] = PRESETS["paper"]
    batches: tuple[int, ...] = (4, 8)
    dtypes: tuple[str, ...] = ("bfloat16", "float16")
    sparsities: tuple[float, ...] = (0.0, 0.25, 0.4, 0.5, 0.65)
    turns: int = 9
    uncounted: int = 3
    """Turns before those that count."""
    calls: int = 8
    """Calls in a row, each on another copy of the weights, so that a launch's and an event's own time count little."""


_SMALL = Shape(outputs=48, inputs=32)
TOY = Products(
    shapes=(_SMALL,),
    batched=(_SMALL,),
    batches=(4,),
    dtypes=("bfloat16",),
    sparsities=(0.0, 0.5),
    turns=2,
    uncounted=1,
    calls=1,
)


def run(out: Path | None, toy: bool) -> None:
    """Measure, print and write; exit with a message if there is no GPU."""
    on_gpu = torch.cuda.is_available()
    if not on_gpu and not (toy and INTERPRETED):
        raise SystemExit(
            f"There is no GPU: torch {torch.__version__} finds no CUDA device here. Where there is one, run: python "
            "kernels/benchmarks/run.py gpu. To see the code run on the processor: TRITON_INTERPRET=1 python "
            "kernels/benchmarks/run.py gpu --toy --out FILE."
        )
    device = torch.device("cuda" if on_gpu else "cpu")
    here = environment()
    file = out or RESULTS / f"gpu-{re.sub(r'[^a-z0-9]+', '-', here.hardware.lower()).strip('-')}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    versions = {**here.versions, "triton": split_k.triton.__version__, "cuda": str(torch.version.cuda)}
    content: Line = {"benchmark": "gpu", "hardware": here.hardware, "versions": versions}
    for part in measure(TOY if toy else Products(), TOY_DECODING if toy else Decoding(), device):
        content |= part
        file.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    print(f"-> {file}")


def measure(grid: Products, decoding: Decoding, device: torch.device) -> Iterator[Line]:
    """Yield all results so far after each shape."""
    start = time.perf_counter()
    copy = copy_bandwidth(device)
    _say(start, f"copying: {copy:.0f} GB/s")
    yield {"copy_gb_per_second": copy, "turns": grid.turns, "calls": grid.calls, "products": [], "bars": []}
    cases = [(shape, 1) for shape in grid.shapes] + [(shape, batch) for shape in grid.batched for batch in grid.batches]
    found: list[Line] = []
    for shape, batch in cases:
        for dtype in grid.dtypes:
            found += measure_products(shape, batch, dtype, grid, device, copy)
            best = min(found[-len(grid.sparsities) * 2 :], key=lambda line: line["milliseconds"]["median"])
            _say(start, f"{shape.label}, batch {batch}, {dtype}: {best['over_vendor']:.2f} of dense at best")
        yield {"products": found, "bars": product_bars(found)}
    decoded = measure_decoding(decoding, device)
    bars = product_bars(found) + decoded.pop("bars")
    for bar in bars:
        _say(start, f"{'met   ' if bar['met'] else 'MISSED'} {bar['bar']}: {bar['measured']}")
    yield {"decoding": decoded, "bars": bars, "seconds": time.perf_counter() - start}


def copy_bandwidth(device: torch.device) -> float:
    """Return GB/s (1e9 bytes), read and written, of copying a buffer much larger than the cache."""
    source = torch.ones(max(1 << 24, 8 * cache_bytes(device)), dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    times = [_seconds([partial(target.copy_, source)] * 4) for _ in range(10)][1:]
    return 2 * source.numel() / float(np.median(times)) / 1e9


def measure_products(
    shape: Shape, batch: int, dtype: str, grid: Products, device: torch.device, copy: float
) -> list[Line]:
    """Return a line for each contender: the vendor's calls, then TEAL's rule, WINA's and, for one row, split-K by
    sparsity."""
    base = LatencyPoint(
        outputs=shape.outputs, inputs=shape.inputs, batch=batch, dtype=dtype, method="dense", selection="threshold",
        sparsity=0.0, backend="torch", repetitions=grid.turns,
    )  # fmt: skip
    weights = make_weights(base, copies(base, cache_bytes(device)), device, NullReporter())
    lines: list[Line] = []
    works: list[Callable[[int], Work]] = []

    def add(name: str, sparsity: float, kept: float, division: str, work: Callable[[int], Work]) -> None:
        lines.append(
            {"op": shape.op, "outputs": shape.outputs, "inputs": shape.inputs, "batch": batch, "dtype": dtype,
             "contender": name, "sparsity": sparsity, "kept": kept / shape.inputs, "division": division}
        )  # fmt: skip
        works.append(work)

    dense = make_inputs(base, weights.norms)
    for name in VENDOR if batch == 1 else VENDOR[1:]:
        add(name, 0.0, shape.inputs, "", partial(_dense, name, weights, dense))
    for sparsity in grid.sparsities:
        for name in (TEAL, WINA):
            point = base.model_copy(update={"method": name, "sparsity": sparsity})
            given, scale = make_inputs(point, weights.norms), weights.norms if name == WINA else None
            config = gpu.tune(
                given[0].x, weights.transposed[0], scale, given[0].threshold, seconds=partial(_tuning_seconds, device)
            )
            division = f"{config.tile.inputs} x {config.tile.outputs}, {config.shares} shares"
            kept = kept_by_any_row(given)
            add(name, sparsity, kept, division, partial(_gated, weights, given, scale, config))
            if name == TEAL and batch == 1:
                tuned = _tuned_split_k(weights, given[0], device)
                work = partial(_split_k, weights, given, tuned)
                add(SPLIT_K, sparsity, kept, f"{tuned.kwargs}, {tuned.num_warps} warps", work)
    seconds = _by_turns(works, grid)
    return _with_rates(lines, seconds, getattr(torch, dtype).itemsize, copy)


def _dense(name: str, weights: Weights, inputs: Sequence[Inputs], turn: int) -> Work:
    w, x = weights.dense[turn % len(weights.dense)], inputs[turn % INPUTS].x
    return partial(torch.mv, w, x[0]) if name == VENDOR[0] else partial(functional.linear, x, w)


def _gated(
    weights: Weights, inputs: Sequence[Inputs], scale: torch.Tensor | None, config: gpu.Config, turn: int
) -> Work:
    given, w_t = inputs[turn % INPUTS], weights.transposed[turn % len(weights.transposed)]
    return partial(gpu.sparse_linear, given.x, w_t, scale, given.threshold, config=config)


def _split_k(weights: Weights, inputs: Sequence[Inputs], config: Any, turn: int) -> Work:
    given, w_t = inputs[turn % INPUTS], weights.transposed[turn % len(weights.transposed)]
    return partial(split_k.split_k_linear, given.x[0], w_t, given.threshold, config)


def _tuned_split_k(weights: Weights, given: Inputs, device: torch.device) -> Any:
    def seconds(config: Any) -> float:
        call = partial(split_k.split_k_linear, given.x[0], weights.transposed[0], given.threshold, config)
        return _tuning_seconds(device, call)

    return min(split_k.CONFIGS, key=seconds)


def _tuning_seconds(device: torch.device, call: Work) -> float:
    """Return the median of three calls after one that compiles; interpreted, of one call."""
    if device.type != "cuda":
        return _seconds([call])
    call()
    return float(np.median([tuning.device_seconds(call) for _ in range(3)]))


def _by_turns(works: Sequence[Callable[[int], Work]], grid: Products) -> np.ndarray[Any, Any]:
    turns = []
    for turn in range(grid.uncounted + grid.turns):
        first = turn * grid.calls
        turns.append([_seconds([work(first + call) for call in range(grid.calls)]) for work in works])
    return np.array(turns[grid.uncounted :])


def _seconds(calls: Sequence[Work]) -> float:
    """Return the seconds of one of several calls in a row."""
    if not torch.cuda.is_available():
        begun = time.perf_counter()
        for call in calls:
            call()
        return (time.perf_counter() - begun) / len(calls)
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda._sleep(_HEAD_START)
    start.record()
    for call in calls:
        call()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1000 / len(calls)


def _with_rates(lines: list[Line], seconds: np.ndarray[Any, Any], itemsize: int, copy: float) -> list[Line]:
    """Add times, the rate of reading kept weights, and medians over turns of time ratios."""
    medians = np.median(seconds, axis=0)
    vendor = min((at for at, line in enumerate(lines) if line["contender"] in VENDOR), key=medians.__getitem__)
    places = {(line["contender"], line["sparsity"]): at for at, line in enumerate(lines)}
    peers = {WINA: TEAL, TEAL: SPLIT_K}
    for at, line in enumerate(lines):
        p10, median, p90 = np.percentile(1000 * seconds[:, at], (10, 50, 90)).tolist()
        rate = line["kept"] * line["inputs"] * line["outputs"] * itemsize / median / 1e6
        line["milliseconds"] = {"median": median, "p10": p10, "p90": p90}
        line |= {"gb_per_second": rate, "of_copy": rate / copy, "over_vendor": _ratio(seconds, at, vendor)}
        peer = places.get((peers.get(line["contender"]), line["sparsity"]))
        if peer is not None:
            line[f"over_{lines[peer]['contender']}"] = _ratio(seconds, at, peer)
    return lines


def _ratio(seconds: np.ndarray[Any, Any], at: int, peer: int) -> float:
    return float(np.median(seconds[:, at] / seconds[:, peer]))


def product_bars(lines: Sequence[Line]) -> list[Line]:
    """Return the bars of products and their misses; leave out bars without a point."""
    paper = [
        line["of_copy"]
        for line in lines
        if (line["outputs"], line["inputs"], line["batch"], line["dtype"]) == (5120, 17920, 1, "bfloat16")
        and (line["contender"], line["sparsity"]) == (WINA, 0.5)
    ]
    bars = [
        {"bar": "of the copy's bandwidth, 5120 x 17920, bfloat16, 50 %", "wanted": 0.75, "measured": each,
         "met": each >= 0.75}
        for each in paper
    ]  # fmt: skip
    return [
        *bars,
        _bar_of_all(lines, "time over TEAL's rule, the largest", f"over_{TEAL}", 1.03),
        _bar_of_all(lines, "time over split-K, the largest", f"over_{SPLIT_K}", 1.0),
    ]


def _bar_of_all(lines: Sequence[Line], name: str, ratio: str, wanted: float) -> Line:
    asked = [line for line in lines if line["batch"] == 1 and ratio in line]
    missed = [
        f"{line['outputs']} x {line['inputs']}, {line['dtype']}, {100 * line['sparsity']:g} %: {line[ratio]:.3f}"
        for line in asked
        if line[ratio] > wanted
    ]
    worst, middle = max(line[ratio] for line in asked), float(np.median([line[ratio] for line in asked]))
    return {"bar": name, "wanted": wanted, "measured": worst, "median": middle, "points": len(asked),
            "missed": missed, "met": not missed}  # fmt: skip


def _say(start: float, text: str) -> None:
    print(f"{time.perf_counter() - start:6.0f} s  {text}", flush=True)
