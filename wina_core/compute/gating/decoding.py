"""Weights of gated layers held transposed, so that decoding reads only those of the inputs that are kept.

The linear layers keep their weights as views into the transposed memory: whatever else reads them, such as prefill,
finds the same numbers, and nothing is held twice. To save the model, detach its gates first: safetensors wants weights
that are contiguous.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import groupby
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn
from wina_kernels import sparse_linear
from wina_kernels.dispatch import chosen, prepared
from wina_kernels.weights import FLOATS

from wina_core.compute.gating.linear import Call, Decode, Decoded, GatedForward, Slice
from wina_core.compute.gating.rules import Rule, TopK
from wina_core.compute.models.quantized_linear import QuantizedLinear

_LARGE = 1 << 24
"""Bytes of a weight whose rows are long enough alone; to move more of them at once would only take more memory."""
_Result = TypeVar("_Result")
_USUAL = 0.5
"""Fraction that a threshold is expected to drop, for the choice of a kernel."""


class SideBySide:
    """W^T of linear layers that read the same input, in one piece of memory."""

    def __init__(self, linears: Sequence[nn.Linear]) -> None:
        weights = [linear.weight for linear in linears]
        self.weight_t = _empty(weights[0].shape[1], sum(map(len, weights)), weights[0])
        self._linears: list[nn.Linear] = []
        start = 0
        try:
            for linear in linears:  # one by one: each gives its old memory back at once
                columns = self.weight_t[:, start : start + len(linear.weight)]
                columns.copy_(linear.weight.detach().t())
                self._linears.append(linear)
                linear.weight.data = columns.t()
                _trim()
                start += len(linear.weight)
        except BaseException:
            self.restore()
            raise

    def restore(self) -> None:
        """Give each layer a weight of its own again, as it was."""
        self.weight_t = self.weight_t.new_empty(0, 0)
        for linear in self._linears:
            linear.weight.data = linear.weight.data.contiguous()
            _trim()


class Shared(Generic[_Result]):
    """What neighbours ask for one after the other within a call of the model: computed for the first of them."""

    def __init__(self, compute: Callable[[Tensor], _Result], call: Call) -> None:
        self._compute = compute
        self._call = call
        self._latest: tuple[Tensor, int, _Result] | None = None

    def __call__(self, x: Tensor) -> _Result:
        """What `compute` makes of x, or has just made of it."""
        latest, number = self._latest, self._call.number
        if latest is None or latest[0] is not x or latest[1] != number:
            self._latest = latest = x, number, self._compute(x)
        return latest[2]


def _empty(inputs: int, outputs: int, like: Tensor) -> Tensor:
    """Memory for W^T; on the CPU mapped for itself, so that giving it back leaves no holes."""
    if like.device.type != "cpu" or inputs * outputs == 0:
        return torch.empty(inputs, outputs, dtype=like.dtype, device=like.device)
    size = inputs * outputs * like.element_size()
    private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
    mapped = mmap.mmap(-1, size, **private)
    return torch.frombuffer(mapped, dtype=like.dtype).view(inputs, outputs)


def _trim() -> None:
    """Have the C library give freed weights back: glibc keeps what lies between others, as much again as the model."""
    if sys.platform == "linux" and hasattr(library := ctypes.CDLL(None), "malloc_trim"):
        library.malloc_trim(0)


def transpose(forwards: Iterable[GatedForward], call: Call) -> list[SideBySide]:
    """Hold the weights of gated layers transposed, those with one mask (q, k, v; gate, up) side by side, and let their
    slices decode from there. Layers that are quantized, which have kernels of their own, that are placed by hooks or
    that no kernel serves stay as they are; so do all when it does not come to an end."""
    found: list[SideBySide] = []
    try:
        for _, neighbours in groupby(filter(_is_suitable, forwards), key=_together):
            group = list(neighbours)
            found.append(SideBySide([forward.linear for forward in group]))
            weight_t = found[-1].weight_t
            if len(group) > 1:
                _serve_together(group, weight_t, call)
                continue
            for part in filter(_is_served, group[0].slices):
                assert isinstance(part.rows, slice)  # _is_served
                first, last, _ = part.rows.indices(weight_t.shape[1])
                _serve(part, weight_t[:, first:last])
    except BaseException:
        for together in found:
            together.restore()
        raise
    return found


def _serve_together(linears: Sequence[GatedForward], weight_t: Tensor, call: Call) -> None:
    """Compute all layers for the first that asks."""
    parts = [forward.slices[0] for forward in linears]
    whole = Slice(parts[0].layer, (), slice(None), parts[0].rule)
    _serve(whole, weight_t)
    decode = whole.decode and Shared(whole.decode, call)
    product = whole.product and Shared(whole.product, call)
    start = 0
    for part, forward in zip(parts, linears, strict=True):
        stop = start + forward.linear.out_features
        part.decode, part.counts = decode and partial(_some_decoded, decode, start, stop), whole.counts
        part.product = product and partial(_some, product, start, stop)
        start = stop


def _some(product: Callable[[Tensor], Tensor], start: int, stop: int, gated: Tensor) -> Tensor:
    return product(gated)[..., start:stop]


def _some_decoded(decode: Decode, start: int, stop: int, x: Tensor) -> Decoded | None:
    found = decode(x)
    return found and (found[0][..., start:stop], found[1])


def _serve(part: Slice, weight_t: Tensor) -> None:
    """Set how a slice multiplies from W^T [n, its outputs]: gate and product in one step where a kernel does both."""
    rule, inputs = part.rule, weight_t.shape[0]
    assert rule is not None  # _is_served
    sparsity = 1 - rule.select.keep / inputs if isinstance(rule.select, TopK) else _USUAL
    part.product = partial(_product, weight_t, sparsity)
    if part.low_rank is not None or part.signal is not None or not _scores_plainly(rule, inputs):
        return
    step = prepared(weight_t, rule.scale, sparsity)
    if step is not None:
        part.counts, select = step.counts, rule.select
        if isinstance(select, TopK):
            part.decode = partial(_decode, partial(step.top_k, keep=select.keep), weight_t, sparsity)
        else:
            part.decode = partial(_decode, partial(step.above, threshold=select.cut), weight_t, sparsity)


def _decode(step: Callable[[Tensor], Decoded], weight_t: Tensor, sparsity: float, x: Tensor) -> Decoded | None:
    """What a step makes of x; None where for so many rows the dense product is faster."""
    return step(x) if x.numel() == len(weight_t) or chosen(x, weight_t, sparsity) else None


def _product(weight_t: Tensor, sparsity: float, gated: Tensor) -> Tensor:
    """W x for an input after its gate: no weight is read for a 0."""
    return sparse_linear(gated, weight_t, None, 0.0, sparsity=sparsity)


def _scores_plainly(rule: Rule, inputs: int) -> bool:
    """Whether something is dropped, and scores are |x_i| * c_i, compared with each other or with a threshold."""
    plain = rule.centre is None and rule.fill is None and not rule.select.keeps_all(inputs)
    scaled = rule.scale is None or rule.scale.dtype == torch.float32
    select = rule.select
    known = not select.ties if isinstance(select, TopK) else select.selection == "threshold"
    return plain and scaled and known


def _is_served(part: Slice) -> bool:
    """Whether a slice's rows lie together and what it drops counts as 0."""
    return part.rule is not None and not part.rule.replaces and isinstance(part.rows, slice)


def _is_suitable(forward: GatedForward) -> bool:
    if isinstance(forward.linear, QuantizedLinear) or forward.is_placed:
        return False
    return forward.linear.weight.dtype in FLOATS and any(map(_is_served, forward.slices))


def _together(forward: GatedForward) -> int:
    """The same for layers that one mask gates, a rule belonging to one input: on the processor small ones, on a GPU,
    where it is launches that cost, all."""
    weight, (first, *others) = forward.linear.weight, forward.slices
    large = weight.is_cpu and weight.numel() * weight.element_size() > _LARGE
    alone = others or first.low_rank is not None or large
    return id(forward) if alone else id(first.rule)
