"""Calls of the compiled loops with tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wina_kernels.cpu.formats import Array, array_of
from wina_kernels.cpu.grouped import multiply_grouped
from wina_kernels.cpu.product import multiply
from wina_kernels.threads import TURN, use_threads
from wina_kernels.weights import QuantizedWeight

Lists = Callable[[Array, Array, Array, Array], None]
"""Function that fills rows, values and counts from stored x [batch, n] (see `listing`)."""

_WORTH_A_THREAD = 1 << 18
"""Products, perhaps half of them dropped; they take some 20 microseconds, as long as waking a thread."""


def product(x: Tensor, weight_t: Tensor | QuantizedWeight, splits: Sequence[int] | None, lists: Lists) -> Tensor:
    """Return y [..., m] in x's dtype of the listed inputs of x [..., n]."""
    n, m = weight_t.shape
    flat = array_of(x.detach().reshape(-1, n).contiguous())
    starts = np.cumsum((0, *(splits or (m,))))
    rows = np.empty((len(starts) - 1, len(flat), n), np.int32)
    values = np.empty(rows.shape, np.float32)
    counts = np.empty(rows.shape[:2], np.int64)
    lists(flat, rows, values, counts)
    y = torch.empty(len(flat), m, dtype=x.dtype)
    with TURN:
        listed = rows, values, counts, starts, use_threads_for(n * m)
        if isinstance(weight_t, Tensor):
            multiply(memory(weight_t), weight_t.stride(0), *listed, array_of(y))
        else:
            _multiply_quantized(weight_t, listed, y)
    return y.reshape(*x.shape[:-1], m)


def use_threads_for(products: int) -> int:
    """Set and return the number of threads for a matrix of so many products."""
    return use_threads(1 + products // _WORTH_A_THREAD)


def memory(weight_t: Tensor) -> Array:
    """Return a weight's memory as one dimension: numba vectorizes only over one without gaps."""
    n, m = weight_t.shape
    return array_of(torch.as_strided(weight_t.detach(), ((n - 1) * weight_t.stride(0) + m,), (1,)))


def _multiply_quantized(weight_t: QuantizedWeight, listed: tuple[Any, ...], y: Tensor) -> None:
    codes, scale = weight_t.codes, weight_t.scale.float()
    exact = torch.empty(y.shape)  # float32 whatever y is: the loops are compiled once for each kind of codes
    if weight_t.bits == 8 and weight_t.zero is None and len(scale) == 1:  # one scale for an output can wait
        multiply(memory(codes), codes.stride(0), *listed, exact.numpy())
        exact.mul_(scale)
    else:
        zero = np.empty((0, 0), np.float32) if weight_t.zero is None else weight_t.zero.float().numpy()
        if weight_t.signed:
            zero = (zero if len(zero) else np.zeros(scale.shape, np.float32)) + np.float32(1 << (weight_t.bits - 1))
        stored = memory(codes), codes.stride(0), weight_t.bits, weight_t.group, scale.numpy(), zero
        multiply_grouped(*stored, *listed, exact.numpy())
    y.copy_(exact)
