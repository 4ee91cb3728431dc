"""The product with listed rows of a quantized W^T, decoded inside the loops.

y_j = sum over groups of scale_gj * (sum of x_i code_ij - zero_gj * sum of x_i): within a group codes are multiplied as
they are, and its scales and zeros are read once. Threads divide the groups.
"""

from typing import Any

import numpy as np
from numba import prange

from wina_kernels.compiled import njit
from wina_kernels.cpu.formats import Array
from wina_kernels.cpu.product import add_rows, total


@njit(parallel=True)
def multiply_grouped(
    codes: Array,
    stride: int,
    bits: int,
    group: int,
    scale: Array,
    zero: Array,
    rows: Array,
    values: Array,
    counts: Array,
    starts: Array,
    threads: int,
    y: Array,
) -> None:  # pragma: no cover - compiled
    """Set y [batch, m] to the product with the listed rows (see `product.multiply`).

    codes: the memory of int8 [n, m] or, below 8 bits, of uint8 [n, bytes] in planes (see `packing`), rows `stride`
    apart; scale: float32 [groups, m]; zero: alike, or without rows for 0.
    """
    parts, batch, _ = rows.shape
    groups, m = scale.shape
    sums = np.zeros((threads, batch, m), np.float32)
    for thread in prange(threads):
        coded = np.empty(m + 8, np.float32)
        at = np.empty(batch, np.int64)
        for part in range(parts):
            first, last = starts[part], starts[part + 1]
            begin = groups * thread // threads
            for row in range(batch):
                at[row] = np.searchsorted(rows[part, row, : counts[part, row]], begin * group)
            for own in range(begin, groups * (thread + 1) // threads):
                for row in range(batch):
                    until, summed = at[row], np.float32(0.0)
                    while until < counts[part, row] and rows[part, row, until] < (own + 1) * group:
                        summed += values[part, row, until]
                        until += 1
                    if until == at[row]:
                        continue
                    coded[:] = 0.0
                    listed = rows[part, row], values[part, row], at[row], until
                    if bits == 8:
                        add_rows(coded, codes, stride, *listed, first, last)
                    elif bits == 4:
                        _add_halves(coded, codes, stride, *listed, first // 2, (last + 1) // 2)
                    else:
                        _add_planes(coded, codes, stride, *listed, bits, m, first, last)
                    for j in range(first, last):
                        shift = zero[own, j] * summed if len(zero) else np.float32(0.0)
                        sums[thread, row, j] += scale[own, j] * (coded[j] - shift)
                    at[row] = until
    total(sums, 0, m, y)


@njit(fastmath={"contract"})
def _add_halves(
    sums: Array, codes: Array, stride: Any, rows: Array, values: Array, begin: Any, end: Any, first: Any, last: Any
) -> None:  # pragma: no cover - compiled
    """Run `product.add_rows` on 4-bit codes: both outputs of the bytes first .. last of a row."""
    one, two, four = np.uint64(1), np.uint64(2), np.uint64(4)
    stride, begin, end = np.uint64(stride), np.uint64(begin), np.uint64(end)
    first, last = np.uint64(first), np.uint64(last)
    fours = begin + (end - begin) // four * four
    for r in range(begin, fours, four):
        v0, v1, v2, v3 = values[r], values[r + one], values[r + two], values[r + np.uint64(3)]
        w0, w1 = np.uint64(rows[r]) * stride, np.uint64(rows[r + one]) * stride
        w2, w3 = np.uint64(rows[r + two]) * stride, np.uint64(rows[r + np.uint64(3)]) * stride
        for j in range(first, last):
            c0, c1, c2, c3 = codes[w0 + j], codes[w1 + j], codes[w2 + j], codes[w3 + j]
            sums[two * j] += v0 * _low(c0) + v1 * _low(c1) + v2 * _low(c2) + v3 * _low(c3)
            sums[two * j + one] += v0 * _high(c0) + v1 * _high(c1) + v2 * _high(c2) + v3 * _high(c3)
    for r in range(fours, end):
        value, row = values[r], np.uint64(rows[r]) * stride
        for j in range(first, last):
            code = codes[row + j]
            sums[two * j] += value * _low(code)
            sums[two * j + one] += value * _high(code)


@njit()
def _add_planes(
    sums: Array,
    codes: Array,
    stride: Any,
    rows: Array,
    values: Array,
    begin: Any,
    end: Any,
    bits: int,
    m: int,
    first: int,
    last: int,
) -> None:  # pragma: no cover - compiled
    """Run `product.add_rows` on codes of 6, 3 or 2 bits, plane by plane."""
    start, done = 0, 0
    while done < bits:
        plane = 4 if bits - done > 3 else min(2, bits - done)
        each, factor = 8 // plane, np.float32(1 << done)
        mask = np.uint8((1 << plane) - 1)
        for r in range(begin, end):
            value, row = values[r] * factor, np.uint64(rows[r]) * np.uint64(stride) + np.uint64(start)
            for byte in range(first // each, -(-last // each)):
                code = codes[row + np.uint64(byte)]
                for place in range(each):
                    sums[byte * each + place] += value * np.float32((code >> np.uint8(plane * place)) & mask)
        start, done = start - (-m // each), done + plane


@njit(inline="always")
def _low(code: Any) -> Any:  # pragma: no cover - compiled
    return np.float32(code & np.uint8(15))


@njit(inline="always")
def _high(code: Any) -> Any:  # pragma: no cover - compiled
    return np.float32(code >> np.uint8(4))
