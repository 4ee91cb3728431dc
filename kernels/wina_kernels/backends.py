"""The ways to compute the operations of `reference`: which there are, and which work on a device."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from typing import Protocol, cast

import torch
from torch import Tensor

from wina_kernels.weights import WeightT

_MODULES = {"reference": "wina_kernels.reference", "cpu": "wina_kernels.cpu", "triton": "wina_kernels.gpu"}
BACKENDS = tuple(_MODULES)


class Backend(Protocol):
    """What every backend offers, defined by `reference`."""

    def sparse_linear(
        self,
        x: Tensor,
        weight_t: WeightT,
        scale: Tensor | None,
        threshold: float | Sequence[float],
        splits: Sequence[int] | None = None,
    ) -> Tensor:
        """See `reference.sparse_linear`."""

    def top_k_linear(
        self,
        x: Tensor,
        weight_t: WeightT,
        scale: Tensor | None,
        keep: int | Sequence[int],
        splits: Sequence[int] | None = None,
    ) -> Tensor:
        """See `reference.top_k_linear`."""

    def masked_linear(self, x: Tensor, weight_t: WeightT, mask: Tensor, splits: Sequence[int] | None = None) -> Tensor:
        """See `reference.masked_linear`."""


def load(name: str) -> Backend:
    """The backend of that name, imported now; ValueError for a name that there is not."""
    if name not in _MODULES:
        raise ValueError(f'There is no backend "{name}"; choose one of {", ".join(BACKENDS)}.')
    return cast(Backend, importlib.import_module(_MODULES[name]))


def usable(device: torch.device) -> tuple[str, ...]:
    """The backends that work on a device of this machine, the fastest first."""
    if device.type == "cpu":
        return "cpu", "reference"
    has_triton = device.type == "cuda" and importlib.util.find_spec("triton") is not None
    return ("triton", "reference") if has_triton else ("reference",)
