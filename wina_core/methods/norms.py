"""Norms of a matrix's columns, which weigh its inputs' scores. Light: importing it loads no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
    splits = tuple(range(columns, n - columns + 1, columns))
    norms = exact[0].float()
    for part, block in zip(norms.tensor_split(splits), exact.tensor_split(splits, dim=1), strict=True):
        part.copy_(block.float().norm(dim=0))
    return norms
