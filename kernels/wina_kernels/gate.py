"""Gating in one pass: score, select, drop and count inputs without a mask in memory."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wina_kernels import rows
from wina_kernels.cpu.formats import array_of
from wina_kernels.selection import scores, threshold_mask, top_k_mask
from wina_kernels.threads import TURN, use_threads
from wina_kernels.weights import are_recorded

_WORTH_A_THREAD = 1 << 17
"""Inputs per thread, about a tenth of a millisecond's work."""


def gate_above(
    x: Tensor, scale: Tensor | None, threshold: float, dense: Tensor | None = None, fewest: int = 0
) -> tuple[Tensor, Tensor]:
    """Return (m * x, kept) for x [..., n] with m = |x_i| * c_i > threshold; kept, int32 [...], counts m.

    `scale` is c [n], None for 1. Rows where `dense`, bool [...], is True stay unchanged. The mask is that of
    `threshold_mask(scores(x, scale), threshold, fewest)`; NaN stays or becomes NaN.
    """
    if not _compiles(x, scale):
        return _by_mask(x, threshold_mask(scores(x, scale), threshold, fewest), dense)
    out, kept = _by_rows(rows.above_rows, rows.above_rows_shared, x, scale, rows.threshold_bits(threshold), dense)
    few = kept < fewest
    if few.any():
        out[few], kept[few] = gate_top_k(x[few], scale, fewest)
    return out, kept


def gate_top_k(x: Tensor, scale: Tensor | None, keep: int, dense: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return the same with the mask of `top_k_mask(scores(x, scale), keep)`: exactly `keep`, the lower index among
    equals."""
    if not _compiles(x, scale):
        return _by_mask(x, top_k_mask(scores(x, scale), keep), dense)
    return _by_rows(rows.top_rows, rows.top_rows_shared, x, scale, keep, dense)


def _compiles(x: Tensor, scale: Tensor | None) -> bool:
    exact = scale is None or scale.dtype == torch.float32
    return x.device.type == "cpu" and x.dtype in (torch.float32, torch.bfloat16) and exact and not are_recorded(x)


def _by_mask(x: Tensor, mask: Tensor, dense: Tensor | None) -> tuple[Tensor, Tensor]:
    if dense is not None:
        mask |= dense.unsqueeze(-1)
    # A product rather than a selection, so that a dropped NaN shows. The detour over bytes converts much faster.
    return x * mask.view(torch.uint8).to(x.dtype), mask.sum(-1, dtype=torch.int32)


def _by_rows(
    alone: Callable[..., None],
    shared: Callable[..., None],
    x: Tensor,
    scale: Tensor | None,
    limit: Any,
    dense: Tensor | None,
) -> tuple[Tensor, Tensor]:
    inputs = x.shape[-1]
    given = x.detach().contiguous().view(-1, inputs)
    out, kept = torch.empty_like(given), torch.empty(len(given), dtype=torch.int32)
    c = np.ones(inputs, np.float32) if scale is None else scale.detach().contiguous().numpy()
    copied = np.zeros(len(given), np.bool_) if dense is None else dense.reshape(-1).numpy()
    arrays = array_of(given), c, limit, copied, array_of(out), kept.numpy()
    if given.numel() < 2 * _WORTH_A_THREAD:
        alone(*arrays)
    else:
        with TURN:
            shared(*arrays, use_threads(given.numel() // _WORTH_A_THREAD))
    return out.view(x.shape), kept.view(x.shape[:-1])
