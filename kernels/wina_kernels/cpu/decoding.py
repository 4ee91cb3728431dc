"""Gate and product in one compiled call, for a weight that reads token after token.

Whole matrices pass the caches between two calls, so every Python object comes from memory again: all lookups happen
once, when the weight is prepared.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from wina_kernels.compiled import njit
from wina_kernels.cpu.formats import Array, array_of
from wina_kernels.cpu.launch import memory, use_threads_for
from wina_kernels.cpu.listing import rows_gated
from wina_kernels.cpu.product import multiply
from wina_kernels.rows import threshold_bits
from wina_kernels.threads import TURN

DTYPES = (torch.float32, torch.bfloat16)
"""Dtypes that the gates are compiled for."""


class Prepared:
    """W^T [n, m], float32 or bfloat16, and the scale of its inputs' scores, float32 [n], None for ones."""

    counts = None
    """The number of kept inputs is known at once."""

    def __init__(self, weight_t: Tensor, scale: Tensor | None) -> None:
        n, self._outputs = weight_t.shape
        self._dtype = weight_t.dtype
        self._memory, self._stride = memory(weight_t), weight_t.stride(0)
        self._scale = np.ones(n, np.float32) if scale is None else scale.detach().contiguous().numpy()
        self._starts, self._products = np.array((0, self._outputs)), n * self._outputs

    def above(self, x: Tensor, threshold: float, fewest: int = 0) -> tuple[Tensor, int]:
        """Return (y, kept): y [..., m] of the inputs of x [..., n] with |x_i| * scale_i > threshold, but of at least
        the `fewest` highest of each row, and their number."""
        return self._gate(x, int(threshold_bits(threshold)), fewest)

    def top_k(self, x: Tensor, keep: int) -> tuple[Tensor, int]:
        """Return the same for each row's `keep` highest scores, the lower index first among equals."""
        return self._gate(x, -1, keep)

    def _gate(self, x: Tensor, threshold: int, keep: int) -> tuple[Tensor, int]:
        if x.shape[-1] != len(self._scale) or x.dtype != self._dtype:
            raise ValueError(f"x {list(x.shape)} in {x.dtype} does not fit {len(self._scale)} inputs in {self._dtype}.")
        y = torch.empty(*x.shape[:-1], self._outputs, dtype=x.dtype)
        given = np.ascontiguousarray(array_of(x.detach()).reshape(-1, x.shape[-1]))
        into = array_of(y).reshape(-1, self._outputs)
        with TURN:
            threads = use_threads_for(self._products)
            kept = _gate_and_multiply(
                given, self._scale, threshold, keep, self._memory, self._stride, self._starts, threads, into
            )
        return y, int(kept)


@njit()
def _gate_and_multiply(
    x: Array,
    scale: Array,
    threshold: int,
    keep: int,
    weights: Array,
    stride: int,
    starts: Array,
    threads: int,
    y: Array,
) -> Any:  # pragma: no cover - compiled
    batch, n = x.shape
    rows, values = np.empty((1, batch, n), np.int32), np.empty((1, batch, n), np.float32)
    counts = np.empty((1, batch), np.int64)
    kept = rows_gated(x, scale, threshold, keep, rows, values, counts)
    multiply(weights, stride, rows, values, counts, starts, threads, y)
    return kept
