"""Gate and product in one native call, for a weight that reads token after token."""

from __future__ import annotations

from torch import Tensor

from wina_kernels.native.abi import Stored
from wina_kernels.native.operations import multiply
from wina_kernels.weights import WeightT


class Prepared:
    """W^T [n, m] in any format, and the scale of its inputs' scores, float32 [n], None for ones."""

    counts = None
    """The number of kept inputs is known at once."""

    def __init__(self, weight_t: WeightT, scale: Tensor | None) -> None:
        self._stored = Stored(weight_t)
        self._dtype = weight_t.dtype if isinstance(weight_t, Tensor) else None
        self._scale = None if scale is None else scale.detach().contiguous()

    def above(self, x: Tensor, threshold: float) -> tuple[Tensor, int]:
        """Return (y, kept): y [..., m] of the inputs of x [..., n] with |x_i| * scale_i > threshold, and their
        number."""
        self._check(x)
        return multiply(x, self._stored, self._scale, threshold)

    def top_k(self, x: Tensor, keep: int) -> tuple[Tensor, int]:
        """Return the same for each row's `keep` highest scores, the lower index first among equals."""
        self._check(x)
        return multiply(x, self._stored, self._scale, keep=keep)

    def _check(self, x: Tensor) -> None:
        n = self._stored.inputs
        if x.shape[-1] != n or self._dtype not in (None, x.dtype):
            raise ValueError(f"x {list(x.shape)} in {x.dtype} does not fit {n} inputs in {self._dtype or 'any dtype'}.")
