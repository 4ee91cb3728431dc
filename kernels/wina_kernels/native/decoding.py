"""Gate and product in one native call, for a weight that reads token after token."""

from __future__ import annotations

from torch import Tensor

from wina_kernels.native.abi import Stored
from wina_kernels.native.operations import Product, multiply
from wina_kernels.planes import PlaneWeight
from wina_kernels.weights import WeightT


class Prepared:
    """W^T [n, m] in any format, and the scale of its inputs' scores, float32 [n], None for ones."""

    counts: Tensor | None = None
    """The number of kept inputs is known at once."""

    def __init__(self, weight_t: WeightT, scale: Tensor | None) -> None:
        self._gated = _Gated(weight_t, scale)

    def above(self, x: Tensor, threshold: float, fewest: int = 0) -> tuple[Tensor, int]:
        """Return (y, kept): y [..., m] of the inputs of x [..., n] with |x_i| * scale_i > threshold, but of at least
        the `fewest` highest of each row, and their number."""
        return self._gated(x, threshold, fewest)[:2]

    def top_k(self, x: Tensor, keep: int) -> tuple[Tensor, int]:
        """Return the same for each row's `keep` highest scores, the lower index first among equals."""
        return self._gated(x, keep=keep)[:2]


class PreparedPlanes:
    """W^T [n, m] in planes, and the scale of its inputs' scores; products say how many planes were read."""

    def __init__(self, weight_t: PlaneWeight, scale: Tensor | None) -> None:
        self._gated = _Gated(weight_t, scale)

    def above(self, x: Tensor, threshold: float, fewest: int = 0) -> Product:
        """Return the product with the inputs of x [..., n] with |x_i| * scale_i > threshold, but with at least the
        `fewest` highest of each row; a negative threshold alone reads every plane."""
        return self._gated(x, threshold, fewest)

    def top_k(self, x: Tensor, keep: int) -> Product:
        """Return the same for each row's `keep` highest scores, the lower index first among equals."""
        return self._gated(x, keep=keep)


class _Gated:
    """The native product of a weight with what is kept of x."""

    def __init__(self, weight_t: WeightT | PlaneWeight, scale: Tensor | None) -> None:
        self._stored = Stored(weight_t)
        self._dtype = weight_t.dtype if isinstance(weight_t, Tensor) else None
        self._scale = None if scale is None else scale.detach().contiguous()

    def __call__(self, x: Tensor, threshold: float = -1.0, keep: int = 0) -> Product:
        n = self._stored.inputs
        if x.shape[-1] != n or self._dtype not in (None, x.dtype):
            raise ValueError(f"x {list(x.shape)} in {x.dtype} does not fit {n} inputs in {self._dtype or 'any dtype'}.")
        return multiply(x, self._stored, self._scale, threshold, keep)
