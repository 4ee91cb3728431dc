"""What the bases are computed from: Gram matrices of folded weights, and second moments of activations."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from wina_core.models.view import LayerView, ModelView
from wina_core.reporting import Reporter

_ROWS = 512
"""Rows of a weight that are held in float64 at a time."""


@dataclass
class Moments:
    """Sums of x x^T over the tokens of a text, float64, for one decoder layer of the dense model."""

    attention: Tensor
    """[d, d], x = what attention_norm gives q, k, v, without its gain."""
    mlp: Tensor
    """[d, d], x = what mlp_norm gives gate and up, without its gain."""


def weight_gram(layer: LayerView, names: Sequence[str], norm: Any) -> Tensor:
    """Sum of (W g)^T (W g) over the named projections, float64 [d, d], with the norm's gain g folded in."""
    first = layer.projections[names[0]].weight
    gram = torch.zeros(first.shape[1], first.shape[1], dtype=torch.float64, device=first.device)
    for name in names:
        for rows in layer.projections[name].weight.split(_ROWS):
            block = rows.double()
            gram.addmm_(block.T, block)
    gain = norm.weight.double()
    return gram.mul_(gain[:, None]).mul_(gain)


def head_grams(view: ModelView, layer: LayerView) -> Tensor:
    """Gram matrices of O's columns, summed over each key-value head's group, float64 [kv_heads, hd, hd]."""
    columns = layer.projections["o"].weight.double().unflatten(1, (view.kv_heads, -1, view.head_dim))
    return torch.einsum("dkgh,dkge->khe", columns, columns)


@torch.no_grad()
def dense_moments(view: ModelView, tokens: Tensor, reporter: Reporter) -> Iterator[Moments]:
    """The moments of each decoder layer on `tokens` [rows, sequence], in order.

    All rows go through one layer before any goes through the next, so only that layer's moments and one copy of
    the hidden states are held, and a layer may be changed once its moments were yielded.
    """
    device = view.embedding.weight.device
    layer_arguments = _layer_arguments(view, tokens[:1].to(device))
    hidden = [view.embedding(row.to(device)) for row in tokens.split(1)]
    for layer, arguments in zip(view.layers, layer_arguments, strict=True):
        with _Recorder(view, layer) as recorder:
            for row, states in enumerate(hidden):
                hidden[row] = layer.module(states, **arguments)
                reporter.check()
        yield recorder.moments


def _layer_arguments(view: ModelView, row: Tensor) -> list[dict[str, Any]]:
    """What the model passes to each decoder layer beside the hidden states: positions, and the layer's mask."""
    arguments: list[dict[str, Any]] = []

    def record(_module: nn.Module, _args: Any, kwargs: dict[str, Any]) -> None:
        arguments.append(kwargs)

    hooks = [layer.module.register_forward_pre_hook(record, with_kwargs=True) for layer in view.layers]
    decoder: Any = view.model.base_model
    try:
        decoder(row, use_cache=False)
    finally:
        for hook in hooks:
            hook.remove()
    return arguments


class _Recorder:
    """Accumulates a layer's moments while it runs."""

    def __init__(self, view: ModelView, layer: LayerView) -> None:
        d, device = view.hidden_size, view.embedding.weight.device
        self.moments = Moments(
            attention=torch.zeros(d, d, dtype=torch.float64, device=device),
            mlp=torch.zeros(d, d, dtype=torch.float64, device=device),
        )
        self._layer = layer

    def __enter__(self) -> "_Recorder":
        layer = self._layer
        self._hooks = [
            layer.attention_norm.register_forward_pre_hook(lambda m, x: _add_moment(self.moments.attention, m, x[0])),
            layer.mlp_norm.register_forward_pre_hook(lambda m, x: _add_moment(self.moments.mlp, m, x[0])),
        ]
        return self

    def __exit__(self, *_error: object) -> None:
        for hook in self._hooks:
            hook.remove()


def _add_moment(moment: Tensor, norm: Any, states: Tensor) -> None:
    x = states.flatten(0, -2).double()
    x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + norm.variance_epsilon)
    moment.addmm_(x.T, x)
