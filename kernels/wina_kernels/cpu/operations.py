"""The operations of `reference` by compiled loops."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from wina_kernels.cpu.launch import product
from wina_kernels.cpu.listing import rows_above, rows_masked
from wina_kernels.dense import MOST_ROWS, masked_dense
from wina_kernels.reference import per_part, threshold_masks, top_k_masks
from wina_kernels.runs import by_runs
from wina_kernels.weights import MixedWeight, WeightT

_ONES = np.empty((1, 0), np.float32)


def sparse_linear(
    x: Tensor,
    weight_t: WeightT,
    scale: Tensor | None,
    threshold: float | Sequence[float],
    splits: Sequence[int] | None = None,
) -> Tensor:
    """Return y [..., m] of the inputs with |x_i| * scale_i > threshold, in x's dtype."""
    if x.numel() > MOST_ROWS * x.shape[-1] or isinstance(weight_t, MixedWeight):
        return masked_linear(x, weight_t, threshold_masks(x, scale, threshold, splits), splits)
    scales = _ONES if scale is None else scale.reshape(-1, x.shape[-1]).numpy()
    thresholds = np.array(per_part(threshold, splits), np.float32)
    return product(x, weight_t, splits, lambda flat, *lists: rows_above(flat, scales, thresholds, *lists))


def top_k_linear(
    x: Tensor, weight_t: WeightT, scale: Tensor | None, keep: int | Sequence[int], splits: Sequence[int] | None = None
) -> Tensor:
    """Return y [..., m] of the `keep` inputs with the highest |x_i| * scale_i, the lower index first among equals."""
    return masked_linear(x, weight_t, top_k_masks(x, scale, keep, splits), splits)


def masked_linear(x: Tensor, weight_t: WeightT, mask: Tensor, splits: Sequence[int] | None = None) -> Tensor:
    """Return y [..., m] of the inputs where `mask`, bool [..., n], or [parts, ..., n] with `splits`, is True."""
    if x.numel() > MOST_ROWS * x.shape[-1]:
        return masked_dense(x, weight_t, mask, splits)
    if isinstance(weight_t, MixedWeight):
        return by_runs(masked_linear, x, weight_t, mask, splits)
    masks = mask.reshape(len(splits or (0,)), x.numel() // x.shape[-1], x.shape[-1]).numpy()
    return product(x, weight_t, splits, lambda flat, *lists: rows_masked(flat, masks, *lists))
