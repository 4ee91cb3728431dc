"""Kernels of gated layers: decoding reads only the weights of kept inputs, which needs them transposed.

Quantized weights are stored transposed in any case. The other linear layers keep views into the transposed memory, so
prefill finds the same numbers and nothing is held twice. Detach the gates before saving the model: safetensors needs
contiguous weights.
"""

from __future__ import annotations

import mmap
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import groupby
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn
from wina_kernels import sparse_linear
from wina_kernels.backends import usable
from wina_kernels.dense import MOST_ROWS, is_small_batch
from wina_kernels.dispatch import chosen, prepared
from wina_kernels.native.operations import PreparedPlanes, Product
from wina_kernels.planes import PlaneWeight
from wina_kernels.tuning import USUAL_SPARSITY
from wina_kernels.weights import FLOATS, WeightT

from wina_core.compute.gating.linear import Decode, Decoded, ForwardContext, GatedForward, MaskGroup
from wina_core.compute.gating.rules import Rule
from wina_core.compute.memory import trim_memory
from wina_core.compute.models.mapped import MappedWeights, drop_pages, file_mappings, in_files, in_new_file
from wina_core.compute.models.quantized_linear import QuantizedLinear
from wina_core.compute.scoring import InputSelection, TopKSelection
from wina_core.files.hardware import OTHER_DISK, check_room, free_memory
from wina_core.files.paths import cache_folder

_LARGE = 1 << 24
"""Bytes of a weight that is moved alone: its rows are long enough, and moving several at once takes more memory."""
_ROOM_FOR = "Memory does not hold the transposed weights that kernels read, which take"
_Result = TypeVar("_Result")


class TransposedWeights:
    """W^T of linear layers that read the same input, in one block of memory.

    The memory of W is freed, or given back to its file if the weights are `mapped` there. With `in_file`, W^T is in a
    file of its own; decoding reads the rows of kept inputs from it.
    """

    def __init__(
        self,
        linears: Sequence[nn.Linear],
        mapped: MappedWeights | None = None,
        mappings: Sequence[tuple[int, int]] = (),
        in_file: bool = False,
    ) -> None:
        weights = [linear.weight for linear in linears]
        self.weight_t = _allocate(weights[0].shape[1], sum(map(len, weights)), weights[0], in_file)
        self.linears: list[nn.Linear] = []
        self._in_files: list[Tensor | None] = []
        """W of each layer that is in a file; None for the others."""
        start = 0
        try:
            for linear in linears:  # one by one, so that each frees its old memory at once
                columns, old = self.weight_t[:, start : start + len(linear.weight)], linear.weight.data
                columns.copy_(old.t())
                self._in_files.append(old if mapped is not None and mapped.holds(linear.weight) else None)
                self.linears.append(linear)
                linear.weight.data = columns.t()
                if in_file:
                    # Memory does not hold W^T: what is written of it goes back to its file at once.
                    drop_pages(self.weight_t)
                for tensor in in_files([old], mappings):
                    drop_pages(tensor)  # else the mapping of the whole file keeps them
                del old
                trim_memory()
                start += len(linear.weight)
        except BaseException:
            self.restore()
            raise

    def restore(self) -> None:
        """Give each layer its own contiguous weight again."""
        self.weight_t = self.weight_t.new_empty(0, 0)
        for linear, old in zip(self.linears, self._in_files, strict=True):
            linear.weight.data = linear.weight.data.contiguous() if old is None else old
            trim_memory()


class PerCallCache(threading.local, Generic[_Result]):
    """One result per call of the model in a thread, computed for the first layer and reused by its neighbours."""

    def __init__(self, compute: Callable[[Tensor], _Result], context: ForwardContext) -> None:
        self._compute = compute
        self._context = context
        self._latest: tuple[Tensor, int, _Result] | None = None

    def __call__(self, x: Tensor) -> _Result:
        """Return `compute(x)`, or the latest result if it is for this very x and call."""
        # Identity alone is not enough: in the next call, the same memory may hold another input.
        latest, number = self._latest, self._context.call.number
        if latest is None or latest[0] is not x or latest[1] != number:
            self._latest = latest = x, number, self._compute(x)
        return latest[2]


def _allocate(inputs: int, outputs: int, like: Tensor, in_file: bool) -> Tensor:
    """Return memory for W^T; on the CPU a mapping of its own, so that freeing it leaves no holes."""
    if in_file and inputs * outputs:
        return in_new_file(inputs * outputs, like.dtype, _ROOM_FOR, OTHER_DISK).view(inputs, outputs)
    if like.device.type != "cpu" or inputs * outputs == 0:
        return torch.empty(inputs, outputs, dtype=like.dtype, device=like.device)
    size = inputs * outputs * like.element_size()
    private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
    mapped = mmap.mmap(-1, size, **private)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        mapped.madvise(mmap.MADV_HUGEPAGE)  # rows are read in any order: with small pages a fifth more slowly
    return torch.frombuffer(mapped, dtype=like.dtype).view(inputs, outputs)


def transpose(
    forwards: Iterable[GatedForward], context: ForwardContext, mapped: MappedWeights | None = None
) -> list[TransposedWeights]:
    """Transpose the weights of gated layers, those with one mask (q, k, v; gate, up) together, and bind kernels.

    Layers placed by hooks and layers without a kernel stay unchanged. An error restores all layers. `mapped` weights
    that memory does not hold are transposed in files; raises WinaError if the disk has no room for them.
    """
    transposed: list[TransposedWeights] = []
    gated, mappings = list(forwards), file_mappings()
    for forward in gated:
        _bind_quantized(forward)
    suitable = list(filter(_can_transpose, gated))
    size = sum(forward.linear.weight.nbytes for forward in suitable)
    in_file = mapped is not None and size > free_memory()
    if in_file:
        check_room(cache_folder(), size, _ROOM_FOR, OTHER_DISK)
    try:
        # Layers with one mask follow each other (q, k, v; gate, up), which is all that groupby joins.
        for _, neighbours in groupby(suitable, key=_shared_mask_key):
            together = list(neighbours)
            transposed.append(TransposedWeights([forward.linear for forward in together], mapped, mappings, in_file))
            weight_t = transposed[-1].weight_t
            if len(together) > 1:
                _bind_shared_kernel(together, weight_t, context)
                continue
            for group in filter(_supports_kernel, together[0].groups):
                assert isinstance(group.rows, slice)  # _is_served
                first, last, _ = group.rows.indices(weight_t.shape[1])
                bind_kernel(group, weight_t[:, first:last])
    except BaseException:
        for weights in transposed:
            weights.restore()
        raise
    return transposed


def _bind_quantized(forward: GatedForward) -> None:
    """Bind a kernel to a quantized layer with one mask; with several ones its rows would have to be cut."""
    linear, (group, *further_groups) = forward.linear, forward.groups
    if not isinstance(linear, QuantizedLinear) or further_groups or forward.is_placed or not _supports_kernel(group):
        return
    if isinstance(linear.weight_t, PlaneWeight):
        _bind_planes(group, linear.weight_t)
    else:
        bind_kernel(group, linear.weight_t)


def _bind_planes(group: MaskGroup, weight_t: PlaneWeight) -> None:
    """Bind a kernel of the native library to a group, which reads each input in its own number of planes."""
    rule = group.rule
    assert rule is not None  # _is_served
    if usable(weight_t.device)[0] != "native" or group.signal is not None or not is_plain(rule):
        return
    step, select = PreparedPlanes(weight_t, rule.scale), rule.select
    everything = partial(step.above, threshold=-1.0)  # scores are never negative
    multiply = everything if select.keeps_all(weight_t.shape[0]) else _with_selection(step, select)
    group.decode = partial(_decode_planes, group, multiply)


def _decode_planes(group: MaskGroup, multiply: Callable[[Tensor], Product], x: Tensor) -> Decoded | None:
    """Return the product and the number of kept inputs; the group counts the planes that were read.

    A prompt is read a few rows at a time: unpacking whole weights takes longer than reading them so.
    """
    if x.numel() == 0:
        return None
    products = [multiply(rows) for rows in x.flatten(0, -2).split(MOST_ROWS)]
    group.count_planes(sum(planes for _, _, planes in products))
    y = torch.cat([product for product, _, _ in products])
    return y.view(*x.shape[:-1], -1), sum(kept_inputs for _, kept_inputs, _ in products)


def _bind_shared_kernel(linears: Sequence[GatedForward], weight_t: Tensor, context: ForwardContext) -> None:
    """Compute the outputs of all layers when the first one runs."""
    groups = [forward.groups[0] for forward in linears]
    joint = MaskGroup(groups[0].layer, (), slice(None), groups[0].rule)
    bind_kernel(joint, weight_t)
    decode = joint.decode and PerCallCache(joint.decode, context)
    product = joint.product and PerCallCache(joint.product, context)
    start = 0
    for group, forward in zip(groups, linears, strict=True):
        stop = start + forward.linear.out_features
        group.decode, group.counts = decode and partial(_decoded_slice, decode, start, stop), joint.counts
        group.product = product and partial(_product_slice, product, start, stop)
        start = stop


def _product_slice(product: Callable[[Tensor], Tensor], start: int, stop: int, gated: Tensor) -> Tensor:
    return product(gated)[..., start:stop]


def _decoded_slice(decode: Decode, start: int, stop: int, x: Tensor) -> Decoded | None:
    decoded = decode(x)
    return decoded and (decoded[0][..., start:stop], decoded[1])


def bind_kernel(group: MaskGroup, weight_t: WeightT) -> None:
    """Bind kernels to a group that multiply by W^T [n, its outputs], and gate in the same step where possible."""
    rule, inputs = group.rule, weight_t.shape[0]
    assert rule is not None  # _is_served
    sparsity = 1 - rule.select.keep / inputs if isinstance(rule.select, TopKSelection) else USUAL_SPARSITY
    group.product = lambda gated: sparse_linear(gated, weight_t, None, 0.0, sparsity=sparsity)
    decodes = group.low_rank is None and group.signal is None and is_plain(rule)
    if not decodes or rule.select.keeps_all(inputs):
        return
    step = prepared(weight_t, rule.scale, sparsity)
    if step is not None:
        # The kernel counts on its device: to read the number at every step would wait for it.
        group.counts = step.counts
        group.decode = partial(_decode, _with_selection(step, rule.select), weight_t, sparsity)


def _with_selection(step: Any, select: InputSelection) -> Callable[[Tensor], Any]:
    """Return the product of a prepared weight with what is selected of x."""
    if isinstance(select, TopKSelection):
        return partial(step.top_k, keep=select.keep)
    return partial(step.above, threshold=select.threshold, fewest=select.fewest)


def _decode(step: Callable[[Tensor], Decoded], weight_t: WeightT, sparsity: float, x: Tensor) -> Decoded | None:
    """Return `step(x)`, or None for many rows, or where the dense product is faster for their number."""
    if not is_small_batch(x):
        return None
    # For one token, `prepared` has compared the kernel with the dense product already.
    return step(x) if x.numel() == weight_t.shape[0] or chosen(x, weight_t, sparsity) else None


def is_plain(rule: Rule) -> bool:
    """Return whether the rule keeps inputs by |x_i| * c_i alone, by top k or by a threshold."""
    plain = rule.centre is None and rule.replacement is None
    # Kernels read float32 scales alone.
    scaled = rule.scale is None or rule.scale.dtype == torch.float32
    select = rule.select
    simple_selection = not select.ties if isinstance(select, TopKSelection) else select.selection == "threshold"
    return plain and scaled and simple_selection


def _supports_kernel(group: MaskGroup) -> bool:
    return group.rule is not None and not group.rule.replaces and isinstance(group.rows, slice)


def _can_transpose(forward: GatedForward) -> bool:
    if isinstance(forward.linear, QuantizedLinear) or forward.is_placed:
        return False
    return forward.linear.weight.dtype in FLOATS and any(map(_supports_kernel, forward.groups))


def _shared_mask_key(forward: GatedForward) -> int:
    """Return a key that layers gated by one mask share: small ones on the CPU, all on a GPU, where launches cost."""
    weight, (first, *further_groups) = forward.linear.weight, forward.groups
    large = weight.is_cpu and weight.numel() * weight.element_size() > _LARGE
    alone = further_groups or first.low_rank is not None or large
    return id(forward) if alone else id(first.rule)
