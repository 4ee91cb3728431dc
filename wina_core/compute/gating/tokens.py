"""Masks of a batch's real tokens and of those that the prefill policy leaves dense."""

import torch
from torch import Tensor


def without_trailing(input_ids: Tensor, padding: int) -> Tensor:
    """Return True for real tokens of right-padded ids [batch, tokens]: all but each row's trailing run of `padding`.

    The first token of a row is always real, even if it is the padding id.
    """
    real = (input_ids != padding).flip(-1).cumsum(-1).flip(-1) > 0
    real[:, 0] = True
    return real


def dense_prefix(real: Tensor, fraction: float) -> Tensor:
    """Return True for the first real tokens of each row that a fraction leaves dense.

    `real` is bool [batch, tokens], padded on either side, with T real tokens in a row. Rounding follows released code:
    up to a half, the last int((1 - fraction) T) tokens are gated (WINA's 0.01, TEAL's 0.5); above, the first
    int(fraction T) are dense (R-Sparse's 0.9). A single token is gated.
    """
    lengths = real.sum(-1, keepdim=True)
    exact = lengths.to(torch.float64)
    dense = (fraction * exact).long() if fraction > 0.5 else lengths - ((1.0 - fraction) * exact).long()
    return real & (real.cumsum(-1) <= dense) & (lengths > 1)
