"""Bits of weights that gated products read, counted from their masks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from threading import Lock

import torch
from torch import Tensor, nn
from wina_kernels.planes import PlaneWeight
from wina_kernels.weights import MixedWeight, QuantizedWeight

from wina_core.compute.models.quantized_linear import QuantizedLinear
from wina_core.model_info.cost.bits import SCALE_BITS

COUNTING = Lock()
"""Held while counts change: threads may call a model at once."""
_MOST_SUMMED = 255
"""Flags whose sum fits a byte; on a CPU torch sums bytes to bytes several times as fast as to int64."""


@dataclass
class KeptInputs:
    """Counts of a mask over real tokens."""

    tokens: int = 0
    kept: Tensor | None = None
    """How often each input was kept, int64 [n]."""

    def add(self, gated: Tensor, real: Tensor | None) -> None:
        """Count gated inputs [..., n], where dropped ones are 0; `real` is bool [...]."""
        kept = gated != 0
        if real is not None:
            kept = kept & real[..., None]
        flags = kept.flatten(0, -2)
        if flags.is_cpu:
            parts = flags.view(torch.uint8).split(_MOST_SUMMED)
            flags = torch.stack([part.sum(0, dtype=torch.uint8) for part in parts])
        own, tokens = flags.sum(0), kept.shape[:-1].numel() if real is None else int(real.sum())
        with COUNTING:
            self.tokens += tokens
            self.kept = own if self.kept is None else self.kept.to(own.device) + own


@dataclass(frozen=True)
class StoredBits:
    """Bits of W [m, n] by how they are read."""

    inputs: Tensor
    """Bits of an input's weights, float64 [n]."""
    always: float = 0.0
    """Bits of scales that inputs share, and of their order."""

    @property
    def held(self) -> float:
        """Return all bits."""
        return float(self.inputs.sum()) + self.always

    def read(self, counts: KeptInputs) -> float:
        """Return the mean bits read per token."""
        if counts.kept is None:
            return self.held
        return float(counts.kept.double().cpu() @ self.inputs) / counts.tokens + self.always


@dataclass(frozen=True)
class PlaneBits:
    """Bits of W [m, n] in planes."""

    inputs: int
    planes: int
    """Planes of all inputs."""
    plane: float
    """Bits of one plane of one input."""
    always: float
    """Bits of the inputs' numbers of planes, which every token reads."""

    @property
    def held(self) -> float:
        """Return all bits."""
        return float(SCALE_BITS * self.inputs) + self.plane * self.planes + self.always

    def read(self, tokens: float, kept: int, planes: int) -> float:
        """Return the mean bits read per token, of kept inputs and planes over so many tokens."""
        return (SCALE_BITS * kept + self.plane * planes) / tokens + self.always


def repeated_orders(linears: Iterable[nn.Linear]) -> float:
    """Return the bits of orders that `stored_bits` of these layers counts although an earlier one shares them."""
    orders = [
        linear.weight_t.order
        for linear in linears
        if isinstance(linear, QuantizedLinear) and isinstance(linear.weight_t, MixedWeight)
    ]
    known = [order for order in orders if order is not None]
    return 8.0 * (sum(order.nbytes for order in known) - sum({each.data_ptr(): each.nbytes for each in known}.values()))


def stored_bits(linear: nn.Linear) -> StoredBits | PlaneBits:
    """Return the bits of a linear layer's weight as it is stored."""
    n, m = linear.in_features, linear.out_features
    if not isinstance(linear, QuantizedLinear):
        return StoredBits(torch.full((n,), 8.0 * linear.weight.element_size() * m, dtype=torch.float64))
    weight = linear.weight_t
    if isinstance(weight, PlaneWeight):
        numbers = 0.0 if weight.planes is None else 8.0 * weight.planes.nbytes
        return PlaneBits(n, len(weight.codes), 8.0 * weight.codes.shape[1], numbers)
    if isinstance(weight, QuantizedWeight):
        return _of_run(weight)
    assert isinstance(weight, MixedWeight)
    runs = [_of_run(run) for run in weight.runs]
    inputs = torch.cat([run.inputs for run in runs])
    order = 0.0 if weight.order is None else 8.0 * weight.order.nbytes
    return StoredBits(
        inputs if weight.places is None else inputs[weight.places.cpu()], always=order + sum(run.always for run in runs)
    )


def _of_run(run: Tensor | QuantizedWeight) -> StoredBits:
    n, m = run.shape
    if isinstance(run, Tensor):
        return StoredBits(torch.full((n,), 8.0 * run.element_size() * m, dtype=torch.float64))
    always = float(SCALE_BITS * (run.scale.numel() + (0 if run.zero is None else run.zero.numel())))
    return StoredBits(torch.full((n,), float(run.bits * m), dtype=torch.float64), always=always)
