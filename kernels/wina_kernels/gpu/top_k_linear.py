"""Keep exactly the highest scores and multiply; defined by `reference.top_k_linear`.

Non-negative floats order like their bits. The k-th highest is found digit by digit of 8 bits, from the histogram of the
scores that share the digits found so far: four passes over some kilobytes and no sort. Counts are integers, so that
their order does not matter.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from wina_kernels.gpu import operands
from wina_kernels.gpu.configs import Config
from wina_kernels.gpu.masked_linear import masked_linear
from wina_kernels.gpu.shares import OPTIONS
from wina_kernels.gpu.tiles import one_of
from wina_kernels.reference import per_part
from wina_kernels.weights import WeightT

BLOCK = 2048
WARPS = 8


@triton.jit
def _keys(x, column_scale, inputs, inside):  # type: ignore[no-untyped-def]
    """Return the bits of |x_i| * scale_i, int32, in which NaN is above everything."""
    score = tl.abs(tl.load(x + inputs, inside, 0.0).to(tl.float32))
    if column_scale is not None:
        score *= tl.load(column_scale + inputs, inside, 0.0)
    return tl.where(score == score, score.to(tl.int32, bitcast=True), 0x7FFFFFFF)


@triton.jit
def top_k_kernel(  # type: ignore[no-untyped-def]
    x, x_stride, column_scale, column_scale_stride, keeps, limit, mask, counts, inputs_in_all, BLOCK: tl.constexpr
):  # fmt: skip
    """Set mask, uint8 [parts, rows, n], on a grid of rows and parts; keeps: one for each part.

    With a limit, the bits of a threshold, rows with as many scores above it keep all of these. Each program adds the
    (kept, seen) inputs of its row to the first line of counts, int64 [any, 2], if there are any; for one part alone.
    """
    row = tl.program_id(0).to(tl.int64)
    part = tl.program_id(1)
    x += row * x_stride
    if column_scale is not None:
        column_scale += part * column_scale_stride
    room = one_of(keeps, part)  # how many are still wanted of those with the digits found
    found = 0
    bins = tl.arange(0, 256)
    for shift in tl.static_range(24, -1, -8):
        held = tl.zeros((256,), tl.int32)
        for block in range(0, inputs_in_all, BLOCK):
            inputs = block + tl.arange(0, BLOCK)
            inside = inputs < inputs_in_all
            keys = _keys(x, column_scale, inputs, inside)
            held += tl.histogram((keys >> shift) & 0xFF, 256, inside & ((keys >> shift >> 8) == found))
        above = tl.sum(held) - tl.cumsum(held)  # those with a higher digit
        digit = tl.max(tl.where(above + held >= room, bins, 0))
        room -= tl.sum(tl.where(bins > digit, held, 0))
        found = found * 256 + digit
    if limit is not None:
        room = tl.where(found > limit, 0, room)
        found = tl.minimum(found, limit)
    earlier = 0
    total = 0
    for block in range(0, inputs_in_all, BLOCK):
        inputs = block + tl.arange(0, BLOCK)
        inside = inputs < inputs_in_all
        keys = _keys(x, column_scale, inputs, inside)
        equal = (inside & (keys == found)).to(tl.int32)
        kept = (keys > found) | ((equal > 0) & (earlier + tl.cumsum(equal) <= room))
        line = (part * tl.num_programs(0) + row) * inputs_in_all
        tl.store(mask + line + inputs, kept.to(tl.uint8), inside)
        earlier += tl.sum(equal)
        total += tl.sum((inside & kept).to(tl.int32))
    if counts is not None:
        tl.atomic_add(counts, total.to(tl.int64))  # type: ignore[attr-defined]
        tl.atomic_add(counts + 1, inputs_in_all.to(tl.int64))


def top_k_masks(
    x: Tensor,
    scale: Tensor | None,
    keep: int | Sequence[int],
    splits: Sequence[int] | None = None,
    *,
    threshold: float | None = None,
    counts: Tensor | None = None,
) -> Tensor:
    """Return True at the `keep` highest |x_i| * scale_i, bool [..., n], or [parts, ..., n] with `splits`; x is on a
    GPU.

    With a threshold, not negative, rows with as many scores above it keep all of these. Without `splits`, the kernel
    adds the numbers of inputs (kept, seen) to the first row of `counts`, int64 [any, 2].
    """
    rows, n = operands.rows_of(x), x.shape[-1]
    keeps = tuple(map(int, per_part(keep, splits)))
    column_scale, column_scale_stride = operands.column_scale_of(scale)
    limit = None if threshold is None else struct.unpack("<i", struct.pack("<f", threshold))[0]
    mask = torch.empty(len(keeps), *x.shape, dtype=torch.bool, device=x.device)
    if mask.numel():
        with operands.current(x.device):
            top_k_kernel[(len(rows), len(keeps))](
                rows, rows.stride(0), column_scale, column_scale_stride, keeps, limit, mask.view(torch.uint8),
                counts, n, BLOCK, num_warps=WARPS, **OPTIONS,
            )  # fmt: skip
    return mask[0] if splits is None else mask


def top_k_linear(
    x: Tensor,
    weight_t: WeightT,
    scale: Tensor | None,
    keep: int | Sequence[int],
    splits: Sequence[int] | None = None,
    *,
    config: Config | None = None,
) -> Tensor:
    """Return y [..., m] of exactly the `keep` inputs of highest |x_i| * scale_i, the lower index first among equals.

    Rows, `config` and errors as in `sparse_linear`.
    """
    return masked_linear(x, weight_t, top_k_masks(x, scale, keep, splits), splits, config=config)
