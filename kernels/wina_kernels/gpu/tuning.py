"""Finding the best division of work for a shape, by measuring."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import triton.testing
from torch import Tensor

from wina_kernels.dense import MOST_ROWS
from wina_kernels.gpu import operands
from wina_kernels.gpu.configs import MOST_SHARES, Config, candidates
from wina_kernels.gpu.sparse_linear import sparse_linear
from wina_kernels.weights import WeightT


def _seconds(call: Callable[[], object]) -> float:
    return float(triton.testing.do_bench(call, return_mode="median")) / 1000


def tune(
    x: Tensor,
    weight_t: WeightT,
    scale: Tensor | None,
    threshold: float | Sequence[float],
    splits: Sequence[int] | None = None,
    *,
    seconds: Callable[[Callable[[], object]], float] = _seconds,
    most_shares: int = MOST_SHARES,
) -> Config:
    """Return the fastest of `configs.candidates` for these arguments of `sparse_linear`, and so at their sparsity.

    Keep what is found by device, shape, rows, dtype and sparsity, and pass it as `config`. x has 1 to 8 rows.
    `seconds` measures a call.
    """
    rows = operands.rows_of(x)
    if not 1 <= len(rows) <= MOST_ROWS:
        raise ValueError(f"x has {len(rows)} rows; there is something to tune for 1 to {MOST_ROWS}.")
    n, m = weight_t.shape
    tried = candidates(n, m, len(rows), operands.bits_of(weight_t), most_shares)
    return min(
        tried, key=lambda config: seconds(lambda: sparse_linear(x, weight_t, scale, threshold, splits, config=config))
    )
