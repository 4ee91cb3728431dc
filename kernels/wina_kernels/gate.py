"""Gating in one pass: score, select, drop and count inputs without a mask in memory."""

import torch
from torch import Tensor

from wina_kernels.checks import check_keep
from wina_kernels.dense import takes
from wina_kernels.native import abi
from wina_kernels.native.operations import gate_rows
from wina_kernels.selection import scores, threshold_mask, top_k_mask


def gate_above(
    x: Tensor, scale: Tensor | None, threshold: float, dense: Tensor | None = None, fewest: int = 0
) -> tuple[Tensor, Tensor]:
    """Return (m * x, kept) for x [..., n] with m = |x_i| * c_i > threshold; kept, int32 [...], counts m.

    `scale` is c [n], None for 1. Rows where `dense`, bool [...], is True stay unchanged. The mask is that of
    `threshold_mask(scores(x, scale), threshold, fewest)`; NaN stays or becomes NaN.
    """
    if not _is_native(x, scale):
        return _by_mask(x, threshold_mask(scores(x, scale), threshold, fewest), dense)
    # The library keeps exactly the `fewest` highest where the threshold is negative; here it keeps everything then.
    return gate_rows(x, scale, threshold, fewest if threshold >= 0 else 0, dense)


def gate_top_k(x: Tensor, scale: Tensor | None, keep: int, dense: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return the same with the mask of `top_k_mask(scores(x, scale), keep)`: exactly `keep`, the lower index among
    equals. Raises ValueError for a number of inputs to keep that is not 1 to n."""
    check_keep(x, keep, None)
    if not _is_native(x, scale):
        return _by_mask(x, top_k_mask(scores(x, scale), keep), dense)
    return gate_rows(x, scale, -1.0, keep, dense)


def _is_native(x: Tensor, scale: Tensor | None) -> bool:
    exact = scale is None or scale.dtype == torch.float32
    return x.is_cpu and takes(x) and exact and abi.loaded() is not None


def _by_mask(x: Tensor, mask: Tensor, dense: Tensor | None) -> tuple[Tensor, Tensor]:
    if dense is not None:
        mask |= dense.unsqueeze(-1)
    # A product rather than a selection, so that a dropped NaN shows. The detour over bytes converts much faster.
    return x * mask.view(torch.uint8).to(x.dtype), mask.sum(-1, dtype=torch.int32)
