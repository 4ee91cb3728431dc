"""From tensors to the compiled loops and back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

from wina_kernels.cpu.grouped import multiply_grouped
from wina_kernels.cpu.product import multiply
from wina_kernels.weights import QuantizedWeight, WeightT

Array = np.ndarray[Any, np.dtype[Any]]
Lists = Callable[[Array, Array, Array, Array], None]
"""Fills rows, values and counts from x, float32 [batch, n] (see `listing`)."""

_TURN = threading.Lock()
"""numba's thread pool takes one caller at a time."""
_WORTH_A_THREAD = 1 << 17
"""Products; what takes some 20 microseconds, as waking another thread does."""
_SEEN_AS = {torch.bfloat16: torch.int16, torch.float16: torch.uint16}


def product(x: Tensor, weight_t: WeightT, splits: Sequence[int] | None, lists: Lists) -> Tensor:
    """y [..., m] in x's dtype of what is listed of x [..., n]."""
    n, m = weight_t.shape
    flat = x.detach().reshape(-1, n).float().contiguous().numpy()
    starts = np.cumsum((0, *(splits or (m,))))
    rows = np.empty((len(starts) - 1, len(flat), n), np.int32)
    values = np.empty(rows.shape, np.float32)
    counts = np.empty(rows.shape[:2], np.int64)
    lists(flat, rows, values, counts)
    y = torch.empty(len(flat), m)
    with _TURN:
        listed = rows, values, counts, starts, _use_threads(int(counts.sum()) * m), y.numpy()
        if isinstance(weight_t, Tensor):
            multiply(_memory(weight_t), weight_t.stride(0), *listed)
        else:
            _multiply_quantized(weight_t, *listed)
    return y.to(x.dtype).reshape(*x.shape[:-1], m)


def _use_threads(products: int) -> int:
    """Have numba use as many threads as torch does, or as so many products are worth, and say how many."""
    wanted = torch.get_num_threads()
    threads: int = min(wanted, numba.config.NUMBA_NUM_THREADS, 1 + products // _WORTH_A_THREAD)
    numba.set_num_threads(threads)
    if torch.get_num_threads() != wanted:  # numba's pool, when it starts, sets OpenMP's number, which torch reads
        torch.set_num_threads(wanted)
    return threads


def _multiply_quantized(weight_t: QuantizedWeight, *listed: Any) -> None:
    scale = weight_t.scale.float().numpy()
    if weight_t.bits == 8 and weight_t.zero is None and len(scale) == 1:  # one scale for an output can wait
        multiply(_memory(weight_t.codes), weight_t.codes.stride(0), *listed)
        np.multiply(listed[-1], scale, out=listed[-1])
        return
    zero = np.empty((0, 0), np.float32) if weight_t.zero is None else weight_t.zero.float().numpy()
    codes = _memory(weight_t.codes.contiguous())
    multiply_grouped(codes, weight_t.bits == 4, weight_t.group, scale, zero, *listed)


def _memory(weight_t: Tensor) -> Array:
    """The memory from a weight's first number to its last: numba vectorizes over one dimension without gaps alone."""
    n, m = weight_t.shape
    stored = torch.as_strided(weight_t.detach(), ((n - 1) * weight_t.stride(0) + m,), (1,))
    array: Array = stored.view(_SEEN_AS.get(stored.dtype, stored.dtype)).numpy()
    return array
