"""Products of an input with its basis B, differentiable in both.

B is [n, n], or heads [kv_heads, hd, hd]: block-diagonal, each key-value head's block for every query head it serves.
"""

import torch
from torch import Tensor


def turned(x: Tensor, basis: Tensor) -> Tensor:
    """Return B^T x for x [..., n]."""
    if basis.ndim == 2:
        return x @ basis
    heads, size, _ = basis.shape
    return torch.einsum("...hgi,hij->...hgj", x.unflatten(-1, (heads, -1, size)), basis).flatten(-3)


def turned_back(x: Tensor, basis: Tensor) -> Tensor:
    """Return B x for x [..., n]."""
    return turned(x, basis.mT)


def turned_diagonal(gram: Tensor, basis: Tensor) -> Tensor:
    """Return the diagonal [n] of B^T G B for a Gram matrix G [n, n]: squared norms of the columns of W B."""
    if basis.ndim == 2:
        return ((gram @ basis) * basis).sum(0)
    heads, size, _ = basis.shape
    blocks = gram.unflatten(0, (-1, size)).unflatten(-1, (-1, size)).diagonal(dim1=0, dim2=2).movedim(-1, 0)
    return ((blocks.unflatten(0, (heads, -1)) @ basis[:, None]) * basis[:, None]).sum(-2).flatten()
