"""Keep exactly the highest scores and multiply; defined by `reference.top_k_linear`."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from wina_kernels.cpu.masked_linear import masked_linear
from wina_kernels.reference import top_k_masks
from wina_kernels.weights import WeightT


def top_k_linear(
    x: Tensor, weight_t: WeightT, scale: Tensor | None, keep: int | Sequence[int], splits: Sequence[int] | None = None
) -> Tensor:
    """Return y [..., m] of the `keep` inputs with the highest |x_i| * scale_i, the lower index first among equals."""
    return masked_linear(x, weight_t, top_k_masks(x, scale, keep, splits), splits)
