"""The product with a weight in runs as the sum of products with its runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from wina_kernels.weights import MixedWeight, QuantizedWeight

MaskedLinear = Callable[[Tensor, Tensor | QuantizedWeight, Tensor, Sequence[int] | None], Tensor]


def by_runs(
    masked_linear: MaskedLinear, x: Tensor, weight_t: MixedWeight, mask: Tensor, splits: Sequence[int] | None
) -> Tensor:
    """Compute `reference.masked_linear` for a mixed weight by a function that takes one run; sums are float32."""
    if weight_t.order is not None:
        x, mask = x[..., weight_t.order], mask[..., weight_t.order]
    inputs = [run.shape[0] for run in weight_t.runs]
    parts = zip(weight_t.runs, torch.split(x, inputs, dim=-1), torch.split(mask, inputs, dim=-1), strict=True)
    products = [
        masked_linear(own.float(), run.float() if isinstance(run, Tensor) else run, kept, splits)
        for run, own, kept in parts
    ]
    return torch.stack(products).sum(0).to(x.dtype)
