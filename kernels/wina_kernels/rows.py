"""Gating of a matrix's rows on the CPU: score, select, drop and count while a row is in the cache.

The masks are those of `selection`, from compiled loops that release Python's lock. A row is float32, or bfloat16 as the
uint16 that holds it, the upper half of a float32. Scores |x_i| * c_i are float32; being non-negative, they order like
their bits, the int32 "keys" that are compared here, in which NaN is above everything and therefore kept. Scores are
computed as |x_i * c_i|, which differs only in the sign of a NaN.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import prange

from wina_kernels.compiled import njit

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _compiled(function: _Function) -> _Function:
    # Sums may be reordered, which lets them use vector registers; nothing is assumed about NaNs.
    return cast(_Function, njit(fastmath={"reassoc"})(function))


def _parallel(function: _Function) -> _Function:
    return cast(_Function, njit(parallel=True)(function))


def threshold_bits(threshold: float) -> Any:
    """Return the key of the score that equals a threshold, int32; a negative one's is below every key."""
    return np.float32(threshold).view(np.int32)


@_compiled
def above_rows(x: Any, scale: Any, threshold: Any, dense: Any, out: Any, kept: Any) -> None:
    """Set out = m * x for x [rows, n], m true where key > threshold; copy rows marked in `dense`. kept [rows] counts
    m."""
    keys = np.empty(x.shape[1], np.int32)
    for row in range(x.shape[0]):
        if dense[row]:
            _copy(x[row], out[row])
            kept[row] = x.shape[1]
            continue
        _keys(x[row], scale, keys)
        kept[row] = _drop(x[row], keys, threshold, out[row])


@_compiled
def top_rows(x: Any, scale: Any, keep: int, dense: Any, out: Any, kept: Any) -> None:
    """Set out = m * x for x [rows, n], m true at each row's `keep` highest keys, the lower index first among equals.

    Otherwise as `above_rows`.
    """
    keys = np.empty(x.shape[1], np.int32)
    ratio = np.float32(0.8)
    for row in range(x.shape[0]):
        if dense[row]:
            _copy(x[row], out[row])
            kept[row] = x.shape[1]
            continue
        _keys(x[row], scale, keys)
        mean = _mean(keys.view(np.float32))
        guess = np.float32(mean * ratio).view(np.int32)
        threshold = _find_threshold(keys, keep, guess)
        count = _drop(x[row], keys, threshold, out[row])
        for i in range(keys.size):  # only where keys tie at the threshold
            if count == keep:
                break
            if keys[i] == threshold:
                out[row, i] = x[row, i]
                count += 1
        kept[row] = count
        if mean > 0:
            ratio = np.int32(threshold).view(np.float32) / mean


@_parallel
def above_rows_shared(x: Any, scale: Any, threshold: Any, dense: Any, out: Any, kept: Any, threads: int) -> None:
    """Run `above_rows` with the rows divided among threads."""
    for thread in prange(threads):
        own = slice(len(x) * thread // threads, len(x) * (thread + 1) // threads)
        above_rows(x[own], scale, threshold, dense[own], out[own], kept[own])


@_parallel
def top_rows_shared(x: Any, scale: Any, keep: int, dense: Any, out: Any, kept: Any, threads: int) -> None:
    """Run `top_rows` with the rows divided among threads."""
    for thread in prange(threads):
        own = slice(len(x) * thread // threads, len(x) * (thread + 1) // threads)
        top_rows(x[own], scale, keep, dense[own], out[own], kept[own])


@_compiled
def _copy(row: Any, out: Any) -> None:
    # One by one: for `out[:] = row` numba compiles the message that shapes differ too, which takes it seconds.
    for i in range(row.size):
        out[i] = row[i]


@_compiled
def _keys(row: Any, scale: Any, keys: Any) -> None:
    score = keys.view(np.float32)
    if row.itemsize == 2:
        half = row.view(np.uint16)
        for i in range(keys.size):
            keys[i] = np.int32(half[i] & 0x7FFF) << 16
        for i in range(keys.size):
            score[i] = abs(score[i] * scale[i])
    else:
        for i in range(keys.size):
            score[i] = abs(row[i] * scale[i])


@_compiled
def _mean(score: Any) -> Any:
    total = np.float32(0)
    for i in range(score.size):
        total += score[i]
    return total / np.float32(score.size)


@_compiled
def _drop(row: Any, keys: Any, threshold: Any, out: Any) -> Any:
    count = np.int32(0)
    for i in range(keys.size):
        above = keys[i] > threshold
        count += np.int32(above)
        if above:
            out[i] = row[i]
        else:
            out[i] = 0
    return count


@_compiled
def _count(keys: Any, threshold: Any) -> Any:
    count = np.int32(0)
    for i in range(keys.size):
        count += np.int32(keys[i] > threshold)
    return count


@_compiled
def _find_threshold(keys: Any, keep: int, guess: Any) -> Any:
    """Return a key with exactly `keep` keys above it; where keys tie, the tied key, with fewer above it.

    Narrows (low, high] by counting: from the guess in growing steps until the threshold is enclosed, then by
    interpolating between the counts. Every fourth time the range of bits is halved, so at most some 130 counts are
    needed; usually it takes five.
    """
    low, high = np.int32(-1), np.int32(0x7FFFFFFF)  # all keys lie above low, none above high
    above_low, above_high = keys.size, 0
    stride = np.float32(1.0625)
    step = 0
    while np.int64(high) - np.int64(low) > 1:
        if not low < guess < high:
            guess = np.int32((np.int64(low) + np.int64(high)) // 2)
        above = _count(keys, guess)
        if above == keep:
            return guess
        if above > keep:
            low, above_low = guess, above
        else:
            high, above_high = guess, above
        step += 1
        lower, upper = np.int32(low).view(np.float32), np.int32(high).view(np.float32)
        if step % 4 == 0:
            guess = np.int32((np.int64(low) + np.int64(high)) // 2)
        elif low >= 0 and high < 0x7F800000:
            part = np.float32(above_low - keep) / np.float32(above_low - above_high)
            guess = np.float32(lower + part * (upper - lower)).view(np.int32)
        else:
            guess = np.float32(lower * stride if low >= 0 else upper / stride).view(np.int32)
            stride *= stride
    return high
