"""Gram matrices of folded weights and second moments of activations, from which bases are computed.

LayerNorm subtracts the mean, so its bases must keep the all-ones direction. With e = (1, ..., 1) / sqrt(d), it sees
h (I - e e^T), which commutes with every Q for which Q e = +-e: the rotated model keeps its LayerNorms, and any loader
runs it. (SliceGPT instead folds the centring into the weights and uses RMSNorm.) The price is one dimension of the
stream that Q cannot choose.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from wina_kernels.dense import multiply_in_float32

from wina_core.compute.models.logits import ScoredPositions
from wina_core.compute.models.norms import centres, norm_gain, normalized
from wina_core.compute.models.passage import Passage, in_batches
from wina_core.compute.models.view import LayerView, ModelView
from wina_core.compute.reporter import Reporter
from wina_core.compute.rotation.apply import LayerBases, bfloat16_gram, has_bfloat16_products

_ROUNDING = 1e-12


def centred_gram(gram: Tensor) -> Tensor:
    """Set G [d, d] to (I - e e^T) G (I - e e^T) in place: the part that a centred input can see."""
    gram -= gram.mean(0, keepdim=True)
    gram -= gram.mean(1, keepdim=True)
    return gram


def preserve_mean_of_layers(bases: Iterator[LayerBases]) -> Iterator[LayerBases]:
    """Yield the same bases, those of the stream turned by `preserve_mean`; shared objects stay shared."""
    latest: list[tuple[Tensor, Tensor]] = []  # (basis, turned basis): `apply_bases` compares bases by identity

    def turned(basis: Tensor | None) -> Tensor | None:
        if basis is None:
            return None
        for before, after in latest:
            if before is basis:
                return after
        latest[:] = [(basis, preserve_mean(basis))]
        return latest[0][1]

    for layer_bases in bases:
        yield replace(layer_bases, attention=turned(layer_bases.attention), mlp=turned(layer_bases.mlp))


def preserve_mean(basis: Tensor) -> Tensor:
    """Return Q R [d, d], R the rotation in one plane by the smallest angle for which Q R e = +-e.

    A basis with +-e among its columns only loses that the stream's mean lies in one coordinate, as LayerNorm subtracts
    it from all of them. A basis with Q e = +-e comes back unchanged.
    """
    d = basis.shape[0]
    image = basis.T @ basis.new_full((d,), d**-0.5)
    target = basis.new_full((d,), d**-0.5).copysign(image.sum())
    if float((image - target).detach().abs().max()) <= _ROUNDING:
        return basis
    # R^T = I - (a + b)(a + b)^T / (1 + a.b) + 2 b a^T takes the unit vector a to b and moves nothing off their plane.
    between = image + target
    turned = basis - torch.outer(basis @ between, between) / (1.0 + image @ target)
    return turned + 2.0 * torch.outer(basis @ image, target)


_ROWS = 512
"""Rows of a weight held in float64 at a time."""
_ROWS_OF_16_BITS = 4096
"""Rows of a weight whose products are summed in float32."""
_COLUMNS = 256
"""Columns of a Gram matrix computed at a time."""


@dataclass
class Moments:
    """Sums of x x^T over the scored tokens of a text, float64, for one decoder layer of the dense model."""

    attention: Tensor
    """[d, d], x = attention_norm's output without its gain and bias."""
    mlp: Tensor
    """[d, d], x = mlp_norm's output without its gain and bias."""


def weight_gram(layer: LayerView, names: Sequence[str], norm: nn.Module) -> Tensor:
    """Return the sum of (W g)^T (W g) over the named projections of the layer, float64 [d, d], with the norm's gain g;
    centred if the norm is. Of experts, all count alike."""
    weights = [projection.weight for projection in layer.matrices(names)]
    d = weights[0].shape[1]
    gram = torch.zeros(d, d, dtype=torch.float64, device=weights[0].device)
    for weight in weights:
        if has_bfloat16_products(weight):
            for rows in weight.split(_ROWS_OF_16_BITS):
                gram += multiply_in_float32(rows.T, rows)
            continue
        for rows in weight.split(_ROWS):
            _add_products(gram, rows.double())
    # Float64 products fill the upper triangle alone; mirrored, the matrix is exactly symmetric in every case.
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
def dense_moments(view: ModelView, tokens: Tensor, reporter: Reporter) -> Iterator[tuple[LayerView, Moments]]:
    """Yield each decoder layer, in order, with its moments on `tokens` [rows, sequence].

    Only one layer's moments are held (`Passage`); a layer may change once its moments were yielded.
    """
    held: list[Moments] = []
    scored = ScoredPositions.of(view, tokens)

    def hooks(layer: LayerView) -> Iterable[Any]:
        d, at = view.hidden_size, layer.projections["o"].linear.weight.device
        held.append(Moments(*(torch.zeros(d, d, dtype=torch.float64, device=at) for _ in range(2))))
        for norm, moment in ((layer.attention_norm, held[0].attention), (layer.mlp_norm, held[0].mlp)):
            yield norm.register_forward_pre_hook(partial(_add_moment, moment, scored))

    for layer in Passage(view, in_batches(tokens)).layers(reporter, hooks):
        yield layer, held.pop()


def _add_moment(moment: Tensor, scored: ScoredPositions, norm: nn.Module, args: tuple[Tensor]) -> None:
    stream = scored.rows(args[0])
    x = normalized(norm, stream.double())
    if has_bfloat16_products(stream):
        moment += bfloat16_gram(x)
    else:
        moment.addmm_(x.T, x)
