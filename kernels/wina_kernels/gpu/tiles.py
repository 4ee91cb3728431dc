# mypy: disable-error-code="no-untyped-def, assignment"
"""Shared parts of the kernels: a program's outputs, weights read as float32, and sums of their products.

A program owns BLOCK_M outputs of one part and visits every num_programs(1)-th block of BLOCK_N inputs. Blocks are dealt
out in turn rather than in runs, because a rotated model has its large inputs side by side.
"""

import triton
import triton.language as tl


@triton.jit
def _aligned(start, BITS: tl.constexpr):
    if BITS == 4:  # two outputs share a byte, and the first of them may belong to the part before
        start = start // 2 * 2
    return start


@triton.jit
def _count(start, end, BLOCK_M: tl.constexpr, BITS: tl.constexpr):
    return tl.where(start < end, tl.cdiv(end - _aligned(start, BITS), BLOCK_M), 0)


@triton.jit
def output_tile(ends, BLOCK_M: tl.constexpr, BITS: tl.constexpr):
    """Return the program's part, the first of its BLOCK_M outputs, and the part's start and end.

    A program beyond the last tile gets outputs beyond the last part's end.
    """
    tile = tl.program_id(0)
    part = 0
    start = 0
    end = ends[0]
    earlier = 0
    until = _count(0, ends[0], BLOCK_M, BITS)
    for other in tl.static_range(1, len(ends)):
        later = tile >= until
        part = tl.where(later, other, part)
        start = tl.where(later, ends[other - 1], start)
        end = tl.where(later, ends[other], end)
        earlier = tl.where(later, until, earlier)
        until += _count(ends[other - 1], ends[other], BLOCK_M, BITS)
    return part, _aligned(start, BITS) + (tile - earlier) * BLOCK_M, start, end


@triton.jit
def one_of(values, part):
    """Return values[part] of a tuple."""
    value = values[0]
    for other in tl.static_range(1, len(values)):
        value = tl.where(part == other, values[other], value)
    return value


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
def store(sums, out, outputs_in_all, first, start, end, BLOCK_M: tl.constexpr, LINES: tl.constexpr):
    """Store each row's sums to out[program_id(1), row, outputs] of [num_programs(1), rows, m], rounded to its dtype."""
    outputs = first + tl.arange(0, BLOCK_M)
    inside = (outputs >= start) & (outputs < end)
    for row in tl.static_range(len(sums)):
        line = (tl.program_id(1) * len(sums) + row).to(tl.int64) * outputs_in_all
        if LINES == 1:
            tl.store(out + line + outputs, sums[row], inside)
        else:
            tl.store(out + line + outputs, tl.sum(sums[row], axis=0), inside)
