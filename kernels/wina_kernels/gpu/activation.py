# mypy: disable-error-code="no-untyped-def"
"""The gated unit of an MLP, from the sums of the products gate and up."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from wina_kernels.gpu import operands
from wina_kernels.gpu.program_sync import product_at
from wina_kernels.gpu.shares import OPTIONS

BLOCK = 128
WARPS = 4


@triton.jit
def silu_mul_kernel(sums, bias, out, units, SHARES: tl.constexpr, BLOCK: tl.constexpr):
    """Set out [units] = silu(gate) * up on a grid of blocks; sums: [SHARES, 2 units], gate first."""
    dtype: tl.constexpr = out.dtype.element_ty
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < units
    gate = product_at(sums, bias, at, inside, 2 * units, dtype, SHARES)
    up = product_at(sums, bias, at + units, inside, 2 * units, dtype, SHARES)
    activated = (gate / (1.0 + tl.exp(-gate))).to(dtype).to(tl.float32)
    tl.store(out + at, activated * up, inside)


def silu_mul(sums: Tensor, bias: Tensor | None, out: Tensor) -> None:
    """Set out [units] to silu(gate) * up of sums [shares, 2 units] and bias [2 units], gate first.

    Rounds the products and the activation to out's dtype, as transformers does.
    """
    units = out.numel()
    with operands.current(out.device):
        silu_mul_kernel[(triton.cdiv(units, BLOCK),)](
            sums, bias, out, units, len(sums), BLOCK, num_warps=WARPS, **OPTIONS
        )
