"""Multiply with the inputs of a given mask; defined by `reference.masked_linear`."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from wina_kernels.cpu.launch import product
from wina_kernels.cpu.listing import rows_masked
from wina_kernels.dense import MOST_ROWS, masked_dense
from wina_kernels.weights import WeightT


def masked_linear(x: Tensor, weight_t: WeightT, mask: Tensor, splits: Sequence[int] | None = None) -> Tensor:
    """Return y [..., m] of the inputs where `mask`, bool [..., n], or [parts, ..., n] with `splits`, is True."""
    if x.numel() > MOST_ROWS * x.shape[-1]:
        return masked_dense(x, weight_t, mask, splits)
    masks = mask.reshape(len(splits or (0,)), x.numel() // x.shape[-1], x.shape[-1]).numpy()
    return product(x, weight_t, splits, lambda flat, *lists: rows_masked(flat, masks, *lists))
