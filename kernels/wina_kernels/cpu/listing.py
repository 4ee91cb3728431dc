"""Lists of kept inputs, for every part of the outputs and every row of the batch."""

from typing import Any

import numpy as np

from wina_kernels.compiled import njit
from wina_kernels.cpu.formats import Array, to_float32
from wina_kernels.rows import above_rows, top_rows


@njit()
def rows_above(
    x: Array, scale: Array, thresholds: Array, rows: Array, values: Array, counts: Array
) -> None:  # pragma: no cover - compiled
    """List i and x_i where not |x_i| * scale_i <= threshold.

    x: stored [batch, n]; scale: float32 [parts or 1, n], or [1, 0] for ones; thresholds: float32 [parts]. Fills rows:
    int32 [parts, batch, n], values: float32 alike, counts: int64 [parts, batch].
    """
    scaled = scale.shape[1] > 0
    for part in range(len(thresholds)):
        own = scale[part % len(scale)]
        for row in range(len(x)):
            count = np.uint64(0)
            for i in range(x.shape[1]):
                value = to_float32(x[row, i])
                score = abs(value) * own[i] if scaled else abs(value)
                rows[part, row, count] = i
                values[part, row, count] = value
                count += np.uint64(not score <= thresholds[part])
            counts[part, row] = count


@njit()
def rows_masked(
    x: Array, masks: Array, rows: Array, values: Array, counts: Array
) -> None:  # pragma: no cover - compiled
    """List the same where masks, bool [parts, batch, n], is True."""
    for part in range(len(masks)):
        for row in range(len(x)):
            count = np.uint64(0)
            for i in range(x.shape[1]):
                rows[part, row, count] = i
                values[part, row, count] = to_float32(x[row, i])
                count += np.uint64(masks[part, row, i])
            counts[part, row] = count


@njit()
def rows_gated(
    x: Array, scale: Array, threshold: int, keep: int, rows: Array, values: Array, counts: Array
) -> Any:  # pragma: no cover - compiled
    """List the same for one part by the gates of `wina_kernels.rows`, and return the number of kept inputs.

    Keeps scores with bits above `threshold`, but at least the `keep` highest of each row; with a negative threshold
    exactly these, or with keep 0 everything. x: float32 or bfloat16.
    """
    batch = len(x)
    gated, kept, dense = np.empty_like(x), np.empty(batch, np.int32), np.zeros(batch, np.bool_)
    if keep > 0 and threshold < 0:
        top_rows(x, scale, keep, dense, gated, kept)
    else:
        above_rows(x, scale, np.int32(threshold), dense, gated, kept)
        for row in range(batch):
            if kept[row] < keep:
                own = slice(row, row + 1)
                top_rows(x[own], scale, keep, dense[own], gated[own], kept[own])
    for row in range(batch):
        count = np.uint64(0)
        for i in range(x.shape[1]):
            value = to_float32(gated[row, i])
            rows[0, row, count] = i
            values[0, row, count] = value
            count += np.uint64(value != 0)  # of a zero that is kept nothing need be read
        counts[0, row] = count
    return kept.sum()
