# mypy: disable-error-code="no-untyped-def, assignment"
"""The gated products, defined in `reference`: by a threshold on |x_i| * scale_i, by the highest scores, and by a mask.

A program owns BLOCK_M outputs and visits every num_programs(1)-th block of BLOCK_N inputs. Blocks are dealt
out in turn rather than in runs, because a rotated model has its large inputs side by side. It loads the rows of W^T
under the mask, so dropped rows cause no memory traffic.

With a threshold each program scores its inputs anew, some cached kilobytes. Compacting the kept indices first would
make every load useful, but needs another launch, whose latency (an estimated 2 to 3 microseconds) is half of reading
half of a 4096 x 4096 matrix in bfloat16 at 3 TB/s. A masked load costs an issue slot, not bandwidth, and at batch 1 a
multiprocessor has slots to spare.

Top k: non-negative floats order like their bits. The k-th highest is found digit by digit of 8 bits, from the histogram
of the scores that share the digits found so far: four passes over some kilobytes and no sort. Counts are integers, so
that their order does not matter.
"""

from __future__ import annotations

import struct

import torch
import triton
import triton.language as tl
from torch import Tensor

from wina_kernels.dense import MOST_ROWS, masked_dense
from wina_kernels.gpu import operands
from wina_kernels.gpu.shares import OPTIONS, product, share_sums
from wina_kernels.gpu.tiles import MOST_SHARES, Config
from wina_kernels.reference import threshold_masks
from wina_kernels.weights import WeightT


@triton.jit
def sparse_linear_kernel(
    x, x_stride, column_scale, threshold, counts, out, inputs_in_all, outputs_in_all,
    weight, stride, scale, scale_stride, zero, zero_stride, group,
    BITS: tl.constexpr, UNIFORM: tl.constexpr, ROWS: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_M: tl.constexpr, VECTOR: tl.constexpr, LINES: tl.constexpr,
):  # fmt: skip
    """Set out float [shares, ROWS, m] on a grid of tiles and shares.

    counts: int64 [shares or more, 2], (kept, seen), or None. Each program of the first tile adds the inputs that it
    keeps of its share to its own line, and the first program also adds the number of all inputs.
    """
    first = tl.program_id(0) * BLOCK_M
    sums = zeros(ROWS, BLOCK_M, LINES)
    number = tl.zeros((BLOCK_N,), tl.int32)
    for block in range(tl.program_id(1) * BLOCK_N, inputs_in_all, tl.num_programs(1) * BLOCK_N):
        inputs = block + tl.arange(0, BLOCK_N)
        inside = inputs < inputs_in_all
        values = ()
        kept = ()
        for row in tl.static_range(ROWS):
            value = tl.load(x + row * x_stride + inputs, inside, 0.0).to(tl.float32)
            score = tl.abs(value)
            if column_scale is not None:
                score *= tl.load(column_scale + inputs, inside, 0.0)
            values += (value,)
            # Not `score > threshold`: an input whose score is NaN is kept, so that it shows.
            kept += (inside & ~(score <= threshold),)
            if counts is not None:
                number += kept[row].to(tl.int32)
        weights = weight_tile(
            weight, stride, scale, scale_stride, zero, zero_stride, group, block, kept, first, outputs_in_all,
            BITS, UNIFORM, BLOCK_N, BLOCK_M, VECTOR,
        )  # fmt: skip
        sums = add_products(sums, values, kept, weights, BITS, LINES)
    store(sums, out, outputs_in_all, first, BLOCK_M, LINES)
    if counts is not None:  # noqa: SIM102 - settled when compiled, the other when run
        # No atomics: each line of counts has one program that writes it.
        if tl.program_id(0) == 0:
            line = counts + 2 * tl.program_id(1)
            tl.store(line, tl.load(line) + tl.sum(number))
            if tl.program_id(1) == 0:
                tl.store(line + 1, tl.load(line + 1) + ROWS * inputs_in_all)


def sparse_linear(
    x: Tensor,
    weight_t: WeightT,
    scale: Tensor | None,
    threshold: float,
    *,
    config: Config | None = None,
    counts: Tensor | None = None,
) -> Tensor:
    """Return y [..., m] of the inputs with |x_i| * scale_i > threshold, in x's dtype.

    More than MOST_ROWS rows are one dense product. `config` is the division of work, one of `tiles.candidates`, or None
    for the default. The kernel adds the numbers of inputs (kept, seen) to `counts`, int64 [MOST_SHARES, 2] on the
    device, in any of its rows: for MOST_ROWS rows at most. Raises ValueError if Triton cannot work.
    """
    rows, m = operands.rows_of(x), weight_t.shape[1]
    if counts is not None and (len(rows) > MOST_ROWS or counts.shape != (MOST_SHARES, 2)):
        raise ValueError(
            f"counts {list(counts.shape)} cannot be kept for {len(rows)} rows; they are [{MOST_SHARES}, 2], for "
            f"{MOST_ROWS} rows at most."
        )
    if len(rows) > MOST_ROWS:
        return masked_dense(x, weight_t, threshold_masks(x, scale, threshold))
    own = operands.column_scale_of(scale), float(threshold), counts
    return product(sparse_linear_kernel, rows, own, weight_t, config).view(*x.shape[:-1], m)


def sparse_sums(
    x: Tensor, weight_t: WeightT, scale: Tensor | None, threshold: float, config: Config, counts: Tensor | None = None
) -> Tensor:
    """Return the sums [shares, m] whose sum is `sparse_linear` of one row x [n], for a kernel that adds them itself."""
    rows = operands.rows_of(x)
    own = operands.column_scale_of(scale), float(threshold), counts
    return share_sums(sparse_linear_kernel, rows, own, weight_t, config)[:, 0]


TOP_K_BLOCK = 2048
TOP_K_WARPS = 8


@triton.jit
def _keys(x, column_scale, inputs, inside):
    """Return the bits of |x_i| * scale_i, int32, in which NaN is above everything."""
    score = tl.abs(tl.load(x + inputs, inside, 0.0).to(tl.float32))
    if column_scale is not None:
        score *= tl.load(column_scale + inputs, inside, 0.0)
    return tl.where(score == score, score.to(tl.int32, bitcast=True), 0x7FFFFFFF)


@triton.jit
def top_k_kernel(
    x, x_stride, column_scale, keep, limit, mask, counts, inputs_in_all, BLOCK: tl.constexpr
):  # fmt: skip
    """Set mask, uint8 [rows, n], on a grid of rows.

    With a limit, the bits of a threshold, rows with as many scores above it keep all of these. Each program adds the
    (kept, seen) inputs of its row to the first line of counts, int64 [any, 2], if there are any.
    """
    row = tl.program_id(0).to(tl.int64)
    x += row * x_stride
    room = keep  # number still to keep among scores with the digits found
    found = 0
    bins = tl.arange(0, 256)
    for shift in tl.static_range(24, -1, -8):
        held = tl.zeros((256,), tl.int32)
        for block in range(0, inputs_in_all, BLOCK):
            inputs = block + tl.arange(0, BLOCK)
            inside = inputs < inputs_in_all
            keys = _keys(x, column_scale, inputs, inside)
            # Two shifts, because a shift of 32 bits by 32 is undefined.
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
        tl.store(mask + row * inputs_in_all + inputs, kept.to(tl.uint8), inside)
        earlier += tl.sum(equal)
        total += tl.sum((inside & kept).to(tl.int32))
    if counts is not None:
        # Each row has its own program. The counts are integers, so that the order of additions changes nothing.
        tl.atomic_add(counts, total.to(tl.int64))  # type: ignore[attr-defined]
        tl.atomic_add(counts + 1, inputs_in_all.to(tl.int64))


def top_k_masks(
    x: Tensor, scale: Tensor | None, keep: int, *, threshold: float | None = None, counts: Tensor | None = None
) -> Tensor:
    """Return True at the `keep` highest |x_i| * scale_i, bool [..., n]; x is on a GPU.

    With a threshold, not negative, rows with as many scores above it keep all of these. The kernel adds the numbers of
    inputs (kept, seen) to the first row of `counts`, int64 [any, 2].
    """
    rows, n = operands.rows_of(x), x.shape[-1]
    # The threshold's bits as float32: non-negative floats order like them.
    limit = None if threshold is None else struct.unpack("<i", struct.pack("<f", threshold))[0]
    mask = torch.empty(x.shape, dtype=torch.bool, device=x.device)
    if mask.numel():
        with operands.current(x.device):
            top_k_kernel[(len(rows),)](
                rows, rows.stride(0), operands.column_scale_of(scale), keep, limit, mask.view(torch.uint8),
                counts, n, TOP_K_BLOCK, num_warps=TOP_K_WARPS, **OPTIONS,
            )  # fmt: skip
    return mask


def top_k_linear(
    x: Tensor, weight_t: WeightT, scale: Tensor | None, keep: int, *, config: Config | None = None
) -> Tensor:
    """Return y [..., m] of exactly the `keep` inputs of highest |x_i| * scale_i, the lower index first among equals.

    Rows, `config` and errors are as in `sparse_linear`.
    """
    return masked_linear(x, weight_t, top_k_masks(x, scale, keep), config=config)


@triton.jit
def masked_linear_kernel(
    x, x_stride, mask, out, inputs_in_all, outputs_in_all,
    weight, stride, scale, scale_stride, zero, zero_stride, group,
    BITS: tl.constexpr, UNIFORM: tl.constexpr, ROWS: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_M: tl.constexpr, VECTOR: tl.constexpr, LINES: tl.constexpr,
):  # fmt: skip
    """Set out float [shares, ROWS, m] on a grid of tiles and shares; mask: uint8 [ROWS, n]."""
    first = tl.program_id(0) * BLOCK_M
    sums = zeros(ROWS, BLOCK_M, LINES)
    for block in range(tl.program_id(1) * BLOCK_N, inputs_in_all, tl.num_programs(1) * BLOCK_N):
        inputs = block + tl.arange(0, BLOCK_N)
        inside = inputs < inputs_in_all
        values = ()
        kept = ()
        for row in tl.static_range(ROWS):
            values += (tl.load(x + row * x_stride + inputs, inside, 0.0).to(tl.float32),)
            masked = tl.load(mask + row * inputs_in_all + inputs, inside, 0)
            kept += (masked != 0,)
        weights = weight_tile(
            weight, stride, scale, scale_stride, zero, zero_stride, group, block, kept, first, outputs_in_all,
            BITS, UNIFORM, BLOCK_N, BLOCK_M, VECTOR,
        )  # fmt: skip
        sums = add_products(sums, values, kept, weights, BITS, LINES)
    store(sums, out, outputs_in_all, first, BLOCK_M, LINES)


def masked_linear(x: Tensor, weight_t: WeightT, mask: Tensor, *, config: Config | None = None) -> Tensor:
    """Return y [..., m] of the inputs where `mask`, bool [..., n], is True.

    Rows, `config` and errors are as in `sparse_linear`.
    """
    rows, m = operands.rows_of(x), weight_t.shape[1]
    if len(rows) > MOST_ROWS:
        return masked_dense(x, weight_t, mask)
    own = (mask.contiguous().view(torch.uint8),)
    return product(masked_linear_kernel, rows, own, weight_t, config).view(*x.shape[:-1], m)


def masked_sums(x: Tensor, weight_t: WeightT, mask: Tensor, config: Config) -> Tensor:
    """Return the sums [shares, m] whose sum is `masked_linear` of one row x [n], for a kernel that adds them itself."""
    rows, own = operands.rows_of(x), (mask.view(torch.uint8),)
    return share_sums(masked_linear_kernel, rows, own, weight_t, config)[:, 0]


@triton.jit
def zeros(ROWS: tl.constexpr, BLOCK_M: tl.constexpr, LINES: tl.constexpr):
    """Return a sum for each row of x, float32 [BLOCK_M], or [LINES, BLOCK_M] with several lines."""
    sums = ()
    for _ in tl.static_range(ROWS):
        if LINES == 1:
            sums += (tl.zeros((BLOCK_M,), tl.float32),)
        else:
            sums += (tl.zeros((LINES, BLOCK_M), tl.float32),)
    return sums


@triton.jit
def weight_tile(
    weight, stride, scale, scale_stride, zero, zero_stride, group, block, kept, first, end,
    BITS: tl.constexpr, UNIFORM: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_M: tl.constexpr, VECTOR: tl.constexpr,
):  # fmt: skip
    """Load W^T [BLOCK_N, BLOCK_M] in float32 of the inputs from `block` and the outputs from `first` on.

    `kept`, a tuple of bool [BLOCK_N], holds each row's mask: rows that none keeps are not read, nor outputs from `end`
    on. What is not read is 0 in float weights and anything in quantized ones. UNIFORM: the block lies within one group
    of scales. A thread loads VECTOR outputs at a time.
    """
    outputs = first + tl.arange(0, BLOCK_M)
    inside = outputs < end
    # Triton would have longer loads, and have the lanes that this leaves over take other inputs of the tile. With this
    # many, a thread holds all inputs of its outputs, and their sum needs neither shuffles nor shared memory.
    loaded = tl.max_contiguous(outputs, VECTOR)
    either = kept[0]
    for row in tl.static_range(1, len(kept)):
        either |= kept[row]
    inputs = block + tl.arange(0, BLOCK_N)
    # A matrix may hold more elements than 32 bits count. It is read once and should not push x out of the cache.
    rows = weight + inputs.to(tl.int64)[:, None] * stride
    if BITS == 4:
        pairs = tl.max_contiguous(first // 2 + tl.arange(0, BLOCK_M // 2), VECTOR // 2)
        # end - end // 2: the bytes of `end` outputs, the last one half full if `end` is odd.
        read = either[:, None] & (pairs < end - end // 2)[None, :]
        codes = tl.load(rows + pairs[None, :], read, 0, eviction_policy="evict_first")
        values = tl.interleave(codes & 0xF, codes >> 4).to(tl.float32)
    else:
        read = either[:, None] & inside[None, :]
        values = tl.load(rows + loaded[None, :], read, 0, eviction_policy="evict_first").to(tl.float32)
    if BITS < 16 and UNIFORM:
        shared = (block // group).to(tl.int64)
        if zero is not None:
            values -= tl.load(zero + shared * zero_stride + outputs, inside, 0).to(tl.float32)[None, :]
        values *= tl.load(scale + shared * scale_stride + outputs, inside, 0).to(tl.float32)[None, :]
    elif BITS < 16:
        groups = (inputs // group).to(tl.int64)[:, None]
        both = either[:, None] & inside[None, :]
        if zero is not None:
            values -= tl.load(zero + groups * zero_stride + outputs[None, :], both, 0).to(tl.float32)
        values *= tl.load(scale + groups * scale_stride + outputs[None, :], both, 0).to(tl.float32)
    return values


@triton.jit
def add_products(sums, values, kept, weights, BITS: tl.constexpr, LINES: tl.constexpr):
    """Return each row's sums + x @ W^T over the inputs that this row keeps; `values` are x, float32 [BLOCK_N].

    Every LINES-th input is added to the same line, as Triton deals the tile's inputs out to warps: lines of different
    warps stay apart until they are stored.
    """
    added = ()
    for row in tl.static_range(len(sums)):
        own = weights
        if len(sums) > 1 or BITS < 16:  # what a row drops is left out, not multiplied by 0: 0 * inf would be NaN
            own = tl.where(kept[row][:, None], weights, 0.0)
        x = tl.where(kept[row], values[row], 0.0)
        products = own * x[:, None]
        if LINES > 1:
            shape: tl.constexpr = (weights.shape[0] // LINES, LINES, weights.shape[1])
            products = tl.reshape(products, shape)
        added += (sums[row] + tl.sum(products, axis=0),)
    return added


@triton.jit
def store(sums, out, outputs_in_all, first, BLOCK_M: tl.constexpr, LINES: tl.constexpr):
    """Store each row's sums to out[program_id(1), row, outputs] of [num_programs(1), rows, m], rounded to its dtype."""
    outputs = first + tl.arange(0, BLOCK_M)
    inside = outputs < outputs_in_all
    for row in tl.static_range(len(sums)):
        line = (tl.program_id(1) * len(sums) + row).to(tl.int64) * outputs_in_all
        if LINES == 1:
            tl.store(out + line + outputs, sums[row], inside)
        else:
            tl.store(out + line + outputs, tl.sum(sums[row], axis=0), inside)
