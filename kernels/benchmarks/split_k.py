"""The baseline on a GPU: a sparse matrix-vector product of the design that TEAL published.

As described in Liu et al., "Training-Free Activation Sparsity in Large Language Models", section 4.3 and its appendix
on kernels: W stored transposed, a two-dimensional grid over outputs and inputs, rows of W^T loaded where |x_i| >
threshold, partial sums added by atomics to a cleared output, configurations tuned for each shape and range of sparsity.
One row of x; atomics in float16 for float16, else in float32 and rounded afterwards. The order of additions, and so the
last bits, are random.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

CONFIGS = [
    triton.Config({"BLOCK_N": inputs, "BLOCK_M": outputs}, num_warps=warps)
    for inputs, outputs, warps in (
        (16, 256, 2), (32, 128, 2), (32, 256, 4), (16, 512, 4), (64, 64, 2), (64, 128, 4), (128, 64, 4), (32, 512, 8),
    )
]  # fmt: skip


@triton.jit
def split_k_kernel(
    x, weight, stride, y, n, m, threshold,
    BLOCK_N: tl.constexpr, BLOCK_M: tl.constexpr,
):  # fmt: skip
    """Add to y [m], cleared before, on a grid of blocks of outputs and blocks of inputs."""
    outputs = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    inputs = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    values = tl.load(x + inputs, inputs < n, 0.0).to(tl.float32)
    kept = tl.abs(values) > threshold
    rows = weight + inputs.to(tl.int64)[:, None] * stride
    weights = tl.load(rows + outputs[None, :], kept[:, None] & (outputs < m)[None, :], 0.0).to(tl.float32)
    tl.atomic_add(y + outputs, tl.sum(weights * values[:, None], axis=0).to(y.dtype.element_ty), outputs < m)


def split_k_linear(x: Tensor, weight_t: Tensor, threshold: float, config: triton.Config) -> Tensor:
    """Return y [m] of the inputs x [n] with |x_i| > threshold; `config` is one of CONFIGS."""
    n, m = weight_t.shape
    y = torch.zeros(m, dtype=x.dtype if x.dtype == torch.float16 else torch.float32, device=x.device)
    grid = triton.cdiv(m, config.kwargs["BLOCK_M"]), triton.cdiv(n, config.kwargs["BLOCK_N"])
    split_k_kernel[grid](
        x, weight_t, weight_t.stride(0), y, n, m, threshold, **config.kwargs, num_warps=config.num_warps
    )
    return y.to(x.dtype)
