"""Launch of a product: programs sum shares of the inputs, and a second kernel adds the sums."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from wina_kernels.gpu import operands
from wina_kernels.gpu.tiles import MOST_SHARES, Config, case_of, default, shipped
from wina_kernels.tuning import USUAL_SPARSITY
from wina_kernels.weights import WeightT

OPTIONS: dict[str, Any] = {"enable_fp_fusion": True}
"""Compiler options whose defaults depend on its version."""
BLOCK = 256
WARPS = 4


@triton.jit
def add_kernel(sums, out, length, SHARES: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """Set out[i] = sums[0, i] + ... + sums[SHARES - 1, i], in an order that the compiled code fixes."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    lines = tl.arange(0, SHARES).to(tl.int64)[:, None] * length
    values = tl.load(sums + lines + at[None, :], (at < length)[None, :], 0.0)
    tl.store(out + at, tl.sum(values, axis=0), at < length)


def add(sums: Tensor, out: Tensor) -> None:
    """Set out [...] to sums [shares, ...] added in float32 and rounded to out's dtype."""
    length = out.numel()
    add_kernel[(triton.cdiv(length, BLOCK),)](sums, out, length, len(sums), BLOCK, num_warps=WARPS, **OPTIONS)


def product(kernel: Any, rows: Tensor, own: tuple[Any, ...], weight_t: WeightT, config: Config | None) -> Tensor:
    """Return y [rows, m] of x [rows, n], by a kernel that fills [shares, rows, m] with sums on a grid of tiles and
    shares.

    `own` are the kernel's arguments between x and out. `config` None takes that of the table that ships, or the default
    for the shape.
    """
    n, m = weight_t.shape
    if not rows.shape[0] * m:
        return rows.new_empty(len(rows), m)
    division = config or shipped(case_of(weight_t, len(rows), MOST_SHARES), USUAL_SPARSITY)
    division = division or default(n, m, len(rows), operands.bits_of(weight_t))
    sums = share_sums(kernel, rows, own, weight_t, division)
    if len(sums) == 1:
        return sums[0]
    out = rows.new_empty(len(rows), m)
    with operands.current(rows.device):
        add(sums, out)
    return out


def share_sums(kernel: Any, rows: Tensor, own: tuple[Any, ...], weight_t: WeightT, config: Config) -> Tensor:
    """Return the shares' sums [shares, rows, m] of `product`: float32, or in x's dtype if there is one share."""
    n, m = weight_t.shape
    tile, shares = config.tile, config.shares
    dtype = rows.dtype if shares == 1 else torch.float32
    sums = torch.empty(shares, len(rows), m, dtype=dtype, device=rows.device)
    with operands.current(rows.device):
        kernel[(triton.cdiv(m, tile.outputs), shares)](
            rows, rows.stride(0), *own, sums, n, m, *operands.weight_arguments(weight_t),
            operands.bits_of(weight_t), operands.is_uniform(weight_t, tile.inputs),
            len(rows), tile.inputs, tile.outputs, tile.vector, tile.lines, num_warps=tile.warps, **OPTIONS,
        )  # fmt: skip
    return sums
