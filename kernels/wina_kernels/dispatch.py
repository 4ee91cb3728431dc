"""The operations of `reference` by the fastest way, including the dense product."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from wina_kernels.backends import Backend, GatedProduct, gated_product, load, serves, usable
from wina_kernels.checks import check_keep, check_mask, check_product, check_scale, check_thresholds
from wina_kernels.dense import MOST_ROWS, masked_dense
from wina_kernels.reference import threshold_masks, top_k_masks
from wina_kernels.tuning import fastest
from wina_kernels.weights import WeightT, form

DENSE = "dense"
_STEP = 0.05
"""Width of a sparsity class for the choice."""


def sparse_linear(
    x: Tensor,
    weight_t: WeightT,
    scale: Tensor | None,
    threshold: float | Sequence[float],
    splits: Sequence[int] | None = None,
    sparsity: float = 0.5,
) -> Tensor:
    """Return y [..., m] of the inputs with |x_i| * scale_i > threshold, in x's dtype; see `reference.sparse_linear`.

    `sparsity` is the fraction that will probably be dropped, which decides the way. Raises ValueError for arguments
    that do not fit together.
    """
    check_product(x, weight_t, splits)
    check_scale(x, scale, splits)
    check_thresholds(threshold, splits)
    way = chosen(x, weight_t, sparsity)
    if way is None:
        return masked_dense(x, weight_t, threshold_masks(x, scale, threshold, splits), splits)
    return way.sparse_linear(x, weight_t, scale, threshold, splits)


def top_k_linear(
    x: Tensor, weight_t: WeightT, scale: Tensor | None, keep: int | Sequence[int], splits: Sequence[int] | None = None
) -> Tensor:
    """Return y [..., m] of the `keep` inputs with the highest |x_i| * scale_i; see `reference.top_k_linear`."""
    check_product(x, weight_t, splits)
    check_scale(x, scale, splits)
    check_keep(x, keep, splits)
    kept = keep if isinstance(keep, int) else sum(keep) / len(keep)
    way = chosen(x, weight_t, 1 - kept / x.shape[-1])
    if way is None:
        return masked_dense(x, weight_t, top_k_masks(x, scale, keep, splits), splits)
    return way.top_k_linear(x, weight_t, scale, keep, splits)


def masked_linear(
    x: Tensor, weight_t: WeightT, mask: Tensor, splits: Sequence[int] | None = None, sparsity: float = 0.5
) -> Tensor:
    """Return y [..., m] of the inputs where `mask` is True; see `reference.masked_linear` and `sparse_linear`."""
    check_product(x, weight_t, splits)
    check_mask(x, mask, splits)
    way = chosen(x, weight_t, sparsity)
    return masked_dense(x, weight_t, mask, splits) if way is None else way.masked_linear(x, weight_t, mask, splits)


def prepared(weight_t: WeightT, scale: Tensor | None, sparsity: float) -> GatedProduct | None:
    """Return a kernel that gates few rows with a float32 scale and multiplies, if it is the fastest; else None."""
    dtype = weight_t.dtype if isinstance(weight_t, Tensor) else torch.float32
    x = torch.zeros(1, weight_t.shape[0], dtype=dtype, device=weight_t.device)
    name = _chosen(x, weight_t, sparsity)
    return gated_product(name, weight_t, scale, sparsity)


def chosen(x: Tensor, weight_t: WeightT, sparsity: float) -> Backend | None:
    """Return the fastest backend for this shape, dtype, batch, sparsity and device, or None for the dense product.

    Measured on the weight itself when a case first occurs.
    """
    name = _chosen(x, weight_t, sparsity)
    return None if name == DENSE else load(name)


def _chosen(x: Tensor, weight_t: WeightT, sparsity: float) -> str:
    rows = x.numel() // x.shape[-1]
    if not 1 <= rows <= MOST_ROWS or not serves(usable(x.device)[0], weight_t):
        return DENSE
    backend, step = usable(x.device)[0], round(sparsity / _STEP)
    n, m = weight_t.shape

    def ways() -> dict[str, Callable[[], object]]:
        ones = torch.ones(rows, n, dtype=x.dtype, device=x.device)
        kept = torch.rand(rows, n, generator=torch.Generator().manual_seed(0)) >= step * _STEP
        mask = kept.to(x.device)
        return {
            backend: lambda: load(backend).masked_linear(ones, weight_t, mask),
            DENSE: lambda: masked_dense(ones, weight_t, mask),
        }

    return fastest(x.device, f"{backend}: {m} x {n}, {form(weight_t)}, {rows} rows, {step * _STEP:.2f} dropped", ways)
