"""Column norms of matrices, which weigh their inputs' scores, computed once while the weights stay."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor, nn

    from wina_core.compute.models.view import Projection

_BLOCK = 1 << 16
"""Numbers converted at a time (at least a column's): larger freed blocks fragment memory, by up to a fifth of a
model."""
_ROUND = 32
"""Blocks are multiples of this many columns: torch sums whole cache lines alike, single columns otherwise."""


def column_norms(weight: Tensor) -> Tensor:
    """Return c_i = ||W[:, i]||_2 of W [m, n], [n] in at least float32.

    On the CPU, 16-bit weights are converted block by block, to the same bits as all at once. An accelerator's order of
    summation depends on the number of columns, so it converts all at once.
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
"""{linear layer: {projection: (state of the layer, norms)}}."""


def kept_column_norms(projection: Projection, rows: Tensor | None = None) -> Tensor:
    """Return a projection's `column_norms`, cached until its linear layer's tensors are written to or moved.

    `rows` [m] are factors that its rows were multiplied by, to be left out. Do not write to the result. Writes through
    `weight.data` go unnoticed, because torch does not count them.
    """
    linear = projection.linear
    # A quantized layer's weight is dequantized on every access; its buffers stay.
    state = [_state(tensor) for tensor in (*linear.parameters(), *linear.buffers(), *([] if rows is None else [rows]))]
    found = _KEPT.setdefault(linear, {})
    if projection.name not in found or found[projection.name][0] != state:
        weight = projection.weight
        found[projection.name] = state, column_norms(weight if rows is None else weight / rows[:, None])
    return found[projection.name][1]


def _state(tensor: Tensor) -> tuple[int, int]:
    """Return a tensor's address and version; HQQ's inference tensors have no version."""
    return tensor.data_ptr(), 0 if tensor.is_inference() else tensor._version
