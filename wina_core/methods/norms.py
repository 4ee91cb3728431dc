"""Norms of a matrix's columns, which weigh its inputs' scores."""

import torch
from torch import Tensor

_BLOCK = 1 << 21
"""Numbers converted at a time: 8 MiB in float32, twice that in the last block."""
_ROUND = 32
"""Blocks are of a multiple of so many columns: torch sums those of whole cache lines alike, a single one otherwise."""


def column_norms(weight: Tensor) -> Tensor:
    """c_i = ||W[:, i]||_2 of W [m, n], as [n] in at least float32.

    On the CPU, 16-bit weights are converted a block of columns at a time, to the same bits as all at once. Elsewhere
    they are not: an accelerator's order of summation depends on the number of columns.
    """
    exact = weight.detach()
    if exact.element_size() >= 4:
        return exact.norm(dim=0)
    if not exact.is_cpu:
        return exact.float().norm(dim=0)
    m, n = exact.shape
    columns = max(_ROUND, _BLOCK // m // _ROUND * _ROUND)
    blocks = exact.tensor_split(tuple(range(columns, n - columns + 1, columns)), dim=1)
    return torch.cat([block.float().norm(dim=0) for block in blocks])
