"""The forward pass of one gated linear layer, with counts of kept inputs and of the bits of weights that it reads."""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Any, NoReturn

import torch
from torch import Tensor, nn
from wina_kernels.dense import dense_product, is_small_batch, is_supported
from wina_kernels.planes import PlaneWeight
from wina_kernels.weights import MixedWeight, QuantizedWeight

from wina_core.compute.gating.rules import Rule
from wina_core.compute.models.experts import Expert
from wina_core.compute.models.quantized_linear import PlaneLinear, QuantizedLinear, uncompiled
from wina_core.compute.models.view import Rows
from wina_core.compute.scoring import LowRank
from wina_core.errors import WinaError
from wina_core.model_info.cost.terms import SCALE_BITS

COUNTING = Lock()
"""Held while counts change: threads may call a model at once."""
_MOST_SUMMED = 255
"""Flags whose sum fits a byte; on a CPU torch sums bytes to bytes several times as fast as to int64."""


@dataclass
class KeptInputs:
    """Counts of a mask over real tokens."""

    tokens: int = 0
    kept_counts: Tensor | None = None
    """How often each input was kept, int64 [n]."""

    def add(self, gated: Tensor, real: Tensor | None, replacement: Tensor | None = None) -> None:
        """Count gated inputs [..., n], where dropped ones are 0 or their `replacement` [n]; `real` is bool [...]."""
        # Dropped inputs equal what replaces them bit for bit: `torch.where` put it there.
        mask = gated != (0 if replacement is None else replacement)
        if real is not None:
            mask = mask & real[..., None]
        flags = mask.flatten(0, -2)
        if flags.is_cpu:
            chunks = flags.view(torch.uint8).split(_MOST_SUMMED)
            flags = torch.stack([chunk.sum(0, dtype=torch.uint8) for chunk in chunks])
        counts, tokens = flags.sum(0), mask.shape[:-1].numel() if real is None else int(real.sum())
        with COUNTING:
            self.tokens += tokens
            # Counts that a checkpoint restored are on the CPU.
            self.kept_counts = counts if self.kept_counts is None else self.kept_counts.to(counts.device) + counts


@dataclass(frozen=True)
class StoredBits:
    """Bits of W [m, n] by how they are read."""

    inputs: Tensor
    """Bits of an input's weights, float64 [n]."""
    always: float = 0.0
    """Bits of scales that inputs share, and of their order."""

    @property
    def held(self) -> float:
        return float(self.inputs.sum()) + self.always

    def read(self, counts: KeptInputs) -> float:
        """Return the mean bits read per token."""
        if counts.kept_counts is None:
            return self.held
        return float(counts.kept_counts.double().cpu() @ self.inputs) / counts.tokens + self.always


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
        return float(SCALE_BITS * self.inputs) + self.plane * self.planes + self.always

    def read(self, tokens: float, kept_inputs: int, planes: int) -> float:
        return (SCALE_BITS * kept_inputs + self.plane * planes) / tokens + self.always


def repeated_orders(linears: Iterable[nn.Linear]) -> float:
    """Return the bits of orders that `stored_bits` of these layers counts although an earlier one shares them."""
    orders = [
        linear.weight_t.order
        for linear in linears
        if isinstance(linear, QuantizedLinear) and isinstance(linear.weight_t, MixedWeight)
    ]
    stored = [order for order in orders if order is not None]
    return 8.0 * (
        sum(order.nbytes for order in stored) - sum({order.data_ptr(): order.nbytes for order in stored}.values())
    )


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
    # Runs hold the inputs in the order of their energy, and `places` say where each input of x is.
    return StoredBits(
        inputs if weight.places is None else inputs[weight.places.cpu()], always=order + sum(run.always for run in runs)
    )


def _of_run(run: Tensor | QuantizedWeight) -> StoredBits:
    n, m = run.shape
    if isinstance(run, Tensor):
        return StoredBits(torch.full((n,), 8.0 * run.element_size() * m, dtype=torch.float64))
    always = float(SCALE_BITS * (run.scale.numel() + (0 if run.zero is None else run.zero.numel())))
    return StoredBits(torch.full((n,), float(run.bits * m), dtype=torch.float64), always=always)


Decoded = tuple[Tensor, int | None]
"""A product and the number of kept inputs, None where the kernel counts them on the device."""
Decode = Callable[[Tensor], Decoded | None]
"""A kernel that gates and multiplies a few tokens; it returns None where two steps are faster."""


@dataclass(frozen=True, eq=False)
class GatedInput:
    """An input after its gate."""

    x: Tensor
    """m * x, or x with its dropped inputs replaced, [..., tokens, n]."""
    kept_inputs: Tensor | int
    """Inputs kept over all real tokens."""
    seen_inputs: Tensor | int
    """Inputs in all."""


class CallState(threading.local):
    """A thread's call of a model in progress."""

    real: Tensor | None = None
    dense: Tensor | None = None
    number = 0
    """Number of the call; cached results are valid within one."""
    latest: tuple[Tensor, Rule, GatedInput] | None = None
    declared_real: Tensor | None = None
    """Real tokens of calls without a mask, bool [batch, tokens]; None if all are."""
    prompt: weakref.ref[Any] | None = None
    """The cache of the latest call if it had several tokens."""

    def continues(self, cache: object) -> bool:
        return self.prompt is not None and self.prompt() is cache


class ForwardContext:
    """The state that a model's gated layers share during one call of the model, in each thread its own."""

    def __init__(self) -> None:
        self.enabled = True
        self.call = CallState()

    def begin(self, real: Tensor | None = None, dense: Tensor | None = None) -> None:
        """Start a call, or forget the last one.

        `real`: bool [batch, tokens], False for padding; None if every token is real. `dense`: likewise, True for real
        tokens that the prefill policy leaves dense; None if there are none.
        """
        call = self.call
        call.real, call.dense, call.latest = real, dense, None
        call.number += 1

    def gate(
        self, x: Tensor, rule: Rule, signal: Callable[[], Tensor] | None = None, positions: Tensor | None = None
    ) -> GatedInput:
        """Apply a rule to x [..., tokens, n], once for neighbours (q, k, v; gate, up) that share both.

        `signal` returns the tensor to score instead of x. `positions` are those of an expert's tokens among all.
        """
        latest = self.call.latest
        # Identity is enough: transformers passes one tensor to q, k and v, and `rules` gives them one rule.
        if latest is None or latest[0] is not x or latest[1] is not rule:
            self.call.latest = latest = x, rule, self._gate(x, rule, None if signal is None else signal(), positions)
        return latest[2]

    def _gate(self, x: Tensor, rule: Rule, signal: Tensor | None, positions: Tensor | None) -> GatedInput:
        real = _per_token(self.call.real, x, positions)
        seen = x.numel() if real is None else real.sum() * x.shape[-1]
        dense = _per_token(self.call.dense, x, positions)
        gated, kept_per_token = rule.gate(x, dense, signal)
        if kept_per_token is None:
            return GatedInput(gated, seen, seen)
        return GatedInput(gated, (kept_per_token if real is None else kept_per_token * real).sum(), seen)


class NotCopied:
    """Base of objects whose copies, by `copy.deepcopy` or pickle, would gate the original model."""

    def __reduce__(self) -> NoReturn:
        raise WinaError("A gated model cannot be copied or pickled; load it again, or copy it before it is gated.")


@dataclass(eq=False)
class MaskGroup:
    """Rows of a linear layer that share one mask: one projection, or neighbours in a fused layer."""

    layer: int
    names: tuple[str, ...]
    """Canonical names of the projections whose inputs (for CATS and up: outputs) the mask drops."""
    rows: Rows
    rule: Rule | None
    """None if the method leaves these rows dense."""
    low_rank: LowRank | None = None
    """The low-rank part added for dropped inputs."""
    bias: Tensor | None = None
    """Tuned, added to the outputs of the rows beside any bias of the layer; None for 0."""
    signal: Callable[[], Tensor] | None = None
    """Returns the tensor to score instead of the input, of its shape; None to score the input."""
    product: Callable[[Tensor], Tensor] | None = None
    """Kernel for W_p x of a few gated tokens x [..., n] that reads only kept inputs' weights; None for the dense
    product."""
    decode: Decode | None = None
    """Kernel that gates and multiplies tokens, all real and none left dense, and returns None for too many; None
    without one."""
    counts: Tensor | None = None
    """Inputs (kept, seen) that a kernel counts on its device, int64 [any, 2]."""
    inputs: KeptInputs = field(default_factory=KeptInputs)
    """Inputs of a quantized layer that were kept."""
    plane_counts: Tensor | None = None
    """Planes that a compiled decoder read, int64 [1]."""
    planes: int = 0
    """Planes read otherwise, of real tokens."""
    _counted_in_python: tuple[int, int] = 0, 0
    """Inputs (kept, seen) over real tokens that are counted in Python."""
    _counted_on_device: Tensor | None = None
    """Inputs (kept, seen) counted on the layer's device, int64 [2]; in place, so that a replayed CUDA graph counts."""

    def gate(self, x: Tensor, context: ForwardContext, positions: Tensor | None = None) -> Tensor:
        """Return x [..., tokens, n] after its gate and count the mask."""
        if self.rule is None:
            return x
        gated = context.gate(x, self.rule, self.signal, positions)
        self.count(gated.kept_inputs, gated.seen_inputs)
        return gated.x

    def whole_bias(self, linear: nn.Linear) -> Tensor | None:
        """Return all that is added to the product of the group's rows of a layer, or None."""
        layer_bias: Tensor | None = linear.bias  # None where there is none, whatever the annotation says
        if layer_bias is None:
            return self.bias
        return layer_bias[self.rows] if self.bias is None else layer_bias[self.rows] + self.bias

    def count(self, kept_inputs: Tensor | int, seen_inputs: Tensor | int) -> None:
        with COUNTING:
            if not isinstance(kept_inputs, Tensor):
                assert not isinstance(seen_inputs, Tensor)  # a mask of real tokens makes both tensors
                self._counted_in_python = (
                    self._counted_in_python[0] + kept_inputs,
                    self._counted_in_python[1] + seen_inputs,
                )
                return
            if self._counted_on_device is None:
                self._counted_on_device = torch.zeros(2, dtype=torch.int64, device=kept_inputs.device)
            self._counted_on_device[0].add_(kept_inputs)
            self._counted_on_device[1].add_(seen_inputs)

    def count_planes(self, read: int) -> None:
        with COUNTING:
            self.planes += read

    def counted(self) -> tuple[int, int]:
        """Return inputs (kept, seen) in all."""
        kept_inputs, seen_inputs = self._counted_in_python
        for counts in (self.counts, self._counted_on_device):
            if counts is not None:
                kept_more, seen_more = counts.view(-1, 2).sum(0).tolist()
                kept_inputs, seen_inputs = kept_inputs + kept_more, seen_inputs + seen_more
        return kept_inputs, seen_inputs

    def sparsity(self) -> tuple[float, int]:
        """Return the fraction of unread weights, minus the low-rank part, and the inputs seen; NaN for none."""
        kept_inputs, seen = self.counted()
        value = 1 - kept_inputs / seen if seen else math.nan
        if self.low_rank is not None:
            value -= self.low_rank.weights / (len(self.low_rank.left) * self.low_rank.right.shape[1])
        return value, seen

    def planes_read(self) -> int:
        return self.planes + (0 if self.plane_counts is None else int(self.plane_counts.sum()))

    def reset_counts(self) -> None:
        self._counted_in_python, self.planes = (0, 0), 0
        self.inputs = KeptInputs()
        for counts in (self.counts, self._counted_on_device, self.plane_counts):
            if counts is not None:
                counts.zero_()


class GatedForward(NotCopied):
    """Replacement of `linear.forward`: y = W_p x_p + L_p (x - x_p) + b_p for each mask group p of its rows.

    x_p is the gated input and L_p the low-rank part, if any.
    """

    def __init__(
        self, linear: nn.Linear, groups: list[MaskGroup], context: ForwardContext, expert: Expert | None = None
    ) -> None:
        self.linear = linear
        self.groups = groups
        self.context = context
        self._expert = expert
        self._own_forward = linear.__dict__.get("forward")
        """A forward set on the instance before, as device placement does; usually None."""
        # Kernels keep weights transposed, on which nn.Linear's own product is slow in bfloat16.
        self._dense = (
            partial(_linear, linear) if type(linear) is nn.Linear and self._own_forward is None else linear.forward
        )
        if isinstance(self._own_forward, GatedForward):
            raise RuntimeError("The model is gated already; detach its gates first.")

    @property
    def is_placed(self) -> bool:
        """True if the layer has its own forward, which may load its weight from another device."""
        return self._own_forward is not None

    def install(self) -> None:
        self.linear.forward = self  # type: ignore[assignment,method-assign]  # the instance attribute hides the class's method

    def remove(self) -> None:
        """Restore the layer's own forward, unless something else replaced this one."""
        if self.linear.__dict__.get("forward") is self:
            del self.linear.forward
            if self._own_forward is not None:
                self.linear.forward = self._own_forward

    @uncompiled
    def __call__(self, x: Tensor) -> Tensor:
        """Return y [..., tokens, m] for x [..., tokens, n]."""
        if not self.context.enabled:
            return self._dense(x)
        if len(self.groups) == 1:
            (group,) = self.groups
            y = _decoded(group, x, self.context, self.linear.bias)
            if y is not None:
                return self._biased(y, group, x)
            gated = group.gate(x, self.context, self._positions)
            y = self._read(group, x, gated, self.linear.bias)
            return self._biased(_compensated(self._dense(gated) if y is None else y, group, x, gated), group, x)
        weight, bias = self.linear.weight, self.linear.bias
        y = torch.empty(*x.shape[:-1], len(weight), dtype=x.dtype, device=x.device)
        for group in self.groups:
            group_bias = None if bias is None else bias[group.rows]
            group_y = _decoded(group, x, self.context, group_bias)
            if group_y is None:
                gated = group.gate(x, self.context, self._positions)
                group_y = self._read(group, x, gated, group_bias)
                if group_y is None:
                    group_y = dense_product(gated, weight[group.rows], group_bias)
                group_y = _compensated(group_y, group, x, gated)
            y[..., group.rows] = self._biased(group_y, group, x)
        return y

    def _biased(self, y: Tensor, group: MaskGroup, x: Tensor) -> Tensor:
        """Add the tuned bias to the outputs of tokens that are not left dense."""
        if group.bias is None:
            return y
        # The bias makes up for dropped inputs, and tokens left dense drop none.
        dense = _per_token(self.context.call.dense, x, self._positions)
        return y + (group.bias if dense is None else group.bias * dense.logical_not().unsqueeze(-1))

    @property
    def _positions(self) -> Tensor | None:
        """Return the positions of an expert's tokens among all; None for a layer that reads all."""
        return None if self._expert is None else self._expert.positions

    def _read(self, group: MaskGroup, x: Tensor, gated: Tensor, bias: Tensor | None) -> Tensor | None:
        """Return W_p x_p + b_p by a kernel or, of weights in planes, by levels; None for neither."""
        linear, rule, real = self.linear, group.rule, _per_token(self.context.call.real, x, self._positions)
        if rule is None or not isinstance(linear, QuantizedLinear):
            return _multiplied(group, gated, bias)
        if not isinstance(linear, PlaneLinear):
            group.inputs.add(gated, real, rule.replacement if rule.replaces else None)
            return _multiplied(group, gated, bias)
        scored = x if group.signal is None else group.signal()
        levels = rule.levels(scored, linear.weight_t, _per_token(self.context.call.dense, x, self._positions))
        group.count_planes(int((levels if real is None else levels * real[..., None]).sum()))
        return linear.graded(gated, levels, group.rows, bias)


def _linear(linear: nn.Linear, x: Tensor) -> Tensor:
    return dense_product(x, linear.weight, linear.bias)


def _decoded(group: MaskGroup, x: Tensor, context: ForwardContext, bias: Tensor | None) -> Tensor | None:
    """Return W_p x_p + b_p by a kernel that also gates, or None where none fits x."""
    # Such a kernel gates every row and counts all of them, so padding and dense tokens rule it out.
    if group.decode is None or context.call.real is not None or context.call.dense is not None or not is_supported(x):
        return None
    decoded = group.decode(x)
    if decoded is None:
        return None
    y, kept_inputs = decoded
    if kept_inputs is not None:
        group.count(kept_inputs, x.numel())
    return y if bias is None else y + bias


def _multiplied(group: MaskGroup, gated: Tensor, bias: Tensor | None) -> Tensor | None:
    """Return W_p x_p + b_p by a kernel, or None where none fits x."""
    if group.product is None or not is_small_batch(gated) or not is_supported(gated):
        return None
    y = group.product(gated)
    return y if bias is None else y + bias


def _per_token(flags: Tensor | None, x: Tensor, positions: Tensor | None) -> Tensor | None:
    """Select flags, bool [batch, tokens], of the tokens of x [..., n], on its device.

    `positions` are those of x among all tokens; None if x has all.
    """
    if flags is None:
        return None
    flags = flags.to(x.device)  # layers of a spread model are on several devices
    return (flags if positions is None else flags.flatten()[positions]).reshape(x.shape[:-1])


def _compensated(y: Tensor, group: MaskGroup, x: Tensor, gated: Tensor) -> Tensor:
    # A gate that drops nothing returns x itself.
    return y if group.low_rank is None or gated is x else y + group.low_rank(x - gated)
