"""The forward pass of one gated linear layer, and the count of what its masks keep."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional
from wina_kernels.dense import MOST_ROWS

from wina_core.compute.gating.low_rank import LowRank
from wina_core.compute.gating.rules import Rule
from wina_core.compute.models.view import Rows

Decoded = tuple[Tensor, int | None]
"""A product, and how many inputs were kept; None where they are counted elsewhere."""
Decode = Callable[[Tensor], Decoded | None]
"""Gates and multiplies a few tokens; None where doing the one after the other is faster."""


@dataclass(frozen=True, eq=False)
class Gated:
    """An input after its gate."""

    x: Tensor
    """m * x, or x with its dropped inputs replaced, [..., tokens, n]."""
    kept: Tensor | int
    """Inputs kept over all real tokens."""
    seen: Tensor | int
    """Inputs there were."""


class Call:
    """What a model's gated layers share about the model call in progress."""

    def __init__(self) -> None:
        self.enabled = True
        self.number = 0
        """Of the call; what is remembered holds for one."""
        self._latest: tuple[Tensor, Rule, Gated] | None = None
        self.begin()

    def begin(self, real: Tensor | None = None, dense: Tensor | None = None) -> None:
        """Start a call, or forget the last one.

        `real` is bool [batch, tokens], False for padding; None when every token is real. `dense` is likewise, True
        for real tokens that the prefill policy leaves dense; None when there are none.
        """
        self.real, self.dense = real, dense
        self.number += 1
        self._latest = None

    def gate(self, x: Tensor, rule: Rule, signal: Callable[[], Tensor] | None = None) -> Gated:
        """Apply a rule to x [..., tokens, n], once when neighbours (q, k, v or gate, up) share both.

        `signal` gives what is scored instead of x.
        """
        if self._latest is None or self._latest[0] is not x or self._latest[1] is not rule:
            self._latest = (x, rule, self._gate(x, rule, None if signal is None else signal()))
        return self._latest[2]

    def _gate(self, x: Tensor, rule: Rule, signal: Tensor | None) -> Gated:
        real = None if self.real is None else self.real.to(x.device).reshape(x.shape[:-1])
        seen = x.numel() if real is None else real.sum() * x.shape[-1]
        dense = None if self.dense is None else self.dense.to(x.device).reshape(x.shape[:-1])
        gated, kept = rule.gate(x, dense, signal)
        if kept is None:
            return Gated(gated, seen, seen)
        return Gated(gated, (kept if real is None else kept * real).sum(), seen)


@dataclass(eq=False)
class Slice:
    """Rows of a linear layer that share one mask: one projection, or neighbours in a fused layer."""

    layer: int
    names: tuple[str, ...]
    """Canonical names of the projections whose inputs, or for CATS whose outputs, the mask counts for."""
    rows: Rows
    rule: Rule | None
    """None when the method leaves these rows dense."""
    low_rank: LowRank | None = None
    """What is added for the dropped inputs."""
    signal: Callable[[], Tensor] | None = None
    """Gives what is scored instead of the input, like it; None where the input is."""
    product: Callable[[Tensor], Tensor] | None = None
    """W_p x for few tokens x [..., n] after their gate, of which only the kept inputs' weights are read; None to
    multiply as ever."""
    decode: Decode | None = None
    """The same for few tokens before their gate, all real and none left dense; None where gate and product are not one
    step."""
    counts: Tensor | None = None
    """Inputs that a kernel kept and saw, int64 [any, 2], counted on its device, beside what is counted here."""
    _known: tuple[int, int] = 0, 0
    """Inputs kept and seen over real tokens, as far as Python knows the numbers."""
    _found: Tensor | None = None
    """The same, int64 [2], of masks counted on the layer's device: in place, so that a replayed CUDA graph counts."""

    def gate(self, x: Tensor, call: Call) -> Tensor:
        """x [..., tokens, n] after its gate; counts the mask."""
        if self.rule is None:
            return x
        gated = call.gate(x, self.rule, self.signal)
        self.count(gated.kept, gated.seen)
        return gated.x

    def count(self, kept: Tensor | int, seen: Tensor | int) -> None:
        """Add to what was kept and seen."""
        if not isinstance(kept, Tensor):
            assert not isinstance(seen, Tensor)  # a mask of real tokens makes both tensors
            self._known = self._known[0] + kept, self._known[1] + seen
            return
        if self._found is None:
            self._found = torch.zeros(2, dtype=torch.int64, device=kept.device)
        self._found[0].add_(kept)
        self._found[1].add_(seen)

    def counted(self) -> tuple[int, int]:
        """(kept, seen) in all."""
        kept, seen = self._known
        for counts in (self.counts, self._found):
            if counts is not None:
                more, all_of_them = counts.view(-1, 2).sum(0).tolist()
                kept, seen = kept + more, seen + all_of_them
        return kept, seen

    def reset_counts(self) -> None:
        """Start counting anew."""
        self._known = 0, 0
        for counts in (self.counts, self._found):
            if counts is not None:
                counts.zero_()


class GatedForward:
    """Stands in for `linear.forward`: y = W_p x_p + L_p (x - x_p) + b_p for each slice p of its rows, with x_p the
    input after its gate and L_p the low-rank part, if there is one."""

    def __init__(self, linear: nn.Linear, slices: list[Slice], call: Call) -> None:
        self.linear = linear
        self.slices = slices
        self.call = call
        self._own = linear.__dict__.get("forward")
        """A forward set on the instance before this one, as device placement does; usually None."""
        self._dense = linear.forward
        if isinstance(self._own, GatedForward):
            raise RuntimeError("the model is gated already; detach its gates first")

    @property
    def is_placed(self) -> bool:
        """Whether the layer has a forward of its own, which may fetch its weight from elsewhere."""
        return self._own is not None

    def install(self) -> None:
        """Put this in the place of the layer's forward."""
        self.linear.forward = self  # type: ignore[assignment,method-assign]  # the instance attribute hides the class's method

    def remove(self) -> None:
        """Give the layer its own forward back, if this is still in its place."""
        if self.linear.__dict__.get("forward") is self:
            del self.linear.forward
            if self._own is not None:
                self.linear.forward = self._own

    def __call__(self, x: Tensor) -> Tensor:
        """x [..., tokens, n] -> y [..., tokens, m]."""
        if not self.call.enabled:
            return self._dense(x)
        if len(self.slices) == 1:
            (part,) = self.slices
            y = _decoded(part, x, self.call, self.linear.bias)
            if y is not None:
                return y
            gated = part.gate(x, self.call)
            y = _multiplied(part, gated, self.linear.bias)
            return _compensated(self._dense(gated) if y is None else y, part, x, gated)
        weight, bias = self.linear.weight, self.linear.bias
        y = torch.empty(*x.shape[:-1], len(weight), dtype=x.dtype, device=x.device)
        for part in self.slices:
            own_bias = None if bias is None else bias[part.rows]
            own = _decoded(part, x, self.call, own_bias)
            if own is None:
                gated = part.gate(x, self.call)
                own = _multiplied(part, gated, own_bias)
                if own is None:
                    own = functional.linear(gated, weight[part.rows], own_bias)
                own = _compensated(own, part, x, gated)
            y[..., part.rows] = own
        return y


def _decoded(part: Slice, x: Tensor, call: Call, bias: Tensor | None) -> Tensor | None:
    """W_p x_p + b_p by a kernel that gates as well; None where there is none for such an x."""
    if part.decode is None or call.real is not None or call.dense is not None or not _are_few(x):
        return None
    found = part.decode(x)
    if found is None:
        return None
    y, kept = found
    if kept is not None:
        part.count(kept, x.numel())
    return y if bias is None else y + bias


def _multiplied(part: Slice, gated: Tensor, bias: Tensor | None) -> Tensor | None:
    """W_p x_p + b_p by a kernel; None where there is none for such an x."""
    if part.product is None or not _are_few(gated):
        return None
    y = part.product(gated)
    return y if bias is None else y + bias


def _are_few(x: Tensor) -> bool:
    return 0 < x.numel() <= MOST_ROWS * x.shape[-1]


def _compensated(y: Tensor, part: Slice, x: Tensor, gated: Tensor) -> Tensor:
    return y if part.low_rank is None or gated is x else y + part.low_rank(x - gated)
