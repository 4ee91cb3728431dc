"""Gated products on a GPU in bfloat16, INT8 and INT4, against the vendor's dense call and a split-K kernel of TEAL's
published design.

Beside them, the bandwidth of a copy and the time of a launch. Weights are cold, contenders take turns, CUDA events time
several queued calls in a row, and the division of work is tuned first, for the table that ships. Every contender's
result is compared with the reference.

The split-K kernel is of the design that TEAL published, as described in Liu et al., "Training-Free Activation Sparsity
in Large Language Models", section 4.3 and its appendix on kernels: W stored transposed, a two-dimensional grid over
outputs and inputs, rows of W^T loaded where |x_i| > threshold, partial sums added by atomics to a cleared output,
configurations tuned for each shape and range of sparsity. One row of x; atomics in float16 for float16, else in float32
and rounded afterwards. The order of additions, and so the last bits, are random.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional
from wina_kernels import gpu, tuning
from wina_kernels.gpu.operands import bits_of
from wina_kernels.gpu.tiles import MOST_SHARES, MOST_STEP_SHARES, TunedConfig, candidates, case_of
from wina_kernels.reference import sparse_linear
from wina_kernels.weights import WeightT

from wina_core.compute.latency.products import (
    INPUTS,
    Inputs,
    Weights,
    Work,
    copies,
    int4_weight,
    int8_weight,
    kept_by_any_row,
    make_inputs,
    make_weights,
)
from wina_core.compute.reporter import NullReporter
from wina_core.specs.latency import PRESETS, LatencyPoint, Shape

if TYPE_CHECKING:
    from gpu import Budget, GpuMachine

TEAL, WINA, SPLIT_K, VENDOR = "teal", "wina", "split-k", ("torch.mv", "F.linear")
FORMATS = ("bfloat16", "int8", "int4")
_HEAD_START = 4_000_000
"""Cycles, about 2 ms, that keep the device busy while the calls of a turn are queued."""
_TUNED_TURNS = 3
_LAUNCHES = 200
Line = dict[str, Any]
"""Measurements of one contender."""
_JOINED_8B = tuple(
    Shape(op=op, outputs=outputs, inputs=inputs)
    for op, outputs, inputs in (
        ("qkv", 6144, 4096), ("o", 4096, 4096), ("gate, up", 28672, 4096), ("down", 4096, 14336),
    )
)  # fmt: skip


SPLIT_K_CONFIGS = [
    triton.Config({"BLOCK_N": inputs, "BLOCK_M": outputs}, num_warps=warps)
    for inputs, outputs, warps in (
        (16, 256, 2), (32, 128, 2), (32, 256, 4), (16, 512, 4), (64, 64, 2), (64, 128, 4), (128, 64, 4), (32, 512, 8),
    )
]  # fmt: skip


@dataclass(frozen=True)
class Products:
    """The grid of products; the first cases are the most important ones."""

    shapes: tuple[Shape, ...] = (*reversed(PRESETS["paper"]), *_JOINED_8B)
    batches: tuple[int, ...] = (1, 2, 4, 8)
    sparsities: tuple[float, ...] = (0.4, 0.5, 0.65)
    turns: int = 9
    calls: int = 8
    """Calls in a row, each on another copy of the weights, so that a launch's and an event's own time count little."""


TOY = Products(
    shapes=(Shape(outputs=48, inputs=64),), batches=(1, 2), sparsities=(0.5,), turns=2, calls=1
)  # fmt: skip


def measure_device(toy: bool, machine: GpuMachine, _: Budget) -> Iterator[Line]:  # noqa: ARG001 - as `measure`
    """Yield the bandwidth of copying a buffer much larger than the cache in GB/s (1e9 bytes), read and written, and the
    time from one small kernel to the next in a CUDA graph."""
    source = torch.ones(max(1 << 24, 8 * machine.cache_bytes), dtype=torch.uint8, device=machine.device)
    target = torch.empty_like(source)
    times = [seconds_of([partial(target.copy_, source)] * 4) for _ in range(10)][1:]
    results: Line = {"copy_gb_per_second": 2 * source.numel() / float(np.median(times)) / 1e9}
    if machine.device.type == "cuda":
        x, graph = torch.zeros(64, device="cuda"), torch.cuda.CUDAGraph()
        x.add_(1)
        with torch.cuda.graph(graph):
            for _ in range(_LAUNCHES):
                x.add_(1)
        replays = [seconds_of([graph.replay]) for _ in range(5)]
        results["launch_microseconds"] = 1e6 * min(replays) / _LAUNCHES
    yield results


def measure(toy: bool, machine: GpuMachine, budget: Budget) -> Iterator[Line]:
    """Yield all lines and entries of the table so far after each case."""
    grid = TOY if toy else Products()
    cases = [(shape, batch) for batch in grid.batches for shape in grid.shapes]
    lines: list[Line] = []
    entries: list[Line] = []
    left_out: list[str] = []
    for done, (shape, batch) in enumerate(cases):
        case_budget = budget.one_of(len(cases) - done)
        if case_budget.left <= 0:
            left_out.append(f"{shape.label}, batch {batch}")
            continue
        case_lines, tuned = measure_products(shape, batch, grid, machine, case_budget)
        lines += case_lines
        entries += [entry.line for entry in tuned if machine.device.type == "cuda"]
        best = min(case_lines, key=lambda line: line["milliseconds"]["median"])
        print(f"{shape.label}, batch {batch}: {best['over_vendor']:.2f} of dense at best", flush=True)
        yield {"lines": lines, "table": entries, "left_out": left_out}
    yield {"lines": lines, "table": entries, "left_out": left_out}


def measure_products(
    shape: Shape, batch: int, grid: Products, machine: GpuMachine, budget: Budget
) -> tuple[list[Line], list[TunedConfig]]:
    """Return a line for each contender, the vendor's calls first, and the tuned divisions."""
    device = machine.device
    base = LatencyPoint(
        outputs=shape.outputs, inputs=shape.inputs, batch=batch, dtype="bfloat16", method="dense",
        selection="threshold", sparsity=0.0, backend="torch", repetitions=grid.turns,
    )  # fmt: skip
    weights = make_weights(base, copies(base, machine.cache_bytes), device, NullReporter())
    stored = {form: _stored(form, weights) for form in FORMATS}
    lines: list[Line] = []
    works: list[Callable[[int], Work]] = []
    entries: list[TunedConfig] = []

    def add(name: str, form: str, sparsity: float, read: float, division: str, work: Callable[[int], Work]) -> None:
        lines.append(
            {"outputs": shape.outputs, "inputs": shape.inputs, "batch": batch, "format": form, "contender": name,
             "sparsity": sparsity, "read_bytes": read, "division": division}
        )  # fmt: skip
        works.append(work)

    dense = make_inputs(base, weights.norms)
    for name in VENDOR if batch == 1 else VENDOR[1:]:
        add(name, "bfloat16", 0.0, weights.dense[0].nbytes, "", partial(_dense, name, weights, dense))
    expected = [dense[0].x.float() @ weights.transposed[0].float()] * len(works)
    for sparsity in grid.sparsities:
        for name, form in [(WINA, form) for form in FORMATS] + [(TEAL, "bfloat16")] * (batch == 1):
            point = base.model_copy(update={"method": name, "sparsity": sparsity})
            inputs, scale = make_inputs(point, weights.norms), weights.norms if name == WINA else None
            read_share = kept_by_any_row(inputs) / shape.inputs
            by_limit = {most: tuned(inputs[0], stored[form][0], scale, most, device) for most in _limits(batch, form)}
            config = by_limit[MOST_SHARES]
            if name == WINA:
                of_device = _name_of(device)
                entries += [
                    TunedConfig(case_of(stored[form][0], batch, most), sparsity, division_config, of_device)
                    for most, division_config in by_limit.items()
                ]
            add(name, form, sparsity, read_share * _bytes(stored[form][0]), config.label,
                partial(gated, stored[form], inputs, scale, config))  # fmt: skip
            expected.append(sparse_linear(inputs[0].x, stored[form][0], scale, inputs[0].threshold))
            if name == TEAL:
                design = _tuned_split_k(weights, inputs[0], device)
                division = f"{design.kwargs}, {design.num_warps} warps"
                add(SPLIT_K, form, sparsity, read_share * _bytes(stored[form][0]), division,
                    partial(_split_k, weights, inputs, design))  # fmt: skip
                expected.append(expected[-1])
    for line, work, y in zip(lines, works, expected, strict=True):
        line["deviation"] = deviation(work(0)(), y)
    return _with_rates(lines, by_turns(works, grid, budget), machine.copy), entries


def _stored(form: str, weights: Weights) -> list[WeightT]:
    """Return the cold copies of W^T in a format."""
    if form == "bfloat16":
        return list(weights.transposed)
    quantize, factor = (int8_weight, 2) if form == "int8" else (int4_weight, 4)
    # Smaller weights take as many more copies, so that they still take turns through the cache.
    first = quantize(weights.transposed[0])
    return [first, *(deepcopy(first) for _ in range(factor * len(weights.transposed) - 1))]


def _bytes(weight_t: WeightT) -> float:
    return weight_t.nbytes if isinstance(weight_t, Tensor) else weight_t.bytes


def _limits(batch: int, form: str) -> tuple[int, ...]:
    # Decoding steps, which allow fewer shares, have one row in bfloat16.
    return (MOST_SHARES, MOST_STEP_SHARES) if batch == 1 and form == "bfloat16" else (MOST_SHARES,)


def _name_of(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else str(device)


def deviation(y: Any, expected: Tensor) -> float:
    difference = y.reshape(expected.shape).float() - expected.float()
    return float(difference.abs().max() / expected.float().abs().max())


def _dense(name: str, weights: Weights, inputs: Sequence[Inputs], turn: int) -> Work:
    w, x = weights.dense[turn % len(weights.dense)], inputs[turn % INPUTS].x
    return partial(torch.mv, w, x[0]) if name == VENDOR[0] else partial(functional.linear, x, w)


def gated(
    stored: Sequence[WeightT], inputs: Sequence[Inputs], scale: Tensor | None, config: gpu.Config, turn: int
) -> Work:
    """Return the shipped product of a turn's input with a turn's copy of the weights."""
    case_inputs = inputs[turn % INPUTS]
    return partial(
        gpu.sparse_linear, case_inputs.x, stored[turn % len(stored)], scale, case_inputs.threshold, config=config
    )


def _split_k(weights: Weights, inputs: Sequence[Inputs], config: Any, turn: int) -> Work:
    case_inputs, w_t = inputs[turn % INPUTS], weights.transposed[turn % len(weights.transposed)]
    return partial(split_k_linear, case_inputs.x[0], w_t, case_inputs.threshold, config)


def tuned(inputs: Inputs, weight_t: WeightT, scale: Tensor | None, most: int, device: torch.device) -> gpu.Config:
    """Return the fastest division of work of at most so many shares."""
    n, m = weight_t.shape

    def seconds(config: gpu.Config) -> float:
        call = partial(gpu.sparse_linear, inputs.x, weight_t, scale, inputs.threshold, config=config)
        return tuning_seconds(device, call)

    return min(candidates(n, m, len(inputs.x), bits_of(weight_t), most), key=seconds)


def _tuned_split_k(weights: Weights, inputs: Inputs, device: torch.device) -> Any:
    def seconds(config: Any) -> float:
        call = partial(split_k_linear, inputs.x[0], weights.transposed[0], inputs.threshold, config)
        return tuning_seconds(device, call)

    return min(SPLIT_K_CONFIGS, key=seconds)


def tuning_seconds(device: torch.device, call: Work) -> float:
    """Return the median of three calls after one that compiles; interpreted, of one call."""
    if device.type != "cuda":
        return seconds_of([call])
    call()
    return float(np.median([tuning.device_seconds(call) for _ in range(_TUNED_TURNS)]))


def by_turns(works: Sequence[Callable[[int], Work]], grid: Products, budget: Budget) -> np.ndarray[Any, Any]:
    """Return seconds [turn, contender], without the first turn, which warms up."""
    turns = []
    for turn in budget.turns(grid.turns + 1):
        first = turn * grid.calls
        turns.append([seconds_of([work(first + call) for call in range(grid.calls)]) for work in works])
    return np.array(turns[1:])


def seconds_of(calls: Sequence[Work]) -> float:
    """Return the mean seconds of several calls in a row."""
    if not torch.cuda.is_available():
        start_seconds = time.perf_counter()
        for call in calls:
            call()
        return (time.perf_counter() - start_seconds) / len(calls)
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    # All calls are queued meanwhile; otherwise the device would wait for the launches.
    torch.cuda._sleep(_HEAD_START)
    start.record()
    for call in calls:
        call()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / 1000 / len(calls)


def _with_rates(lines: list[Line], seconds: np.ndarray[Any, Any], copy: float | None) -> list[Line]:
    """Add times, the rate of reading kept weights, and medians over turns of time ratios."""
    medians = np.median(seconds, axis=0)
    vendor = min((at for at, line in enumerate(lines) if line["contender"] in VENDOR), key=medians.__getitem__)
    split_ks = {line["sparsity"]: at for at, line in enumerate(lines) if line["contender"] == SPLIT_K}
    for at, line in enumerate(lines):
        p10, median, p90 = np.percentile(1000 * seconds[:, at], (10, 50, 90)).tolist()
        rate = line["read_bytes"] / median / 1e6
        line["milliseconds"] = {"median": median, "p10": p10, "p90": p90, "turns": len(seconds)}
        line |= {"gb_per_second": rate, "over_vendor": ratio(seconds, at, vendor)}
        if copy is not None:
            line["of_copy"] = rate / copy
        peer = split_ks.get(line["sparsity"])
        if peer not in (None, at):
            line["over_split-k"] = ratio(seconds, at, peer)
    return lines


def ratio(seconds: np.ndarray[Any, Any], at: int, peer: int | None) -> float:
    """Return the median over turns of a contender's time over its peer's; seconds: [turn, contender]."""
    return float(np.median(seconds[:, at] / seconds[:, peer]))


def bars(lines: Sequence[Line]) -> list[Line]:
    """Return the bars of products and what misses them; leave out bars without a point."""
    ours = [line for line in lines if line["contender"] in (WINA, TEAL) and line["format"] == "bfloat16"]
    at_half = [line for line in ours if line["batch"] == 1 and line["sparsity"] == 0.5 and "of_copy" in line]
    return [
        bar
        for bar in (
            _bar("at least 75 % of the copy's bandwidth, batch 1, 50 %", at_half, "of_copy", 0.75, at_least=True),
            _bar("ahead of split-K, batch 1", [line for line in ours if "over_split-k" in line], "over_split-k", 1.0),
            _bar("results within 2 % of the reference", lines, "deviation", 0.02),
        )
        if bar is not None
    ]


def _bar(name: str, lines: Sequence[Line], key: str, bound: float, at_least: bool = False) -> Line | None:
    if not lines:
        return None
    values = [line[key] for line in lines]
    missed = [
        f"{line['contender']} {line['outputs']} x {line['inputs']}, batch {line['batch']}, {line['format']}, "
        f"{100 * line['sparsity']:g} %: {line[key]:.3f}"
        for line in lines
        if not (line[key] >= bound if at_least else line[key] <= bound)
    ]
    measured = min(values) if at_least else max(values)
    return {"bar": name, "wanted": bound, "measured": measured, "points": len(lines), "missed": missed,
            "met": not missed}  # fmt: skip


@triton.jit
def split_k_kernel(
    x, weight, stride, y, n, m, threshold,
    BLOCK_N: tl.constexpr, BLOCK_M: tl.constexpr,
):  # fmt: skip
    """Add to y [m], cleared before, on a grid of blocks of outputs and blocks of inputs."""
    outputs = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    inputs = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    values = tl.load(x + inputs, inputs < n, 0.0).to(tl.float32)
    is_kept = tl.abs(values) > threshold
    rows = weight + inputs.to(tl.int64)[:, None] * stride
    weights = tl.load(rows + outputs[None, :], is_kept[:, None] & (outputs < m)[None, :], 0.0).to(tl.float32)
    tl.atomic_add(y + outputs, tl.sum(weights * values[:, None], axis=0).to(y.dtype.element_ty), outputs < m)


def split_k_linear(x: Tensor, weight_t: Tensor, threshold: float, config: triton.Config) -> Tensor:
    """Return y [m] of the inputs x [n] with |x_i| > threshold; `config` is one of SPLIT_K_CONFIGS."""
    n, m = weight_t.shape
    y = torch.zeros(m, dtype=x.dtype if x.dtype == torch.float16 else torch.float32, device=x.device)
    grid = triton.cdiv(m, config.kwargs["BLOCK_M"]), triton.cdiv(n, config.kwargs["BLOCK_N"])
    split_k_kernel[grid](
        x, weight_t, weight_t.stride(0), y, n, m, threshold, **config.kwargs, num_warps=config.num_warps
    )
    return y.to(x.dtype)
