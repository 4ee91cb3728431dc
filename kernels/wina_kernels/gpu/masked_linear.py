"""Multiply with the inputs of a given mask; defined by `reference.masked_linear`."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from wina_kernels.dense import MOST_ROWS, masked_dense
from wina_kernels.gpu import operands
from wina_kernels.gpu.configs import Config
from wina_kernels.gpu.shares import product, share_sums
from wina_kernels.gpu.tiles import add_products, output_tile, store, weight_tile, zeros
from wina_kernels.weights import WeightT


@triton.jit
def masked_linear_kernel(  # type: ignore[no-untyped-def]
    x, x_stride, mask, out, inputs_in_all, outputs_in_all, ends,
    weight, stride, scale, scale_stride, zero, zero_stride, group,
    BITS: tl.constexpr, UNIFORM: tl.constexpr, ROWS: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_M: tl.constexpr, VECTOR: tl.constexpr, LINES: tl.constexpr,
):  # fmt: skip
    """Set out float [shares, ROWS, m] on a grid of tiles and shares; mask: uint8 [parts, ROWS, n]."""
    part, first, start, end = output_tile(ends, BLOCK_M, BITS)
    sums = zeros(ROWS, BLOCK_M, LINES)
    for block in range(tl.program_id(1) * BLOCK_N, inputs_in_all, tl.num_programs(1) * BLOCK_N):
        inputs = block + tl.arange(0, BLOCK_N)
        inside = inputs < inputs_in_all
        values = ()
        kept = ()
        for row in tl.static_range(ROWS):
            values += (tl.load(x + row * x_stride + inputs, inside, 0.0).to(tl.float32),)  # type: ignore[assignment]
            masked = tl.load(mask + (part * ROWS + row) * inputs_in_all + inputs, inside, 0)
            kept += (masked != 0,)  # type: ignore[assignment]
        weights = weight_tile(
            weight, stride, scale, scale_stride, zero, zero_stride, group, block, kept, first, end,
            BITS, UNIFORM, BLOCK_N, BLOCK_M, VECTOR,
        )  # fmt: skip
        sums = add_products(sums, values, kept, weights, BITS, LINES)
    store(sums, out, outputs_in_all, first, start, end, BLOCK_M, LINES)


def masked_linear(
    x: Tensor,
    weight_t: WeightT,
    mask: Tensor,
    splits: Sequence[int] | None = None,
    *,
    config: Config | None = None,
) -> Tensor:
    """Return y [..., m] of the inputs where `mask`, bool [..., n], or [parts, ..., n] with `splits`, is True.

    Rows, `config` and errors as in `sparse_linear`.
    """
    rows, m = operands.rows_of(x), weight_t.shape[1]
    if len(rows) > MOST_ROWS:
        return masked_dense(x, weight_t, mask, splits)
    own = (mask.contiguous().view(torch.uint8),)
    y = product(masked_linear_kernel, rows, own, weight_t, operands.ends_of(splits, m), config)
    return y.view(*x.shape[:-1], m)


def masked_sums(x: Tensor, weight_t: WeightT, mask: Tensor, config: Config) -> Tensor:
    """Return the sums [shares, m] whose sum is `masked_linear` of one row x [n], for a kernel that adds them itself."""
    rows, own = operands.rows_of(x), (mask.view(torch.uint8),)
    return share_sums(masked_linear_kernel, rows, own, weight_t, (weight_t.shape[1],), config)[:, 0]
