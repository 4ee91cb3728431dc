"""Experts of a Mixture of Experts as ordinary linear layers, which rotations, gates and quantizers know.

transformers stores the experts of a layer as stacked parameters [experts, rows, columns]. Here each expert has linear
layers whose weights are views of these, so nothing is copied, and the state dict has the stacked names again.
"""

import threading
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from itertools import chain
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn

from wina_core.compute.models.quantized_linear import uncompiled


class _Call(threading.local):
    """An expert's call in progress in a thread."""

    positions: Tensor | None = None


# One for all experts: in a thread they are called one after the other.
_CALL = _Call()


class Expert(nn.Module):
    """One expert: y = W_down (act(W_gate x) * W_up x)."""

    def __init__(self, gate: nn.Linear, up: nn.Linear, down: nn.Linear, activation: nn.Module) -> None:
        super().__init__()
        self.gate_proj, self.up_proj, self.down_proj = gate, up, down
        self.act_fn = activation

    def forward(self, x: Tensor) -> Tensor:
        """Return y [tokens, d] of x [tokens, d]."""
        y: Tensor = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))
        return y

    @property
    def positions(self) -> Tensor | None:
        """Positions of the tokens of the call in progress among all of the layer's tokens, int64 [tokens]."""
        return _CALL.positions


class ClampedExpert(Expert):
    """An expert of gpt_oss: y = W_down ((clamp(W_up x) + 1) * act(W_gate x)), with biases."""

    def __init__(self, gate: nn.Linear, up: nn.Linear, down: nn.Linear, limit: float, alpha: float) -> None:
        super().__init__(gate, up, down, _ClampedSwish(limit, alpha))
        self.limit = limit

    def forward(self, x: Tensor) -> Tensor:
        """Return y [tokens, d] of x [tokens, d]."""
        up = self.up_proj(x).clamp(min=-self.limit, max=self.limit)
        y: Tensor = self.down_proj((up + 1) * self.act_fn(self.gate_proj(x)))
        return y


class _ClampedSwish(nn.Module):
    """z sigmoid(alpha z) of z = min(x, limit)."""

    def __init__(self, limit: float, alpha: float) -> None:
        super().__init__()
        self.limit, self.alpha = limit, alpha

    def forward(self, x: Tensor) -> Tensor:
        x = x.clamp(max=self.limit)
        return x * torch.sigmoid(x * self.alpha)


@dataclass(frozen=True)
class _Stack:
    """One of transformers' stacked parameters."""

    shape: torch.Size
    split: Callable[[Tensor], tuple[Tensor, ...]]
    """Function of the parameter that returns views of it, [experts, ...], for some of the linear layers' parameters."""
    members: tuple[tuple[str, str], ...]
    """These linear layers and their parameters: ("gate_proj", "weight")."""


class Experts(nn.ModuleList):
    """All experts of one layer: a replacement of transformers' module, with its eager arithmetic."""

    def __init__(self, stacked: nn.Module) -> None:
        """Share the parameters of transformers' experts, without a copy."""
        self._stacks = _stacks(stacked)
        parameters = {
            member: view.unbind()
            for name, stack in self._stacks.items()
            for member, view in zip(stack.members, stack.split(getattr(stacked, name).detach()), strict=True)
        }
        count = len(next(iter(parameters.values())))
        super().__init__(_expert(stacked, parameters, number) for number in range(count))

    @uncompiled
    def forward(self, hidden: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
        """Return the weighted sum of each token's experts, [tokens, d].

        Args:
            hidden: [tokens, d].
            chosen: Numbers of each token's experts, int64 [tokens, active].
            weights: Their weights, [tokens, active].
        """
        result = torch.zeros_like(hidden)
        for number in chosen.unique().tolist():
            column, positions = torch.where((chosen == number).T)
            _CALL.positions = positions
            y = self[number](hidden[positions]) * weights[positions, column, None]
            result.index_add_(0, positions, y.to(result.dtype))
        return result

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:  # type: ignore[override]  # its overloads in one
        """Return, or add to `destination`, the parameters by transformers' names; a copy only where they were moved.

        Experts with quantized layers have the names of their own layers.
        """
        linears = (
            getattr(expert, layer) for stack in self._stacks.values() for layer, _ in stack.members for expert in self
        )
        if any(type(linear) is not nn.Linear for linear in linears):
            return super().state_dict(*args, **kwargs)
        destination = kwargs.get("destination", args[0] if args else None)
        destination = {} if destination is None else destination
        for name, stack in self._stacks.items():
            member_tensors = [
                [getattr(getattr(expert, layer), kind) for expert in self] for layer, kind in stack.members
            ]
            destination[kwargs.get("prefix", "") + name] = _restacked(stack, member_tensors)
        return destination


def separate_experts(layer: nn.Module, path: str) -> Experts | None:
    """Replace transformers' experts at `path` of a decoder layer, unless that is done; None for a layer without."""
    parent_path, _, name = path.rpartition(".")
    parent = layer.get_submodule(parent_path)
    stacked = getattr(parent, name, None)
    if stacked is None or isinstance(stacked, Experts):
        return stacked
    experts = Experts(stacked)
    setattr(parent, name, experts)
    return experts


def compute_router_in_float64(router: nn.Module) -> None:
    """Make a router of a float64 model compute probabilities in float64, in place.

    transformers computes softmax and sigmoid of all experts in float32 whatever the model's dtype, and keeps the weight
    of ernie4_5_moe's router in it. A router with a bias (gpt_oss) needs none of this: it takes the softmax of the
    chosen logits, in their dtype.
    """
    router.double()
    if hasattr(router, "moe_statics"):
        router.forward = MethodType(_corrected_softmax_router, router)
    elif hasattr(router, "e_score_correction_bias"):
        router.forward = MethodType(_sigmoid_router, router)
    elif not hasattr(router, "bias"):
        router.forward = MethodType(_softmax_router, router)


def _softmax_router(self: Any, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Choose the experts of highest probability."""
    logits = nn.functional.linear(hidden.reshape(-1, hidden.shape[-1]), self.weight)
    weights, chosen = logits.softmax(-1).topk(self.top_k, dim=-1)
    if getattr(self, "norm_topk_prob", True):
        weights = weights / weights.sum(-1, keepdim=True)
    return logits, weights, chosen


def _corrected_softmax_router(self: Any, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Choose the experts of highest corrected probability (ernie4_5_moe)."""
    logits = nn.functional.linear(hidden, self.weight)
    probabilities = logits.softmax(-1)
    chosen = self.moe_statics(probabilities).topk(self.top_k, dim=-1).indices
    weights = probabilities.gather(-1, chosen)
    return logits, weights / weights.sum(-1, keepdim=True).clamp(min=self.norm_min), chosen


def _sigmoid_router(self: Any, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Choose the experts of highest corrected score within the groups whose best two have the highest sum."""
    logits = nn.functional.linear(hidden.reshape(-1, hidden.shape[-1]), self.weight)
    scores = logits.sigmoid()
    grouped = (scores + self.e_score_correction_bias).unflatten(-1, (self.num_group, -1))
    groups = grouped.topk(2, dim=-1).values.sum(-1).topk(self.topk_group, dim=-1).indices
    allowed = torch.zeros_like(grouped[..., 0], dtype=torch.bool).scatter(-1, groups, True)
    chosen = grouped.masked_fill(~allowed[..., None], -torch.inf).flatten(1).topk(self.top_k, dim=-1).indices
    weights = scores.gather(1, chosen)
    if self.norm_topk_prob:
        weights = weights / (weights.sum(-1, keepdim=True) + 1e-20)
    return logits, weights * self.routed_scaling_factor, chosen


def _stacks(stacked: Any) -> dict[str, _Stack]:
    """Return the stacked parameters by transformers' names, in its order."""
    layers = {"gate_up_proj": ("gate_proj", "up_proj"), "down_proj": ("down_proj",)}
    stacks = {}
    for name, parameter in stacked.named_parameters():
        kind = "bias" if name.endswith("_bias") else "weight"
        members = tuple((layer, kind) for layer in layers[name.removesuffix("_bias")])
        stacks[name] = _Stack(parameter.shape, partial(_split, stacked, len(members), kind), members)
    return stacks


def _split(stacked: Any, count: int, kind: str, whole: Tensor) -> tuple[Tensor, ...]:
    """Return the rows [experts, rows, ...] of `count` layers, which lie one after the other or alternate."""
    rows = whole.mT if stacked.is_transposed and kind == "weight" else whole
    if stacked.is_concatenated:
        return tuple(rows.chunk(count, dim=1))
    return tuple(rows[:, offset::count] for offset in range(count))


def _expert(stacked: Any, parameters: dict[tuple[str, str], tuple[Tensor, ...]], number: int) -> Expert:
    gate, up, down = (
        _linear(parameters[name, "weight"][number], parameters[name, "bias"][number] if stacked.has_bias else None)
        for name in ("gate_proj", "up_proj", "down_proj")
    )
    if hasattr(stacked, "limit"):
        return ClampedExpert(gate, up, down, stacked.limit, stacked.alpha)
    # A copy each, since gates hook the activation of one expert and must not see those of the others.
    return Expert(gate, up, down, deepcopy(stacked.act_fn))


def _linear(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    # On the meta device, since the weight that it makes is replaced.
    linear = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, device="meta")
    linear.weight = nn.Parameter(weight, requires_grad=False)
    if bias is not None:
        linear.bias = nn.Parameter(bias, requires_grad=False)
    return linear


def _restacked(stack: _Stack, member_tensors: Sequence[Sequence[Tensor]]) -> Tensor:
    """Return the stacked parameter: the memory of its parts where they still lie in it, or else a copy."""
    first = member_tensors[0][0]
    strides = torch.empty(stack.shape, device="meta").stride()
    end = first.storage_offset() + stack.shape.numel()
    if first.untyped_storage().nbytes() >= end * first.element_size():
        whole = first.detach().as_strided(stack.shape, strides)
        views = [view.unbind() for view in stack.split(whole)]
        if all(map(_is_same, chain(*views), chain(*member_tensors))):
            return whole
    whole = first.new_empty(stack.shape)
    for view, tensors in zip(stack.split(whole), member_tensors, strict=True):
        for slot, tensor in zip(view.unbind(), tensors, strict=True):
            slot.copy_(tensor.detach())
    return whole


def _is_same(view: Tensor, tensor: Tensor) -> bool:
    return view.data_ptr() == tensor.data_ptr() and view.stride() == tensor.stride() and view.shape == tensor.shape
