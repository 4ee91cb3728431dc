"""Norms of a matrix's columns, which weigh its inputs' scores, computed once for as long as the weights stay. Light:
importing it loads no torch."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor, nn

    from wina_core.compute.models.view import Projection

_BLOCK = 1 << 16
"""Numbers converted at a time, or as few columns as one block takes: what is freed between others' memory the C library
keeps, and of larger blocks that would add up to a fifth of a model."""
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


_KEPT: weakref.WeakKeyDictionary[nn.Linear, dict[str, tuple[object, Tensor]]] = weakref.WeakKeyDictionary()
"""By linear layer and projection: the state of the layer, and the norms."""


def kept_column_norms(projection: Projection) -> Tensor:
    """`column_norms` of a projection, remembered while its linear layer lives and what that holds is neither written to
    nor moved; not to be written to. Writing by way of `weight.data`, which torch does not count, goes unnoticed."""
    linear = projection.linear
    # A quantized layer's weight is made anew whenever it is asked for; what it is made of stays.
    state = [_state(tensor) for tensor in (*linear.parameters(), *linear.buffers())]
    found = _KEPT.setdefault(linear, {})
    if projection.name not in found or found[projection.name][0] != state:
        found[projection.name] = state, column_norms(projection.weight)
    return found[projection.name][1]


def _state(tensor: Tensor) -> tuple[int, int]:
    """Where it is, and how often it was written to; HQQ gives inference tensors, of which torch does not count that."""
    return tensor.data_ptr(), 0 if tensor.is_inference() else tensor._version
