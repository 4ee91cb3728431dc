"""Lists of the inputs that are kept, of every part of the outputs and every row of the batch."""

from typing import Any

import numpy as np
from numba import njit

Array = np.ndarray[Any, np.dtype[Any]]


@njit(cache=True, nogil=True, error_model="numpy")
def rows_above(
    x: Array, scale: Array, thresholds: Array, rows: Array, values: Array, counts: Array
) -> None:  # pragma: no cover - compiled
    """Lists i and x_i where not |x_i| * scale_i <= threshold.

    x: float32 [batch, n]; scale: float32 [parts or 1, n], or [1, 0] in place of ones; thresholds: float32
    [parts]. Into rows: int32 [parts, batch, n], values: float32 alike, counts: int64 [parts, batch].
    """
    scaled = scale.shape[1] > 0
    for part in range(len(thresholds)):
        own = scale[part % len(scale)]
        for row in range(len(x)):
            count = np.uint64(0)
            for i in range(x.shape[1]):
                score = abs(x[row, i]) * own[i] if scaled else abs(x[row, i])
                rows[part, row, count] = i
                values[part, row, count] = x[row, i]
                count += np.uint64(not score <= thresholds[part])
            counts[part, row] = count


@njit(cache=True, nogil=True, error_model="numpy")
def rows_masked(
    x: Array, masks: Array, rows: Array, values: Array, counts: Array
) -> None:  # pragma: no cover - compiled
    """The same where masks, bool [parts, batch, n], is True."""
    for part in range(len(masks)):
        for row in range(len(x)):
            count = np.uint64(0)
            for i in range(x.shape[1]):
                rows[part, row, count] = i
                values[part, row, count] = x[row, i]
                count += np.uint64(masks[part, row, i])
            counts[part, row] = count
