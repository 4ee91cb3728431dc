"""Masks of a batch's real tokens and of those that the prefill policy leaves dense."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor


def without_trailing(input_ids: Tensor, padding: int) -> Tensor:
    """Return True for real tokens of right-padded ids [batch, tokens]: all but each row's trailing run of `padding`.

    The first token of a row is always real, even if it is the padding id.
    """
    real = (input_ids != padding).flip(-1).cumsum(-1).flip(-1) > 0
    real[:, 0] = True
    return real


def real_tokens(mask: Any, tokens: int, cached: int) -> Tensor | None:
    """Return True for the real ones of the last tokens, bool [batch, tokens], by an attention mask; None for all.

    A mask is [batch, keys], or [batch, 1, tokens, keys], where padding attends nothing and decoded tokens are real;
    some families have one for each kind of layer. `cached` tokens precede.
    """
    masks = mask.values() if isinstance(mask, Mapping) else (mask,)
    found = next((each for each in masks if isinstance(each, Tensor)), None)
    if found is not None and found.dim() == 2:
        return found[:, -tokens:].bool()
    if found is None or found.dim() != 4 or tokens == 1:
        return None
    own = found[:, 0].diagonal(min(cached, found.shape[-1] - tokens), 1, 2)
    return own if own.dtype == torch.bool else own == 0


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
