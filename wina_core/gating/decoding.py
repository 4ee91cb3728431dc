"""Weights of gated layers held transposed, so that decoding reads only those of the inputs that are kept.

The linear layers keep their weights as views into the transposed memory: whatever else reads them, prefill and state
dicts among them, finds the same numbers, and nothing is held twice.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import groupby

import torch
from torch import Tensor, nn
from wina_kernels import sparse_linear
from wina_kernels.weights import FLOATS

from wina_core.gating.linear import GatedForward, Slice
from wina_core.gating.rules import Rule, TopK
from wina_core.models.quantized_linear import QuantizedLinear

_LARGE = 1 << 24
"""Bytes of a weight whose rows are long enough alone; to move more of them at once would only take more memory."""
_USUAL = 0.5
"""Fraction that a threshold is expected to drop, for the choice of a kernel."""


class SideBySide:
    """W^T of linear layers that read the same input, in one piece of memory."""

    def __init__(self, linears: Sequence[nn.Linear]) -> None:
        weights = [linear.weight for linear in linears]
        self.weight_t = _empty(weights[0].shape[1], sum(map(len, weights)), weights[0])
        self._linears = list(linears)
        self._latest: tuple[Tensor, Tensor] | None = None
        start = 0
        for weight in weights:  # one by one: each gives its old memory back at once
            columns = self.weight_t[:, start : start + len(weight)]
            columns.copy_(weight.detach().t())
            weight.data = columns.t()
            _trim()
            start += len(weight)

    def shared_product(self, start: int, stop: int, sparsity: float, gated: Tensor) -> Tensor:
        """Outputs `start` to `stop`, [..., stop - start], of an input after its gate, [..., n], in which dropped ones
        are 0. All layers are computed at once, and neighbours that ask for the same input find it done."""
        if self._latest is None or self._latest[0] is not gated:
            self._latest = gated, sparse_linear(gated, self.weight_t, None, 0.0, sparsity=sparsity)
        return self._latest[1][..., start:stop]

    def product(self, start: int, stop: int, sparsity: float, gated: Tensor) -> Tensor:
        """The same for an input that no other output has."""
        return sparse_linear(gated, self.weight_t[:, start:stop], None, 0.0, sparsity=sparsity)

    def restore(self) -> None:
        """Give each layer a weight of its own again, as it was, and the transposed memory back."""
        self.weight_t, self._latest = self.weight_t.new_empty(0, 0), None
        for linear in self._linears:
            linear.weight.data = linear.weight.data.contiguous()
            _trim()


def _empty(inputs: int, outputs: int, like: Tensor) -> Tensor:
    """Memory for W^T; on the CPU mapped for itself, so that giving it back leaves no holes."""
    if like.device.type != "cpu" or inputs * outputs == 0:
        return torch.empty(inputs, outputs, dtype=like.dtype, device=like.device)
    mapped = mmap.mmap(-1, inputs * outputs * like.element_size())
    return torch.frombuffer(mapped, dtype=like.dtype).view(inputs, outputs)


def _trim() -> None:
    """Have the C library give freed weights back: glibc keeps what lies between others, as much again as the model."""
    if sys.platform == "linux" and hasattr(library := ctypes.CDLL(None), "malloc_trim"):
        library.malloc_trim(0)


def transpose(forwards: Iterable[GatedForward]) -> list[SideBySide]:
    """Hold the weights of gated layers transposed, those with one mask (q, k, v; gate, up) side by side, and let their
    slices decode from there. Layers that are quantized, or placed by hooks of their own, stay as they are."""
    found = []
    for _, neighbours in groupby(filter(_has_plain_weight, forwards), key=_together):
        group = list(neighbours)
        together = SideBySide([forward.linear for forward in group])
        found.append(together)
        start = 0
        for forward in group:
            for part in forward.slices:
                part.product = _product(together, part, start, forward.linear.out_features, shared=len(group) > 1)
            start += forward.linear.out_features
    return found


def _has_plain_weight(forward: GatedForward) -> bool:
    linear = forward.linear
    return not isinstance(linear, QuantizedLinear) and linear.weight.dtype in FLOATS and not forward.is_placed


def _together(forward: GatedForward) -> int:
    """The same for small layers that one mask gates: a rule belongs to one input."""
    weight = forward.linear.weight
    alone = len(forward.slices) > 1 or weight.numel() * weight.element_size() > _LARGE
    return id(forward) if alone else id(forward.slices[0].rule)


def _product(
    together: SideBySide, part: Slice, start: int, outputs: int, shared: bool
) -> Callable[[Tensor], Tensor] | None:
    """How a slice decodes; None where it does not by a kernel: rows that do not lie together, or other fills than 0."""
    if part.rule is None or part.rule.replaces or not isinstance(part.rows, slice):
        return None
    first, last, _ = part.rows.indices(outputs)
    compute = together.shared_product if shared else together.product
    return partial(compute, start + first, start + last, _expected(part.rule, together.weight_t.shape[0]))


def _expected(rule: Rule, inputs: int) -> float:
    return 1 - rule.select.keep / inputs if isinstance(rule.select, TopK) else _USUAL
