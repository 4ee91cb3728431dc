# mypy: disable-error-code="no-untyped-def, assignment"
"""A design of the gated product of one row that does not ship, beside the one that ships.

The shipped kernel scores its inputs while it multiplies, and spends the same instructions on a weight that is dropped
as on one that is kept: 5.1 for each in bfloat16, as Triton 3.6 compiles it for sm_90. On an H100 that is up to a third
of the time at 50 %. Here a program lists its kept inputs first, in scratch memory, and then reads their weights alone,
with 4.8 instructions for each kept weight. Overlapped, the kernel that adds the shares is launched before the products
end (programmatic dependent launches, from compute capability 9.0 on).

Expected: faster than the shipped kernel at shapes at which that does not reach 75 % of the copy's bandwidth at 50 %.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import triton
import triton.language as tl
from gpu_products import TOY, WINA, Line, Products, by_turns, deviation, gated, ratio, tuned, tuning_seconds
from torch import Tensor
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait
from wina_kernels.gpu import shares
from wina_kernels.gpu.tiles import MOST_SHARES
from wina_kernels.reference import sparse_linear

from wina_core.compute.latency.products import INPUTS, Inputs, Weights, Work, copies, make_inputs, make_weights
from wina_core.compute.reporter import NullReporter
from wina_core.specs.latency import LatencyPoint, Shape

if TYPE_CHECKING:
    from gpu import Budget, GpuMachine

_RUN = 16
"""Inputs in a row that belong to one share."""
_CHUNK = 256
"""Inputs that a program scores at a time."""
_DROPPED = 0.5


@dataclass(frozen=True)
class ListDesign:
    """A division of work: each warp of a program takes other kept inputs of the same outputs, `depth` at a time."""

    warps: int
    depth: int
    shares: int
    overlap: bool = False

    @property
    def label(self) -> str:
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
    count_of_shares = tl.num_programs(1)
    own_list = lists + (share * tl.num_programs(0) + tl.program_id(0)).to(tl.int64) * room
    if OVERLAP:
        gdc_wait()
        gdc_launch_dependents()
    count = 0
    for start in range(0, tl.cdiv(inputs_in_all, count_of_shares * RUN) * RUN, CHUNK):
        position = start + tl.arange(0, CHUNK)
        inputs = (position // RUN * count_of_shares + share) * RUN + position % RUN
        exists = inputs < inputs_in_all
        value = tl.load(x + inputs, exists, 0.0).to(tl.float32)
        score = tl.abs(value) * tl.load(column_scale + inputs, exists, 0.0)
        is_kept = exists & ~(score <= threshold)  # NaN is kept, as by the shipped kernel
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
def overlapped_add_kernel(sums, out, length, SHARES: tl.constexpr, BLOCK: tl.constexpr):
    """Do what `shares.add_kernel` does, launched before the kernel that sums has ended."""
    gdc_wait()
    gdc_launch_dependents()
    shares.add_kernel(sums, out, length, SHARES, BLOCK)


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
    if design.overlap:
        overlapped_add_kernel[(triton.cdiv(m, shares.BLOCK),)](
            sums, y, m, design.shares, shares.BLOCK, num_warps=shares.WARPS, **options
        )
    else:
        shares.add(sums, y)
    return y


def designs(inputs: int, outputs: int, overlap: bool) -> list[ListDesign]:
    """Return the divisions to try: from four to forty warps on each multiprocessor of a large GPU."""
    tiles = triton.cdiv(outputs, _OUTPUTS)
    candidates = [ListDesign(*sizes, overlap) for sizes in product((1, 4, 8), (8, 16), (8, 16, 32, 64))]
    return [
        design for design in candidates
        # Multiples of the 132 multiprocessors of an H100.
        if 528 <= tiles * design.warps * design.shares <= 5280 and inputs >= design.shares * design.warps * design.depth
    ]  # fmt: skip


def measure(toy: bool, machine: GpuMachine, budget: Budget) -> Iterator[dict[str, Any]]:
    """Yield the lines so far after each shape: the shipped kernel, and the fastest list with and without overlap."""
    grid = TOY if toy else Products()
    lines: list[Line] = []
    for done, shape in enumerate(grid.shapes):
        own_budget = budget.one_of(len(grid.shapes) - done)
        if own_budget.left <= 0:
            return
        measured = _measured(shape, grid, machine, own_budget)
        print(f"{shape.label}: {min(line['over_shipped'] for line in measured):.2f} of the shipped one", flush=True)
        lines += measured
        yield {"lines": lines}


def _measured(shape: Shape, grid: Products, machine: GpuMachine, budget: Budget) -> list[Line]:
    point = LatencyPoint(
        outputs=shape.outputs, inputs=shape.inputs, batch=1, dtype="bfloat16", method=WINA, selection="threshold",
        sparsity=_DROPPED, backend="triton", repetitions=grid.turns,
    )  # fmt: skip
    device = machine.device
    weights = make_weights(point, copies(point, machine.cache_bytes), device, NullReporter())
    inputs = make_inputs(point, weights.norms)
    config = tuned(inputs[0], weights.transposed[0], weights.norms, MOST_SHARES, device)
    contenders = {"shipped": partial(gated, list(weights.transposed), inputs, weights.norms, config)}
    for tried in _tried(shape, grid, device):
        calls = {design: partial(_listed, weights, inputs, design) for design in tried}
        fastest = min(tried, key=lambda design: tuning_seconds(device, calls[design](0)))
        contenders[fastest.label] = calls[fastest]
    seconds = by_turns(list(contenders.values()), grid, budget)
    expected = sparse_linear(inputs[0].x, weights.transposed[0], weights.norms, inputs[0].threshold)
    return [
        {
            "outputs": shape.outputs, "inputs": shape.inputs, "sparsity": _DROPPED, "contender": name,
            "milliseconds": 1000 * float(np.median(seconds[:, place])), "over_shipped": ratio(seconds, place, 0),
            "deviation": deviation(call(0)(), expected),
        }
        for place, (name, call) in enumerate(contenders.items())
    ]  # fmt: skip


def _tried(shape: Shape, grid: Products, device: torch.device) -> list[list[ListDesign]]:
    """Return the candidates without overlap and, if the device supports it, with overlap."""
    if grid is TOY:
        return [[ListDesign(2, 4, 2)]]
    overlaps = (False, True) if torch.cuda.get_device_capability(device) >= (9, 0) else (False,)
    return [designs(shape.inputs, shape.outputs, overlap) for overlap in overlaps]


def _listed(weights: Weights, inputs: Sequence[Inputs], design: ListDesign, turn: int) -> Work:
    case, weight_t = inputs[turn % INPUTS], weights.transposed[turn % len(weights.transposed)]
    return partial(list_linear, case.x[0], weight_t, weights.norms, case.threshold, design)
