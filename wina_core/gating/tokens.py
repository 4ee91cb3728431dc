"""Which tokens of a batch are real, and which of them the prefill policy leaves dense."""

import torch
from torch import Tensor

_ROUNDING = 1e-9
"""Of a tenth of the tokens, which in double precision may be just less than a whole number."""


def without_trailing(input_ids: Tensor, padding: int) -> Tensor:
    """True for real tokens of right-padded ids [batch, tokens]: all but each row's trailing run of `padding`.

    A row has at least its first token, even when that is the padding id.
    """
    real = (input_ids != padding).flip(-1).cumsum(-1).flip(-1) > 0
    real[:, 0] = True
    return real


def dense_prefix(real: Tensor, fraction: float) -> Tensor:
    """True for the first T - int((1 - fraction) T) real tokens of each row, T being the row's real tokens.

    `real` is bool [batch, tokens], padded on either side. A fraction of 0.01 is WINA's released prefill, which gates
    the last int(0.99 T) tokens; 0.5 is TEAL's; 0.9 is R-Sparse's but for its rounding, which gates a token more where
    T is no multiple of 10.
    """
    lengths = real.sum(-1, keepdim=True)
    gated = ((1.0 - fraction) * lengths.to(torch.float64) + _ROUNDING).long()
    return real & (real.cumsum(-1) <= lengths - gated)
