"""The reference of every operation: its definition in plain PyTorch, on any device and in any float dtype.

For the inputs x [..., n], a weight W^T [n, m] and a mask M [..., n], y_j = sum over i with M_i of x_i W^T[i, j]. A
dropped input's weights are not read and may be infinite. An input whose score is NaN is kept, so that it shows.
"""

from __future__ import annotations

import torch
from torch import Tensor

from wina_kernels.selection import scores, threshold_mask, top_k_mask
from wina_kernels.weights import WeightT


def sparse_linear(x: Tensor, weight_t: WeightT, scale: Tensor | None, threshold: float) -> Tensor:
    """Return y [..., m] of the inputs with |x_i| * scale_i > threshold, in x's dtype.

    scale: float32 [n], None for 1 (TEAL's rule; column norms are WINA's).
    """
    return masked_linear(x, weight_t, threshold_masks(x, scale, threshold))


def top_k_linear(x: Tensor, weight_t: WeightT, scale: Tensor | None, keep: int) -> Tensor:
    """Return y [..., m] of the `keep` inputs with the highest |x_i| * scale_i, the lower index first among equals."""
    return masked_linear(x, weight_t, top_k_masks(x, scale, keep))


def masked_linear(x: Tensor, weight_t: WeightT, mask: Tensor) -> Tensor:
    """Return y [..., m] of the inputs where `mask`, bool [..., n], is True."""
    weight = weight_t if isinstance(weight_t, Tensor) else weight_t.dequantize()
    # 16-bit numbers are summed in float32, so that the result alone is rounded.
    exact = torch.promote_types(torch.promote_types(x.dtype, weight.dtype), torch.float32)
    weight = weight.to(exact)
    rows = x.to(exact).reshape(-1, x.shape[-1])
    products = [
        # Indexed, not multiplied by 0: weights of dropped inputs may be infinite, and 0 * inf is NaN.
        row[kept_inputs] @ weight[kept_inputs]
        for row, kept_inputs in zip(rows, mask.reshape(rows.shape), strict=True)
    ]
    y = torch.stack(products) if products else rows.new_zeros(0, weight.shape[1])
    return y.reshape(*x.shape[:-1], weight.shape[1]).to(x.dtype)


def threshold_masks(x: Tensor, scale: Tensor | None, threshold: float) -> Tensor:
    """Return True where |x_i| * scale_i > threshold or is NaN, bool [..., n]."""
    return threshold_mask(scores(x, scale), threshold)


def top_k_masks(x: Tensor, scale: Tensor | None, keep: int) -> Tensor:
    """Return True at the `keep` highest |x_i| * scale_i, bool [..., n]."""
    return top_k_mask(scores(x, scale), keep)
