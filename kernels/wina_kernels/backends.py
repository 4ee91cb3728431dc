"""The backends that compute the operations of `reference`, and the devices they work on."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Protocol, cast

import torch
from torch import Tensor

from wina_kernels import reference
from wina_kernels.native import abi, operations
from wina_kernels.weights import QuantizedWeight, WeightT

BACKENDS = ("reference", "native", "triton")


class Backend(Protocol):
    """The operations of a backend, defined by `reference`."""

    def sparse_linear(self, x: Tensor, weight_t: WeightT, scale: Tensor | None, threshold: float) -> Tensor:
        """See `reference.sparse_linear`."""

    def top_k_linear(self, x: Tensor, weight_t: WeightT, scale: Tensor | None, keep: int) -> Tensor:
        """See `reference.top_k_linear`."""

    def masked_linear(self, x: Tensor, weight_t: WeightT, mask: Tensor) -> Tensor:
        """See `reference.masked_linear`."""


class GatedProduct(Protocol):
    """A gate and product in one step, prepared for a weight W^T [n, m] and a scale."""

    counts: Tensor | None
    """Inputs (kept, seen) counted on the device, int64 [any, 2], in any of its rows."""

    def above(self, x: Tensor, threshold: float, fewest: int = 0) -> tuple[Tensor, int | None]:
        """Return (y, kept): y [..., m] of the inputs of x [..., n], 1 to 8 rows, with |x_i| * scale_i > threshold, but
        of at least the `fewest` highest of each row, and their number, None if `counts` has it."""

    def top_k(self, x: Tensor, keep: int) -> tuple[Tensor, int | None]:
        """Return the same for each row's `keep` highest scores, the lower index first among equals."""


def gated_product(name: str, weight_t: WeightT, scale: Tensor | None, sparsity: float) -> GatedProduct | None:
    """Return a backend's gated product for a weight and a float32 scale (None for ones), None if it has none.

    `sparsity` is the fraction of inputs that will probably be dropped.
    """
    if name == "native":
        return operations.PreparedWeight(weight_t, scale)
    if name == "triton" and isinstance(weight_t, Tensor):
        return cast(
            GatedProduct, importlib.import_module("wina_kernels.gpu.decoding").Prepared(weight_t, scale, sparsity)
        )
    return None


def load(name: str) -> Backend:
    """Return the backend of that name; raise ValueError for an unknown name, and ImportError for Triton without its
    package."""
    if name not in BACKENDS:
        raise ValueError(f'There is no backend "{name}"; choose one of {", ".join(BACKENDS)}.')
    if name == "triton":  # imported on demand: its package is there on Linux alone
        return cast(Backend, importlib.import_module("wina_kernels.gpu"))
    return operations if name == "native" else reference


def usable(device: torch.device) -> tuple[str, ...]:
    """Return the backends that work on a device of this machine, the fastest first."""
    if device.type == "cpu":
        return ("native", "reference") if abi.loaded() is not None else ("reference",)
    has_triton = device.type == "cuda" and importlib.util.find_spec("triton") is not None
    return ("triton", "reference") if has_triton else ("reference",)


def serves(name: str, weight_t: WeightT) -> bool:
    """Return whether a backend takes this format: Triton has floats, and unsigned codes of 8 and 4 bits."""
    if name != "triton" or isinstance(weight_t, Tensor):
        return True
    return isinstance(weight_t, QuantizedWeight) and weight_t.bits in (8, 4) and not weight_t.signed
