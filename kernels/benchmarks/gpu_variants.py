# mypy: disable-error-code="no-untyped-def, assignment"
"""A design of the gated product of one row that does not ship, beside the one that ships.

The shipped kernel scores its inputs while it multiplies, and spends the same instructions on a weight that is dropped
as on one that is kept: 5.1 for each in bfloat16, as Triton 3.6 compiles it for sm_90. On an H100 that is up to a third
of the time at 50 %. Here a program lists its kept inputs first, in scratch memory, and then
reads their weights alone, with 4.8 instructions for each kept weight. Overlapped, the kernel that adds the
shares is launched before the products end (programmatic dependent launches, from compute capability 9.0 on).

Expected: faster than the shipped kernel where that does not reach 75 % of the copy's bandwidth at 50 %.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import triton
import triton.language as tl
from gpu_products import TOY, WINA, Products, deviation, seconds_of
from torch import Tensor
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait
from wina_kernels import gpu
from wina_kernels.reference import sparse_linear

from wina_core.compute.latency.products import INPUTS, Inputs, Weights, Work, copies, make_inputs, make_weights
from wina_core.compute.reporter import NullReporter
from wina_core.specs.latency import LatencyPoint, Shape

if TYPE_CHECKING:
    from gpu import Budget, GpuMachine

_TUNED_TURNS, _TURNS, _CALLS = 3, 9, 8
_RUN = 16
"""Inputs in a row that belong to one share."""
_CHUNK = 256
"""Inputs that a program scores at a time."""
_ADDED = 256
"""Outputs of a program that adds shares."""
_DROPPED = 0.5
Line = dict[str, Any]
Way = Callable[[int], Work]
"""A turn's call."""


@dataclass(frozen=True)
class ListDesign:
    """A division of work: each warp of a program takes other kept inputs of the same outputs, `depth` at a time."""

    warps: int
    depth: int
    shares: int
    overlap: bool = False

    @property
    def label(self) -> str:
        """A name of the division."""
        return f"{self.warps} warps, {self.depth} deep, {self.shares} shares{', overlapped' if self.overlap else ''}"


_VECTOR = 8
_OUTPUTS = 32 * _VECTOR
"""Outputs of a program: eight in 16 bits are one load of a thread."""


@triton.jit
def list_linear_kernel(
    x, column_scale, threshold, lists, room, out, inputs_in_all, outputs_in_all, weight, stride,
    RUN: tl.constexpr, CHUNK: tl.constexpr, DEPTH: tl.constexpr, WARPS: tl.constexpr, OUTPUTS: tl.constexpr,
    VECTOR: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    """Set out float [shares, m] on a grid of tiles and shares, of the inputs with |x_i| * scale_i > threshold.

    lists: int64 [programs, room], scratch: a program's kept inputs, an input's index below its value's bits.
    """
    outputs = tl.program_id(0) * OUTPUTS + tl.arange(0, OUTPUTS)
    inside = outputs < outputs_in_all
    loaded = tl.max_contiguous(outputs, VECTOR)
    share = tl.program_id(1)
    shares = tl.num_programs(1)
    own_list = lists + (share * tl.num_programs(0) + tl.program_id(0)).to(tl.int64) * room
    if OVERLAP:
        gdc_wait()
        gdc_launch_dependents()
    count = 0
    for start in range(0, tl.cdiv(inputs_in_all, shares * RUN) * RUN, CHUNK):
        position = start + tl.arange(0, CHUNK)
        inputs = (position // RUN * shares + share) * RUN + position % RUN
        exists = inputs < inputs_in_all
        value = tl.load(x + inputs, exists, 0.0).to(tl.float32)
        score = tl.abs(value) * tl.load(column_scale + inputs, exists, 0.0)
        is_kept = exists & ~(score <= threshold)
        ones = is_kept.to(tl.int32)
        entry = (value.to(tl.int32, bitcast=True).to(tl.int64) << 32) | inputs.to(tl.int64)
        tl.store(own_list + count + tl.cumsum(ones) - 1, entry, is_kept)
        count += tl.sum(ones)
    tl.debug_barrier()  # all warps read what others have stored
    warps = tl.arange(0, WARPS)
    sums = tl.zeros((WARPS, OUTPUTS), tl.float32)
    for block in range(0, count, DEPTH * WARPS):
        values = ()
        weights = ()
        for depth in tl.static_range(DEPTH):  # all loads first, so that they are in flight together
            slot = block + depth * WARPS + warps
            filled = slot < count
            pair = tl.load(own_list + slot, filled, 0)
            values += ((pair >> 32).to(tl.int32).to(tl.float32, bitcast=True),)
            rows = weight + pair.to(tl.int32).to(tl.int64)[:, None] * stride
            read = filled[:, None] & inside[None, :]
            weights += (tl.load(rows + loaded[None, :], read, 0.0, eviction_policy="evict_first"),)
        for depth in tl.static_range(DEPTH):
            sums += weights[depth].to(tl.float32) * values[depth][:, None]
    tl.store(out + share.to(tl.int64) * outputs_in_all + outputs, tl.sum(sums, axis=0), inside)


@triton.jit
def add_kernel(sums, out, length, SHARES: tl.constexpr, BLOCK: tl.constexpr, OVERLAP: tl.constexpr):
    """Set out[i] = sums[0, i] + ... + sums[SHARES - 1, i]."""
    if OVERLAP:
        gdc_wait()
        gdc_launch_dependents()
    outputs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    lines = tl.arange(0, SHARES).to(tl.int64)[:, None] * length
    values = tl.load(sums + lines + outputs[None, :], (outputs < length)[None, :], 0.0)
    tl.store(out + outputs, tl.sum(values, axis=0), outputs < length)


def list_linear(x: Tensor, weight_t: Tensor, scale: Tensor, threshold: float, design: ListDesign) -> Tensor:
    """Return y [m] of the inputs of x [n] with |x_i| * scale_i > threshold, for W^T [n, m]."""
    n, m = weight_t.shape
    tiles = triton.cdiv(m, _OUTPUTS)
    room = triton.cdiv(n, design.shares * _RUN) * _RUN
    lists = torch.empty(design.shares * tiles, room, dtype=torch.int64, device=x.device)
    sums = torch.empty(design.shares, m, device=x.device)
    y = x.new_empty(m)
    options: dict[str, Any] = {"launch_pdl": True} if design.overlap else {}
    list_linear_kernel[(tiles, design.shares)](
        x, scale, threshold, lists, room, sums, n, m, weight_t, weight_t.stride(0), _RUN, _CHUNK, design.depth,
        design.warps, _OUTPUTS, _VECTOR, design.overlap, num_warps=design.warps, **options,
    )  # fmt: skip
    add_kernel[(triton.cdiv(m, _ADDED),)](
        sums, y, m, design.shares, _ADDED, design.overlap, num_warps=4, **options
    )  # fmt: skip
    return y


def designs(inputs: int, outputs: int, device: torch.device, toy: bool) -> list[ListDesign]:
    """Return the divisions to try: from four to forty warps on each multiprocessor of a large GPU."""
    if toy:
        return [ListDesign(2, 4, 2)]
    overlaps = (False, True) if torch.cuda.get_device_capability(device) >= (9, 0) else (False,)
    tiles = triton.cdiv(outputs, _OUTPUTS)
    candidates = [ListDesign(*division) for division in product((1, 4, 8), (8, 16), (8, 16, 32, 64), overlaps)]
    return [
        design for design in candidates
        if 528 <= tiles * design.warps * design.shares <= 5280 and inputs >= design.shares * design.warps * design.depth
    ]  # fmt: skip


def measure(toy: bool, machine: GpuMachine, budget: Budget) -> Iterator[dict[str, Any]]:
    """Yield the lines so far after each shape: the shipped kernel, and the fastest list with and without overlap."""
    shapes = (TOY if toy else Products()).shapes
    lines: list[Line] = []
    for done, shape in enumerate(shapes):
        if budget.one_of(len(shapes) - done).left <= 0:
            return
        lines += _measured(shape, machine, toy)
        print(f"{shape.label}: {min(line['over_shipped'] for line in lines[-3:]):.2f} of the shipped one", flush=True)
        yield {"lines": lines}


def _measured(shape: Shape, machine: GpuMachine, toy: bool) -> list[Line]:
    point = LatencyPoint(
        outputs=shape.outputs, inputs=shape.inputs, batch=1, dtype="bfloat16", method=WINA, selection="threshold",
        sparsity=_DROPPED, backend="triton", repetitions=_TURNS,
    )  # fmt: skip
    weights = make_weights(point, copies(point, machine.cache_bytes), machine.device, NullReporter())
    inputs = make_inputs(point, weights.norms)
    turns, calls = (1, 1) if toy else (_TURNS, _CALLS)

    def seconds(way: Way, turns: int) -> float:
        way(0)()  # compiles
        return float(
            np.median([seconds_of([way(turn * calls + call) for call in range(calls)]) for turn in range(turns)])
        )

    ways: dict[str, Way] = {"shipped": partial(_shipped, weights, inputs)}
    for overlap in (False, True):
        tried: dict[str, float] = {}
        for design in designs(shape.inputs, shape.outputs, machine.device, toy):
            if design.overlap == overlap:
                ways[design.label] = partial(_listed, weights, inputs, design)
                tried[design.label] = seconds(ways[design.label], 1 if toy else _TUNED_TURNS)
        for slower in sorted(tried, key=tried.__getitem__)[1:]:
            del ways[slower]
    times = {name: seconds(way, turns) for name, way in ways.items()}
    expected = sparse_linear(inputs[0].x, weights.transposed[0], weights.norms, inputs[0].threshold)
    return [
        {
            "outputs": shape.outputs, "inputs": shape.inputs, "sparsity": _DROPPED, "contender": name,
            "milliseconds": 1000 * times[name], "over_shipped": times[name] / times["shipped"],
            "deviation": deviation(way(0)(), expected),
        }
        for name, way in ways.items()
    ]  # fmt: skip


def _shipped(weights: Weights, inputs: Sequence[Inputs], turn: int) -> Work:
    case, weight_t = inputs[turn % INPUTS], weights.transposed[turn % len(weights.transposed)]
    return partial(gpu.sparse_linear, case.x, weight_t, weights.norms, case.threshold)


def _listed(weights: Weights, inputs: Sequence[Inputs], design: ListDesign, turn: int) -> Work:
    case, weight_t = inputs[turn % INPUTS], weights.transposed[turn % len(weights.transposed)]
    return partial(list_linear, case.x[0], weight_t, weights.norms, case.threshold, design)
