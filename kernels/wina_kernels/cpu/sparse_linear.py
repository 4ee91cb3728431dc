"""Gate by a threshold on |x_i| * scale_i and multiply; defined by `reference.sparse_linear`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from wina_kernels.cpu.launch import product
from wina_kernels.cpu.listing import rows_above
from wina_kernels.dense import MOST_ROWS, masked_dense
from wina_kernels.reference import per_part, threshold_masks
from wina_kernels.weights import WeightT

_ONES = np.empty((1, 0), np.float32)


def sparse_linear(
    x: Tensor,
    weight_t: WeightT,
    scale: Tensor | None,
    threshold: float | Sequence[float],
    splits: Sequence[int] | None = None,
) -> Tensor:
    """Return y [..., m] of the inputs with |x_i| * scale_i > threshold, in x's dtype."""
    if x.numel() > MOST_ROWS * x.shape[-1]:
        return masked_dense(x, weight_t, threshold_masks(x, scale, threshold, splits), splits)
    scales = _ONES if scale is None else scale.reshape(-1, x.shape[-1]).numpy()
    thresholds = np.array(per_part(threshold, splits), np.float32)
    return product(x, weight_t, splits, lambda flat, *lists: rows_above(flat, scales, thresholds, *lists))
