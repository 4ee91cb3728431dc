"""The reference of every operation: its definition in plain PyTorch, on any device and in any float dtype.

For the inputs x [..., n], a weight W^T [n, m] and a mask M [..., n], y_j = sum over i with M_i of x_i W^T[i, j]. A
dropped input's weights are not read and may be infinite. An input whose score is NaN is kept, so that it shows.
`splits` divides the m outputs into parts (q, k, v; gate, up), each with its own mask.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from wina_kernels.selection import scores, threshold_mask, top_k_mask
from wina_kernels.weights import WeightT


def sparse_linear(
    x: Tensor,
    weight_t: WeightT,
    scale: Tensor | None,
    threshold: float | Sequence[float],
    splits: Sequence[int] | None = None,
) -> Tensor:
    """Return y [..., m] of the inputs with |x_i| * scale_i > threshold, in x's dtype.

    scale: float32 [n], or [parts, n] with `splits`; None for 1 (TEAL's rule; column norms are WINA's). One threshold,
    or with `splits` one for each part.
    """
    return masked_linear(x, weight_t, threshold_masks(x, scale, threshold, splits), splits)


def top_k_linear(
    x: Tensor, weight_t: WeightT, scale: Tensor | None, keep: int | Sequence[int], splits: Sequence[int] | None = None
) -> Tensor:
    """Return y [..., m] of the `keep` inputs with the highest |x_i| * scale_i, the lower index first among equals."""
    return masked_linear(x, weight_t, top_k_masks(x, scale, keep, splits), splits)


def masked_linear(x: Tensor, weight_t: WeightT, mask: Tensor, splits: Sequence[int] | None = None) -> Tensor:
    """Return y [..., m] of the inputs where `mask`, bool [..., n], or [parts, ..., n] with `splits`, is True."""
    weight = weight_t if isinstance(weight_t, Tensor) else weight_t.dequantize()
    # 16-bit numbers are summed in float32, so that the result alone is rounded.
    exact = torch.promote_types(torch.promote_types(x.dtype, weight.dtype), torch.float32)
    masks = mask.unsqueeze(0) if splits is None else mask
    columns = torch.split(weight.to(exact), list(splits or (weight.shape[1],)), dim=1)
    rows = x.to(exact).reshape(-1, x.shape[-1])
    products = [
        torch.stack(
            [
                # Indexed, not multiplied by 0: weights of dropped inputs may be infinite, and 0 * inf is NaN.
                row[kept_inputs] @ part_weight[kept_inputs]
                for row, kept_inputs in zip(rows, part_mask.reshape(rows.shape), strict=True)
            ]
        )
        if len(rows)
        else rows.new_zeros(0, part_weight.shape[1])
        for part_weight, part_mask in zip(columns, masks, strict=True)
    ]
    return torch.cat(products, dim=1).reshape(*x.shape[:-1], weight.shape[1]).to(x.dtype)


def threshold_masks(
    x: Tensor, scale: Tensor | None, threshold: float | Sequence[float], splits: Sequence[int] | None = None
) -> Tensor:
    """Return True where |x_i| * scale_i > threshold or is NaN, bool [..., n], or [parts, ..., n] with `splits`."""
    thresholds, count = per_part(threshold, splits), len(splits or (0,))
    masks = [threshold_mask(scores(x, _of(scale, index)), float(thresholds[index])) for index in range(count)]
    return masks[0] if splits is None else torch.stack(masks)


def top_k_masks(
    x: Tensor, scale: Tensor | None, keep: int | Sequence[int], splits: Sequence[int] | None = None
) -> Tensor:
    """Return True at the `keep` highest |x_i| * scale_i, bool [..., n], or [parts, ..., n] with `splits`."""
    keeps, count = per_part(keep, splits), len(splits or (0,))
    masks = [top_k_mask(scores(x, _of(scale, index)), int(keeps[index])) for index in range(count)]
    return masks[0] if splits is None else torch.stack(masks)


def per_part(value: float | Sequence[float], splits: Sequence[int] | None) -> Sequence[float]:
    return value if isinstance(value, Sequence) else (value,) * len(splits or (0,))


def _of(scale: Tensor | None, index: int) -> Tensor | None:
    return scale if scale is None or scale.dim() == 1 else scale[index]
