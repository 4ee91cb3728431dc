"""Sums over shares of the inputs: who computes them, and how they are added."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from wina_kernels.gpu.configs import Config

OPTIONS: dict[str, Any] = {"enable_fp_fusion": True}
"""For the compiler, whose default depends on its version."""
BLOCK = 256
WARPS = 4


@triton.jit
def add_kernel(sums, out, length, SHARES: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """out[i] = sums[0, i] + ... + sums[SHARES - 1, i], in an order that the compiled code fixes."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    lines = tl.arange(0, SHARES).to(tl.int64)[:, None] * length
    values = tl.load(sums + lines + at[None, :], (at < length)[None, :], 0.0)
    tl.store(out + at, tl.sum(values, axis=0), at < length)


def add(sums: Tensor, out: Tensor) -> None:
    """out [...] = sums [shares, ...] added up in float32 and rounded to out's dtype."""
    length = out.numel()
    add_kernel[(triton.cdiv(length, BLOCK),)](sums, out, length, len(sums), BLOCK, num_warps=WARPS, **OPTIONS)


def product(
    out: Tensor, ends: tuple[int, ...], bits: int, config: Config, launch: Callable[[tuple[int, int], Tensor], None]
) -> None:
    """out [rows, m], by way of a launch on a grid of tiles and shares that fills [shares, rows, m] with sums."""
    starts = (0, *ends[:-1])
    # As `tiles.output_tile` counts them.
    tiles = sum(
        triton.cdiv(end - (start // 2 * 2 if bits == 4 else start), config.tile.outputs)
        for start, end in zip(starts, ends, strict=True)
        if start < end
    )
    if config.shares == 1:
        launch((tiles, 1), out)
        return
    sums = torch.empty(config.shares, *out.shape, dtype=torch.float32, device=out.device)
    launch((tiles, config.shares), sums)
    add(sums, out)
