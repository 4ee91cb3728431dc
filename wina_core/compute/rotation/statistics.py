"""Gram matrices of folded weights and second moments of activations, from which bases are computed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from wina_core.compute.hooks import hooked
from wina_core.compute.models.norms import centres, norm_gain, normalized
from wina_core.compute.models.passes import layer_call
from wina_core.compute.models.view import LayerView, ModelView
from wina_core.compute.reporter import Reporter
from wina_core.compute.rotation.centring import centred_gram

_ROWS = 512
"""Rows of a weight held in float64 at a time."""
_COLUMNS = 256
"""Columns of a Gram matrix computed at a time."""


@dataclass
class Moments:
    """Sums of x x^T over the tokens of a text, float64, for one decoder layer of the dense model."""

    attention: Tensor
    """[d, d], x = attention_norm's output without its gain and bias."""
    mlp: Tensor
    """[d, d], x = mlp_norm's output, likewise."""


def weight_gram(layer: LayerView, names: Sequence[str], norm: nn.Module) -> Tensor:
    """Return the sum of (W g)^T (W g) over the named projections of the layer, float64 [d, d], with the norm's gain g;
    centred if the norm is."""
    weights = [layer.projections[name].weight for name in names if name in layer.projections]
    d = weights[0].shape[1]
    gram = torch.zeros(d, d, dtype=torch.float64, device=weights[0].device)
    for weight in weights:
        for rows in weight.split(_ROWS):
            _add_products(gram, rows.double())
    gram.triu_()
    gram += gram.triu(1).T
    gain = norm_gain(norm).to(gram)
    gram.mul_(gain[:, None]).mul_(gain)
    return centred_gram(gram) if centres(norm) else gram


def _add_products(gram: Tensor, block: Tensor) -> None:
    """Add block^T block to the upper triangle of gram; the rest mirrors it."""
    for start in range(0, len(gram), _COLUMNS):
        columns = block[:, start : start + _COLUMNS]
        gram[start : start + _COLUMNS, start:].addmm_(columns.T, block[:, start:])


def head_grams(view: ModelView, layer: LayerView) -> Tensor:
    """Return the Gram matrices of O's columns, summed over each key-value head's group, float64 [kv_heads, hd, hd]."""
    columns = layer.projections["o"].weight.double().unflatten(1, (view.kv_heads, -1, view.head_dim))
    return torch.einsum("dkgh,dkge->khe", columns, columns)


@torch.no_grad()
def dense_moments(view: ModelView, tokens: Tensor, reporter: Reporter) -> Iterator[Moments]:
    """Yield the moments of each decoder layer on `tokens` [rows, sequence], in order.

    All rows pass one layer before the next, so only that layer's moments and one copy of the hidden states are held. A
    layer may change once its moments were yielded.
    """
    device = view.embedding.weight.device
    layer_arguments = _layer_arguments(view, tokens[:1].to(device))
    hidden = [layer_call(view, 0, row.to(device))[0] for row in tokens.split(1)]
    for layer, arguments in zip(view.layers, layer_arguments, strict=True):
        d, at = view.hidden_size, layer.projections["o"].linear.weight.device
        moments = Moments(*(torch.zeros(d, d, dtype=torch.float64, device=at) for _ in range(2)))
        hooks = (
            norm.register_forward_pre_hook(partial(_add_moment, moment))
            for norm, moment in ((layer.attention_norm, moments.attention), (layer.mlp_norm, moments.mlp))
        )
        with hooked(hooks):
            for row, states in enumerate(hidden):
                hidden[row] = layer.module(states, **arguments)
                reporter.check()
        yield moments


def _layer_arguments(view: ModelView, row: Tensor) -> list[dict[str, Any]]:
    """Return the model's arguments to each decoder layer beside the hidden states: positions and the layer's mask."""
    arguments: list[dict[str, Any]] = []

    def record(_module: nn.Module, _args: Any, kwargs: dict[str, Any]) -> None:
        arguments.append(kwargs)

    hooks = [layer.module.register_forward_pre_hook(record, with_kwargs=True) for layer in view.layers]
    decoder: Any = view.model.base_model
    with hooked(hooks):
        decoder(row, use_cache=False)
    return arguments


def _add_moment(moment: Tensor, norm: nn.Module, args: tuple[Tensor]) -> None:
    x = normalized(norm, args[0].flatten(0, -2).double())
    moment.addmm_(x.T, x)
