"""Dense products: of prompts, and of batches that together keep almost every input."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from wina_kernels.native.many_rows import multiply_rows
from wina_kernels.weights import FLOATS, WeightT, are_recorded

MOST_ROWS = 8
"""More rows together keep so many inputs that all weights are read anyway."""


def are_few(x: Tensor) -> bool:
    """Return whether x [..., n] has rows, and no more than MOST_ROWS."""
    return 0 < x.numel() <= MOST_ROWS * x.shape[-1]


def takes(x: Tensor) -> bool:
    """Return whether kernels take x: floats of 16 or 32 bits, whose operations are not recorded for a gradient."""
    return x.dtype in FLOATS and not are_recorded(x)


def dense_product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return `functional.linear`, without its loss of speed for bfloat16 weights whose memory is transposed."""
    y = multiply_rows(x, weight.t(), bias)
    return functional.linear(x, weight, bias) if y is None else y


def masked_dense(x: Tensor, weight_t: WeightT, mask: Tensor, splits: Sequence[int] | None = None) -> Tensor:
    """Compute `reference.masked_linear` with 0 for dropped inputs; their weights must be finite."""
    weight = (weight_t if isinstance(weight_t, Tensor) else weight_t.dequantize()).to(x.dtype)
    masks = mask.unsqueeze(0) if splits is None else mask
    parts = torch.split(weight, list(splits or (weight.shape[1],)), dim=1)
    return torch.cat(
        [dense_product(x.masked_fill(own.logical_not(), 0), part.t()) for own, part in zip(masks, parts, strict=True)],
        dim=-1,
    )
