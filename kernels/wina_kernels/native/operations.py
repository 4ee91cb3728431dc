"""The operations of `reference` by the native library; for a weight that reads token after token, gate and product
in one call.

Inputs of quantized weights are rounded to multiples of a power of two, at most 2^-12 of the largest of up to 48 kept
ones; bfloat16 inputs of at least a 64th of it stay as they are.
"""

from __future__ import annotations

import ctypes
from typing import NamedTuple

import torch
from torch import Tensor

from wina_kernels.dense import is_small_batch, masked_dense
from wina_kernels.native.abi import Counts, Gate, StoredWeight, address, format_of, loaded
from wina_kernels.planes import PlaneWeight
from wina_kernels.reference import threshold_masks, top_k_masks
from wina_kernels.weights import WeightT

_WORTH_A_THREAD = 1 << 17
"""Gated inputs per thread; they take about a tenth of a millisecond."""


class Product(NamedTuple):
    """A gated product and what it read."""

    y: Tensor
    """[..., m]."""
    kept: int
    """Inputs kept, over all rows of x."""
    read: int
    """Rows of W^T read, over all rows of x: of weights in planes each plane, else as many as inputs are kept."""


def sparse_linear(x: Tensor, weight_t: WeightT, scale: Tensor | None, threshold: float) -> Tensor:
    """Return y [..., m] of the inputs with |x_i| * scale_i > threshold, in x's dtype."""
    if not is_small_batch(x):
        return masked_dense(x, weight_t, threshold_masks(x, scale, threshold))
    return multiply(x, StoredWeight(weight_t), scale, threshold).y


def top_k_linear(x: Tensor, weight_t: WeightT, scale: Tensor | None, keep: int) -> Tensor:
    """Return y [..., m] of the `keep` inputs with the highest |x_i| * scale_i, the lower index first among equals."""
    if not is_small_batch(x):
        return masked_dense(x, weight_t, top_k_masks(x, scale, keep))
    return multiply(x, StoredWeight(weight_t), scale, keep=keep).y


def masked_linear(x: Tensor, weight_t: WeightT, mask: Tensor) -> Tensor:
    """Return y [..., m] of the inputs where `mask`, bool [..., n], is True."""
    if not is_small_batch(x):
        return masked_dense(x, weight_t, mask)
    return multiply(x, StoredWeight(weight_t), None, mask=mask).y


def multiply(
    x: Tensor,
    stored: StoredWeight,
    scale: Tensor | None,
    threshold: float = -1.0,
    keep: int = 0,
    mask: Tensor | None = None,
) -> Product:
    """Return the product with the kept inputs of x [..., n], 1 to 8 rows.

    `mask` [..., n] selects them; without one, scores above the threshold, but at least the `keep` highest; with a
    negative threshold exactly these, or with `keep` 0 everything.
    """
    library, contiguous, kind = loaded(), x if x.is_contiguous() else x.contiguous(), format_of(x.dtype)
    if library is None:
        raise RuntimeError("The native library is missing; choose another backend.")
    # These names hold the memory until the call ends: the gate has addresses alone.
    y = torch.empty(*x.shape[:-1], stored.outputs, dtype=x.dtype)
    mask = mask if mask is None else mask.contiguous()
    scale = scale if scale is None else scale.contiguous()
    gate = Gate(address(mask), address(scale), threshold, keep)
    threads = min(torch.get_num_threads(), stored.threads)
    rows = contiguous.numel() // stored.inputs
    counts = Counts()
    status = library.wina_product(
        stored.address, ctypes.byref(gate), contiguous.data_ptr(), kind, rows, y.data_ptr(), kind, threads,
        ctypes.byref(counts),
    )  # fmt: skip
    if status != 0:
        raise MemoryError(f"No memory for the sums of {stored.outputs} outputs.")
    return Product(y, counts.kept, counts.read)


def gate_rows(
    x: Tensor, scale: Tensor | None, threshold: float, keep: int, whole: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return x [..., n] with 0 for dropped inputs, and the number of kept inputs, int32 [...].

    Inputs with scores above the threshold are kept, and at least the `keep` highest; a negative threshold keeps exactly
    these, or everything if `keep` is 0. `scale` is float32 [n]. Rows where `whole`, bool [...], is True stay unchanged.
    """
    library, inputs = loaded(), x.shape[-1]
    if library is None:
        raise RuntimeError("The native library is missing; gate by masks instead.")
    values = x.detach().contiguous()
    out, kept_counts = torch.empty_like(values), torch.empty(x.shape[:-1], dtype=torch.int32)
    scale = None if scale is None else scale.detach().contiguous()
    whole = None if whole is None else whole.contiguous()
    gate = Gate(None, address(scale), threshold, keep)
    threads = max(1, min(torch.get_num_threads(), values.numel() // _WORTH_A_THREAD))
    status = library.wina_gate_rows(
        ctypes.byref(gate), values.data_ptr(), format_of(x.dtype), kept_counts.numel(), inputs, address(whole),
        out.data_ptr(), kept_counts.data_ptr(), threads,
    )  # fmt: skip
    if status != 0:
        raise MemoryError(f"No memory for the scores of {inputs} inputs.")
    return out, kept_counts


class PreparedPlanes:
    """W^T [n, m] in planes or any other format, and the scale of its inputs' scores, float32 [n], None for ones."""

    def __init__(self, weight_t: WeightT | PlaneWeight, scale: Tensor | None) -> None:
        self._stored = StoredWeight(weight_t)
        self._dtype = weight_t.dtype if isinstance(weight_t, Tensor) else None
        self._scale = None if scale is None else scale.detach().contiguous()

    def above(self, x: Tensor, threshold: float, fewest: int = 0) -> Product:
        """Return the product with the inputs of x [..., n] with |x_i| * scale_i > threshold, but with at least the
        `fewest` highest of each row; a negative threshold alone reads every plane."""
        return self._multiply(x, threshold, fewest)

    def top_k(self, x: Tensor, keep: int) -> Product:
        """Return the same for each row's `keep` highest scores, the lower index first among equals."""
        return self._multiply(x, -1.0, keep)

    def _multiply(self, x: Tensor, threshold: float, keep: int) -> Product:
        n = self._stored.inputs
        if x.shape[-1] != n or self._dtype not in (None, x.dtype):
            raise ValueError(f"x {list(x.shape)} in {x.dtype} does not fit {n} inputs in {self._dtype or 'any dtype'}.")
        return multiply(x, self._stored, self._scale, threshold, keep)


class PreparedWeight:
    """The same of a weight without planes: products are (y, kept)."""

    counts: Tensor | None = None
    """None, because each product returns the number of kept inputs."""

    def __init__(self, weight_t: WeightT, scale: Tensor | None) -> None:
        self._step = PreparedPlanes(weight_t, scale)

    def above(self, x: Tensor, threshold: float, fewest: int = 0) -> tuple[Tensor, int]:
        """See `PreparedPlanes.above`."""
        return self._step.above(x, threshold, fewest)[:2]

    def top_k(self, x: Tensor, keep: int) -> tuple[Tensor, int]:
        """See `PreparedPlanes.top_k`."""
        return self._step.top_k(x, keep)[:2]
