"""The operations of `reference` by the fastest way, including the dense product, with checks of their arguments.

Gating alone is one pass: score, select, drop and count inputs without a mask in memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from wina_kernels.backends import Backend, GatedProduct, gated_product, load, serves, usable
from wina_kernels.dense import MOST_ROWS, is_supported, masked_dense
from wina_kernels.native import abi
from wina_kernels.native.operations import gate_rows
from wina_kernels.reference import threshold_masks, top_k_masks
from wina_kernels.selection import scores, threshold_mask, top_k_mask
from wina_kernels.tuning import fastest
from wina_kernels.weights import FLOATS, MixedWeight, QuantizedWeight, WeightT, form, outputs_bytes

DENSE = "dense"
_STEP = 0.05
"""Width of a sparsity class for the choice."""


def sparse_linear(
    x: Tensor, weight_t: WeightT, scale: Tensor | None, threshold: float, sparsity: float = 0.5
) -> Tensor:
    """Return y [..., m] of the inputs with |x_i| * scale_i > threshold, in x's dtype; see `reference.sparse_linear`.

    `sparsity`, the fraction that will probably be dropped, selects the backend. Raises ValueError for arguments
    that do not fit together.
    """
    check_product(x, weight_t)
    check_scale(x, scale)
    if math.isnan(threshold) or threshold < 0:
        raise ValueError(f"threshold is {threshold}; it must be 0 or more, for scores are never negative.")
    way = chosen(x, weight_t, sparsity)
    if way is None:
        return masked_dense(x, weight_t, threshold_masks(x, scale, threshold))
    return way.sparse_linear(x, weight_t, scale, threshold)


def top_k_linear(x: Tensor, weight_t: WeightT, scale: Tensor | None, keep: int) -> Tensor:
    """Return y [..., m] of the `keep` inputs with the highest |x_i| * scale_i; see `reference.top_k_linear`."""
    check_product(x, weight_t)
    check_scale(x, scale)
    check_keep(x, keep)
    way = chosen(x, weight_t, 1 - keep / x.shape[-1])
    if way is None:
        return masked_dense(x, weight_t, top_k_masks(x, scale, keep))
    return way.top_k_linear(x, weight_t, scale, keep)


def masked_linear(x: Tensor, weight_t: WeightT, mask: Tensor, sparsity: float = 0.5) -> Tensor:
    """Return y [..., m] of the inputs where `mask` is True; see `reference.masked_linear` and `sparse_linear`."""
    check_product(x, weight_t)
    if mask.shape != x.shape or mask.dtype != torch.bool:
        raise ValueError(f"mask is {_name(mask.dtype)} {list(mask.shape)}; it must be bool {list(x.shape)}.")
    if mask.device != x.device:
        raise ValueError(f"x is on {x.device} and mask on {mask.device}; move one to the other.")
    way = chosen(x, weight_t, sparsity)
    return masked_dense(x, weight_t, mask) if way is None else way.masked_linear(x, weight_t, mask)


def prepared(weight_t: WeightT, scale: Tensor | None, sparsity: float) -> GatedProduct | None:
    """Return a kernel that gates few rows with a float32 scale and multiplies, if it is the fastest; else None."""
    # Quantized weights take x in every float dtype, and the choice does not depend on it.
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
        cpu_mask = torch.rand(rows, n, generator=torch.Generator().manual_seed(0)) >= step * _STEP
        mask = cpu_mask.to(x.device)
        return {
            # The backend is first, so that the dense product replaces it only if it is clearly faster.
            backend: lambda: load(backend).masked_linear(ones, weight_t, mask),
            DENSE: lambda: masked_dense(ones, weight_t, mask),
        }

    # Codes are multiplied with inputs of any dtype; other weights have their own.
    weights = form(weight_t) if isinstance(weight_t, Tensor) else f"{form(weight_t)}, {x.dtype} inputs"
    return fastest(x.device, f"{backend}: {m} x {n}, {weights}, {rows} rows, {step * _STEP:.2f} dropped", ways)


def gate_above(
    x: Tensor, scale: Tensor | None, threshold: float, dense: Tensor | None = None, fewest: int = 0
) -> tuple[Tensor, Tensor]:
    """Return (m * x, kept) for x [..., n] with m = |x_i| * c_i > threshold; kept, int32 [...], counts m.

    `scale` is c [n], None for 1. Rows where `dense`, bool [...], is True stay unchanged. The mask is that of
    `threshold_mask(scores(x, scale), threshold, fewest)`; NaN stays or becomes NaN.
    """
    if not _is_native(x, scale):
        return _by_mask(x, threshold_mask(scores(x, scale), threshold, fewest), dense)
    # With a negative threshold, the library keeps exactly the `fewest` highest, but `threshold_mask` everything.
    return gate_rows(x, scale, threshold, fewest if threshold >= 0 else 0, dense)


def gate_top_k(x: Tensor, scale: Tensor | None, keep: int, dense: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return (m * x, kept) with the mask of `top_k_mask(scores(x, scale), keep)`: exactly `keep`, the lower index first
    among equals. Raises ValueError unless `keep` is from 1 to n."""
    check_keep(x, keep)
    if not _is_native(x, scale):
        return _by_mask(x, top_k_mask(scores(x, scale), keep), dense)
    return gate_rows(x, scale, -1.0, keep, dense)


def _is_native(x: Tensor, scale: Tensor | None) -> bool:
    exact = scale is None or scale.dtype == torch.float32
    return x.is_cpu and is_supported(x) and exact and abi.loaded() is not None


def _by_mask(x: Tensor, mask: Tensor, dense: Tensor | None) -> tuple[Tensor, Tensor]:
    if dense is not None:
        mask |= dense.unsqueeze(-1)
    # A product rather than a selection, so that a dropped NaN shows. The detour over bytes converts much faster.
    return x * mask.view(torch.uint8).to(x.dtype), mask.sum(-1, dtype=torch.int32)


def check_product(x: Tensor, weight_t: WeightT) -> None:
    """Check that x [..., n] and W^T [n, m] fit."""
    n, m = weight_t.shape
    if x.dtype not in FLOATS:
        raise ValueError(f"x is {_name(x.dtype)}; the kernels take float32, bfloat16 and float16.")
    if x.dim() == 0 or x.shape[-1] != n:
        raise ValueError(f"x {list(x.shape)} has not the {n} inputs of weight_t [{n}, {m}], which is W transposed.")
    if x.device != weight_t.device:
        raise ValueError(f"x is on {x.device} and the weight on {weight_t.device}; move one to the other.")
    for run in weight_t.runs if isinstance(weight_t, MixedWeight) else (weight_t,):
        if isinstance(run, QuantizedWeight):
            _check_quantized(run)
        elif run.dtype != x.dtype and not isinstance(weight_t, MixedWeight):
            raise ValueError(f"x is {_name(x.dtype)} and the weight {_name(run.dtype)}; convert one of them.")
        elif run.dtype not in FLOATS:
            raise ValueError(f"The weight is {_name(run.dtype)}; the kernels take float32, bfloat16 and float16.")
        elif run.stride(1) != 1 and m > 1:
            raise ValueError("The rows of weight_t are not contiguous; pass W.t().contiguous(), [inputs, outputs].")


def check_scale(x: Tensor, scale: Tensor | None) -> None:
    """Check that scale is float32 [n], on the device of x."""
    if scale is None:
        return
    n = x.shape[-1]
    if list(scale.shape) != [n] or scale.dtype != torch.float32:
        raise ValueError(f"scale is {_name(scale.dtype)} {list(scale.shape)}; it must be float32 [{n}].")
    if scale.device != x.device:
        raise ValueError(f"x is on {x.device} and scale on {scale.device}; move one to the other.")


def check_keep(x: Tensor, keep: int) -> None:
    """Check that the number of inputs to keep is from 1 to n."""
    if not 1 <= keep <= x.shape[-1]:
        raise ValueError(f"keep is {keep}; it must be from 1 to the {x.shape[-1]} inputs.")


def _check_quantized(weight: QuantizedWeight) -> None:
    n, m = weight.shape
    code_dtype = torch.int8 if weight.bits == 8 else torch.uint8
    if weight.codes.dtype != code_dtype or (weight.codes.stride(1) != 1 and weight.codes.shape[1] > 1):
        raise ValueError(
            f"codes are {_name(weight.codes.dtype)} with strides {list(weight.codes.stride())}; {weight.bits} bits are "
            f"held in {_name(code_dtype)}, with contiguous rows."
        )
    if weight.group < 1:
        raise ValueError(f"A group of {weight.group} inputs is none; give 1 or more.")
    columns = outputs_bytes(weight)
    groups = -(-n // weight.group)
    if list(weight.codes.shape) != [n, columns]:
        shape = list(weight.codes.shape)
        raise ValueError(f"codes {shape} do not hold {m} outputs in {weight.bits} bits; they must be [{n}, {columns}].")
    for name, values in (("scale", weight.scale), ("zero", weight.zero)):
        if values is not None and list(values.shape) != [groups, m]:
            raise ValueError(
                f"{name} {list(values.shape)} does not fit {n} inputs in groups of {weight.group}; "
                f"it must be [{groups}, {m}]."
            )
        if values is not None and values.device != weight.codes.device:
            raise ValueError(f"{name} is on {values.device} and the codes on {weight.device}; move one to the other.")


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
