"""Gate by a threshold on |x_i| * scale_i and multiply; defined by `reference.sparse_linear`.

Each program scores its inputs anew, some cached kilobytes, and loads the rows of W^T under the mask, so dropped rows
cause no memory traffic. Compacting the kept indices first would make every load useful, but needs another launch, whose
latency (an estimated 2 to 3 microseconds) is half of reading half of a 4096 x 4096 matrix in bfloat16 at 3 TB/s. A
masked load costs an issue slot, not bandwidth, and at batch 1 a multiprocessor has slots to spare.
"""

from __future__ import annotations

from collections.abc import Sequence

import triton
import triton.language as tl
from torch import Tensor

from wina_kernels.dense import MOST_ROWS, masked_dense
from wina_kernels.gpu import operands
from wina_kernels.gpu.configs import MOST_SHARES, Config
from wina_kernels.gpu.shares import product, share_sums
from wina_kernels.gpu.tiles import add_products, one_of, output_tile, store, weight_tile, zeros
from wina_kernels.reference import per_part, threshold_masks
from wina_kernels.weights import WeightT


@triton.jit
def sparse_linear_kernel(  # type: ignore[no-untyped-def]
    x, x_stride, column_scale, column_scale_stride, thresholds, counts, out, inputs_in_all, outputs_in_all, ends,
    weight, stride, scale, scale_stride, zero, zero_stride, group,
    BITS: tl.constexpr, UNIFORM: tl.constexpr, ROWS: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_M: tl.constexpr, VECTOR: tl.constexpr, LINES: tl.constexpr,
):  # fmt: skip
    """Set out float [shares, ROWS, m] on a grid of tiles and shares; thresholds and ends: one for each part.

    The first tile's programs, each of which sees a share of the inputs, add what they keep to their line of counts,
    int64 [shares or more, 2], if there are any, and the first of them what there was: (kept, seen).
    """
    part, first, start, end = output_tile(ends, BLOCK_M, BITS)
    threshold = one_of(thresholds, part)
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
                score *= tl.load(column_scale + part * column_scale_stride + inputs, inside, 0.0)
            values += (value,)  # type: ignore[assignment]
            kept += (inside & ~(score <= threshold),)  # type: ignore[assignment]
            if counts is not None:
                number += kept[row].to(tl.int32)
        weights = weight_tile(
            weight, stride, scale, scale_stride, zero, zero_stride, group, block, kept, first, end,
            BITS, UNIFORM, BLOCK_N, BLOCK_M, VECTOR,
        )  # fmt: skip
        sums = add_products(sums, values, kept, weights, BITS, LINES)
    store(sums, out, outputs_in_all, first, start, end, BLOCK_M, LINES)
    if counts is not None:  # noqa: SIM102 - settled when compiled, the other when run
        if tl.program_id(0) == 0:
            line = counts + 2 * tl.program_id(1)
            tl.store(line, tl.load(line) + tl.sum(number))
            if tl.program_id(1) == 0:
                tl.store(line + 1, tl.load(line + 1) + ROWS * inputs_in_all)


def sparse_linear(
    x: Tensor,
    weight_t: WeightT,
    scale: Tensor | None,
    threshold: float | Sequence[float],
    splits: Sequence[int] | None = None,
    *,
    config: Config | None = None,
    counts: Tensor | None = None,
) -> Tensor:
    """Return y [..., m] of the inputs with |x_i| * scale_i > threshold, in x's dtype.

    More than MOST_ROWS rows are one dense product. `config` is the division of work, as `tune` finds it, or None for
    the default. The kernel adds the numbers of inputs (kept, seen) to `counts`, int64 [MOST_SHARES, 2] on the device,
    in any of its rows: for MOST_ROWS rows at most, and one mask for all outputs. Raises ValueError if Triton cannot
    work.
    """
    rows, m = operands.rows_of(x), weight_t.shape[1]
    if counts is not None and (len(rows) > MOST_ROWS or splits is not None or counts.shape != (MOST_SHARES, 2)):
        raise ValueError(
            f"counts {list(counts.shape)} cannot be kept for {len(rows)} rows and splits {splits}; they are "
            f"[{MOST_SHARES}, 2], for {MOST_ROWS} rows at most and no splits."
        )
    if len(rows) > MOST_ROWS:
        return masked_dense(x, weight_t, threshold_masks(x, scale, threshold, splits), splits)
    ends = operands.ends_of(splits, m)
    thresholds = tuple(map(float, per_part(threshold, splits)))
    column_scale, column_scale_stride = operands.column_scale_of(scale)
    if not column_scale_stride and len(set(thresholds)) == 1:  # one mask for all
        ends, thresholds = ends[-1:], thresholds[:1]
    own = column_scale, column_scale_stride, thresholds, counts
    return product(sparse_linear_kernel, rows, own, weight_t, ends, config).view(*x.shape[:-1], m)


def sparse_sums(
    x: Tensor, weight_t: WeightT, scale: Tensor | None, threshold: float, config: Config, counts: Tensor | None = None
) -> Tensor:
    """Return the sums [shares, m] whose sum is `sparse_linear` of one row x [n], for a kernel that adds them itself."""
    rows = operands.rows_of(x)
    own = *operands.column_scale_of(scale), (float(threshold),), counts
    return share_sums(sparse_linear_kernel, rows, own, weight_t, (weight_t.shape[1],), config)[:, 0]
