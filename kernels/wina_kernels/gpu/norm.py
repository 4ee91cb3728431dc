# mypy: disable-error-code="no-untyped-def"
"""Add a product to the residual stream and normalize it, in one launch."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from wina_kernels.gpu import operands
from wina_kernels.gpu.program_sync import is_last, product_at
from wina_kernels.gpu.shares import OPTIONS

BLOCK = 64
"""Elements of a program: many programs, because each adds shares at the speed of one multiprocessor."""
WARPS = 4


@triton.jit
def add_norm_kernel(
    stream, sums, bias, gain, out, squares, counter, n, epsilon,
    SHARES: tl.constexpr, BLOCK: tl.constexpr, PROGRAMS: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    """Set stream [n] += product and out [n] = gain * stream / rms(stream), on a grid of blocks of n.

    sums: [SHARES, n], or None to add nothing; squares: float32 [PROGRAMS], scratch; counter: int32 [1], 0.
    """
    dtype: tl.constexpr = stream.dtype.element_ty
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    own = tl.load(stream + at, inside, 0.0).to(tl.float32)
    if sums is not None:
        own = (own + product_at(sums, bias, at, inside, n, dtype, SHARES)).to(dtype).to(tl.float32)
        tl.store(stream + at, own, inside)
    tl.store(squares + tl.program_id(0), tl.sum(own * own))
    if is_last(counter, tl.num_programs(0)):
        of = tl.arange(0, PROGRAMS)
        total = tl.sum(tl.load(squares + of, of < tl.num_programs(0), 0.0, cache_modifier=".cg"))
        whole = tl.arange(0, WHOLE)
        within = whole < n
        values = tl.load(stream + whole, within, 0.0, cache_modifier=".cg").to(tl.float32)
        normalized = (values * tl.rsqrt(total / n + epsilon)).to(dtype).to(tl.float32)
        tl.store(out + whole, normalized * tl.load(gain + whole, within, 0.0).to(tl.float32), within)


def add_norm(
    stream: Tensor,
    sums: Tensor | None,
    bias: Tensor | None,
    gain: Tensor,
    epsilon: float,
    out: Tensor,
    squares: Tensor,
    counter: Tensor,
) -> None:
    """Add the sums [shares, n] and bias [n] to stream [n] in place, and set out [n] to gain times its RMS norm.

    Rounds as transformers does: the product, the stream and the normalized stream to the stream's dtype. `sums` None
    adds nothing. Scratch: squares float32 [ceil(n / BLOCK)] or more, counter int32 [1 or more], zero.
    """
    n = stream.numel()
    programs = triton.cdiv(n, BLOCK)
    with operands.current(stream.device):
        add_norm_kernel[(programs,)](
            stream, sums, bias, gain, out, squares, counter, n, epsilon, 0 if sums is None else len(sums), BLOCK,
            triton.next_power_of_2(programs), triton.next_power_of_2(n), num_warps=WARPS, **OPTIONS,
        )  # fmt: skip
