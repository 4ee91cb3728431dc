"""Bases of heads as whole matrices."""

import torch
from torch import Tensor


def of_all_heads(heads: Tensor, size: int) -> Tensor:
    """Return the block-diagonal basis [size, size] of o's input: each key-value head's for every query head it
    serves."""
    groups = size // (heads.shape[0] * heads.shape[1])
    return torch.block_diag(*heads.repeat_interleave(groups, 0))
