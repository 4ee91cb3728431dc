"""The product with listed rows of W^T, the last step of every operation here.

Bound by memory: of W^T [n, m] row-major only the listed rows are read, each as one long run. Threads divide the inputs,
because a split run is read more slowly; each sums separately, and the sums are added in a fixed order, so that the same
threads give the same bits. Four rows are added at a time: cached sums are loaded and stored once for four products.
"""

from typing import Any

import numpy as np
from numba import prange

from wina_kernels.compiled import njit
from wina_kernels.cpu.formats import Array, rounded, to_float32

ALONE = 1 << 16
"""Sums that one thread adds up faster than it wakes others."""
CHUNK, BLOCK = 16, 4096
"""Inputs and outputs whose weights are brought into the cache for all rows of a batch at once."""


@njit(fastmath={"contract"})
def add_rows(
    sums: Array, weights: Array, stride: Any, rows: Array, values: Array, begin: Any, end: Any, first: Any, last: Any
) -> None:  # pragma: no cover - compiled
    """Add sums[j] += values[r] * W^T[rows[r], j] for r in begin .. end, j in first .. last.

    `weights` is W^T's memory from its beginning, `stride` the length of a row. Unsigned numbers throughout: with signed
    ones numba allows for negative indices, and nothing is vectorized.
    """
    stride, begin, end = np.uint64(stride), np.uint64(begin), np.uint64(end)
    first, last = np.uint64(first), np.uint64(last)
    fours = begin + (end - begin) // np.uint64(4) * np.uint64(4)
    for r in range(begin, fours, np.uint64(4)):
        v0, v1, v2, v3 = values[r], values[r + np.uint64(1)], values[r + np.uint64(2)], values[r + np.uint64(3)]
        w0 = np.uint64(rows[r]) * stride
        w1 = np.uint64(rows[r + np.uint64(1)]) * stride
        w2 = np.uint64(rows[r + np.uint64(2)]) * stride
        w3 = np.uint64(rows[r + np.uint64(3)]) * stride
        for j in range(first, last):
            sums[j] += (
                v0 * to_float32(weights[w0 + j])
                + v1 * to_float32(weights[w1 + j])
                + v2 * to_float32(weights[w2 + j])
                + v3 * to_float32(weights[w3 + j])
            )
    for r in range(fours, end):
        value, row = values[r], np.uint64(rows[r]) * stride
        for j in range(first, last):
            sums[j] += value * to_float32(weights[row + j])


@njit(parallel=True)
def multiply(
    weights: Array, stride: int, rows: Array, values: Array, counts: Array, starts: Array, threads: int, y: Array
) -> None:  # pragma: no cover - compiled
    """Set y [batch, m] to the product with the listed rows, in y's format.

    rows: int32 [parts, batch, n], values: float32 alike, counts: int64 [parts, batch]; starts: int64 [parts + 1], the
    first outputs of each part.
    """
    parts, batch, n = rows.shape
    m = y.shape[1]
    sums = np.empty((threads, batch, m), np.float32)
    for thread in prange(threads):
        own = sums[thread]
        for row in range(batch):
            for j in range(m):
                own[row, j] = 0.0
        for part in range(parts):
            first, last = starts[part], starts[part + 1]
            if batch == 1:
                count = counts[part, 0]
                begin, end = count * thread // threads, count * (thread + 1) // threads
                add_rows(own[0], weights, stride, rows[part, 0], values[part, 0], begin, end, first, last)
            else:
                begin, end = n * thread // threads, n * (thread + 1) // threads
                _add_together(own, weights, stride, rows[part], values[part], counts[part], begin, end, first, last)
    if sums.size < ALONE:
        total(sums, 0, m, y)
    else:
        width = (m + threads - 1) // threads
        for piece in prange(threads):
            total(sums, piece * width, min(m, (piece + 1) * width), y)


@njit()
def total(sums: Array, first: int, last: int, y: Array) -> None:  # pragma: no cover - compiled
    """Set y[row, j] = sums[0, row, j] + sums[1, row, j] + ..., j in first .. last."""
    for row in range(y.shape[0]):
        for j in range(first, last):
            own = sums[0, row, j]
            for thread in range(1, len(sums)):
                own += sums[thread, row, j]
            y[row, j] = rounded(own, y[row, j])


@njit()
def _add_together(
    sums: Array,
    weights: Array,
    stride: int,
    rows: Array,
    values: Array,
    counts: Array,
    begin: int,
    end: int,
    first: int,
    last: int,
) -> None:  # pragma: no cover - compiled
    """Add inputs begin .. end to all rows of a batch, a chunk at a time.

    A weight that several rows keep comes from memory once; each row adds only its own inputs.
    """
    batch = len(rows)
    at = np.empty(batch, np.int64)
    until = np.empty(batch, np.int64)
    for row in range(batch):
        at[row] = np.searchsorted(rows[row, : counts[row]], begin)
    for chunk in range(begin, end, CHUNK):
        limit = min(end, chunk + CHUNK)
        for row in range(batch):
            until[row] = at[row]
            while until[row] < counts[row] and rows[row, until[row]] < limit:
                until[row] += 1
        for block in range(first, last, BLOCK):
            stop = min(last, block + BLOCK)
            for row in range(batch):
                add_rows(sums[row], weights, stride, rows[row], values[row], at[row], until[row], block, stop)
        for row in range(batch):
            at[row] = until[row]
