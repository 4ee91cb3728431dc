"""Column norms of matrices, which weigh their inputs' scores, and inputs of a model that carry them.

x' = c x and W' = W / c leave every W x unchanged, and |x'_i| alone is WINA's score |x_i| ||W[:, i]||. A norm's gain
carries c for q, k, v and for gate, up; the rows of up for down; the rows of v, equal within a group of heads, for o.
Norms are computed once while the weights stay.
"""

from __future__ import annotations

import weakref
from collections.abc import Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from wina_core.compute.models.mapped import tensor_state
from wina_core.compute.models.norms import norm_gain, set_norm_gain
from wina_core.compute.models.view import LayerView, ModelView, Projection
from wina_core.errors import WinaError
from wina_core.model_info.folding import foldable_names
from wina_core.specs import FoldNorms
from wina_core.specs.methods.base import BLOCKS

if TYPE_CHECKING:
    from torch import nn


_BLOCK = 512
"""Rows of a weight scaled at a time."""
_LEAST = 2.0**-14
"""Smallest factor, relative to the largest: columns of zeros, whose inputs come last in any case, stay finite."""
_PRODUCER = {("o",): "v", ("down",): "up"}
"""The projection whose rows carry the norms of these inputs; the others' are in the gain of a norm."""
_PREFIX = "folded_norms_"


def folded_norms(layer: LayerView, name: str) -> Tensor | None:
    """Return c [n] that a projection's input was multiplied by; None if it was not."""
    block = next(block for block in _blocks(layer) if name in block)
    factors: Tensor | None = getattr(layer.module, _PREFIX + block[0], None)
    return factors


def unfolded_column_norms(layer: LayerView, name: str) -> Tensor:
    """Return the column norms [n] of W, the rows of up and v without the factors of down's and o's inputs."""
    return kept_column_norms(layer.projections[name], _row_factors(layer, name))


def unfolded_weight(layer: LayerView, name: str) -> Tensor:
    """Return W [m, n], the rows of up and v without the factors of down's and o's inputs."""
    weight, rows = layer.projections[name].weight.detach(), _row_factors(layer, name)
    return weight if rows is None else weight / rows[:, None]


def has_stream_gains(view: ModelView) -> bool:
    """Return whether q, k, v and gate, up read the outputs of two norms with a gain each."""
    norms: list[Any] = [view.layers[0].attention_norm, view.layers[0].mlp_norm]
    return norms[0] is not norms[1] and all(getattr(norm, "weight", None) is not None for norm in norms)


def foldable(view: ModelView, choice: FoldNorms) -> tuple[str, ...]:
    """Return the projections whose norms that choice folds in this model."""
    return foldable_names(
        view.projections,
        view.heads,
        view.kv_heads,
        stream_gains=has_stream_gains(view),
        choice=choice,
        experts=view.has_experts,
    )


@torch.no_grad()
def fold_norms(view: ModelView, names: Collection[str]) -> None:
    """Fold the norms of the named projections into their inputs, in place; a block is folded whole.

    The norms of all blocks are those before any is folded, so that no mask depends on the others.
    """
    for layer in view.layers:
        blocks = [block for block in _blocks(layer) if block[0] in names]
        norms = [_joint_norms(view, layer, block) for block in blocks]
        for block, norm in zip(blocks, norms, strict=True):
            _store(view, layer, block, _scale(view, layer, block, norm))


@torch.no_grad()
def unfold_norms(view: ModelView) -> None:
    """Remove the norms from all inputs, in place."""
    for layer in view.layers:
        for block in _blocks(layer):
            factors = folded_norms(layer, block[0])
            if factors is not None:
                _scale(view, layer, block, 1 / factors)
                _store(view, layer, block, None)


def folded_names(view: ModelView) -> tuple[str, ...]:
    layer = view.layers[0]
    return tuple(name for name in layer.projections if folded_norms(layer, name) is not None)


def all_folded_norms(view: ModelView) -> dict[str, Tensor]:
    """Return c [n] of every folded input, on the CPU, by layer and first reader, such as "layers.3.gate"."""
    return {
        f"layers.{layer.index}.{block[0]}": factors.cpu()
        for layer in view.layers
        for block in _blocks(layer)
        if (factors := folded_norms(layer, block[0])) is not None
    }


def set_folded_norms(view: ModelView, norms: Mapping[str, Tensor]) -> None:
    """Declare the norms in a folded model's inputs, named as by `all_folded_norms`; WinaError if they do not fit."""
    by_name = {f"layers.{layer.index}.{block[0]}": (layer, block) for layer in view.layers for block in _blocks(layer)}
    for name, factors in norms.items():
        layer, block = by_name.get(name, (None, ()))
        if layer is None or factors.shape != layer.projections[block[0]].shape[1:] or not bool((factors > 0).all()):
            raise WinaError(f"The folded norms {name} do not fit this model; export the rotated model again.")
        _store(view, layer, block, factors.to(layer.projections[block[0]].linear.weight.device))


def _row_factors(layer: LayerView, name: str) -> Tensor | None:
    factors: Tensor | None = getattr(layer.module, f"{_PREFIX}rows_{name}", None)
    return factors


def _blocks(layer: LayerView) -> list[tuple[str, ...]]:
    """Return the projections that read the same input, present ones alone."""
    blocks = (tuple(name for name in block if name in layer.projections) for block in BLOCKS)
    return [block for block in blocks if block]


def _joint_norms(view: ModelView, layer: LayerView, block: tuple[str, ...]) -> Tensor:
    """Return the root of the sum of the block's squared column norms, [n], positive, equal where heads share v."""
    weights = [layer.projections[name].weight for name in block]
    squares = torch.stack([column_norms(weight).double().square() for weight in weights]).sum(0)
    if block == ("o",):
        grouped = squares.view(view.kv_heads, -1, view.head_dim)
        squares = grouped.mean(1, keepdim=True).expand_as(grouped).flatten()
    norms = squares.sqrt()
    largest = float(norms.max())
    norms = norms.clamp(min=_LEAST * largest) if largest > 0 else torch.ones_like(norms)
    return norms.to(torch.promote_types(weights[0].dtype, torch.float32))


def _scale(view: ModelView, layer: LayerView, block: tuple[str, ...], factors: Tensor) -> Tensor:
    """Multiply the block's input by factors [n] and divide its columns by them; return the factors as stored."""
    if block in _PRODUCER:
        producer = layer.projections[_PRODUCER[block]]
        _scale_rows(producer, _row_scales(view, block, factors))
    else:
        factors = _scale_norm(layer.attention_norm if "q" in block else layer.mlp_norm, factors)
    for linear in dict.fromkeys(layer.projections[name].linear for name in block):
        for rows in linear.weight.split(_BLOCK):
            rows.copy_(rows.double() / factors)
    return factors


def _scale_norm(norm: Any, factors: Tensor) -> Tensor:
    """Multiply a norm's gain and bias by factors; return them as rounded in the gain, 1 where that would vanish."""
    gain = norm_gain(norm).clone()
    set_norm_gain(norm, gain * factors)
    rounded = norm_gain(norm).clone()
    set_norm_gain(norm, torch.where(rounded == 0, gain, rounded))
    # Columns are divided by what the gain really holds, so that every product stays the same.
    factors = torch.where(rounded == 0, 1, rounded / gain).to(factors.dtype)
    if getattr(norm, "bias", None) is not None:
        norm.bias.copy_(norm.bias.double() * factors)
    return factors


def _scale_rows(projection: Projection, factors: Tensor) -> None:
    """Multiply the rows of a matrix, and its bias, by factors [m]."""
    weight, bias, linear = projection.weight, projection.bias, projection.linear
    for rows, row_factors in zip(weight.split(_BLOCK), factors.split(_BLOCK), strict=True):
        rows.copy_(rows.double() * row_factors[:, None])
    linear.weight[projection.rows] = weight  # it is a copy where the rows are indices
    if bias is not None:
        linear.bias[projection.rows] = (bias.double() * factors).to(bias.dtype)


def _row_scales(view: ModelView, block: tuple[str, ...], factors: Tensor) -> Tensor:
    """Return the factors of the rows that make the input: those of v serve each group of heads."""
    if block == ("down",):
        return factors
    return factors.view(view.kv_heads, -1, view.head_dim)[:, 0].flatten()


def _store(view: ModelView, layer: LayerView, block: tuple[str, ...], factors: Tensor | None) -> None:
    """Keep the factors of a block, and those of the rows that make its input, with the layer but out of the files of
    its weights."""
    keep = partial(layer.module.register_buffer, persistent=False)
    keep(_PREFIX + block[0], factors)
    if block in _PRODUCER:
        keep(f"{_PREFIX}rows_{_PRODUCER[block]}", None if factors is None else _row_scales(view, block, factors))


_NORMED_BLOCK = 1 << 16
"""Numbers converted at a time (at least a column's): larger freed blocks fragment memory, by up to a fifth of a
model."""
_ROUND = 32
"""Blocks are multiples of this many columns: torch sums whole cache lines alike, single columns otherwise."""


def column_norms(weight: Tensor) -> Tensor:
    """Return c_i = ||W[:, i]||_2 of W [m, n], [n] in at least float32.

    On the CPU, 16-bit weights are converted block by block, to the same bits as all at once. An accelerator's order of
    summation depends on the number of columns, so it converts all at once.
    """
    exact = weight.detach()
    if exact.element_size() >= 4:
        return exact.norm(dim=0)
    if not exact.is_cpu:
        return exact.float().norm(dim=0)
    m, n = exact.shape
    columns = max(_ROUND, _NORMED_BLOCK // m // _ROUND * _ROUND)
    splits = tuple(range(columns, n - columns + 1, columns))
    norms = exact[0].float()
    for target, block in zip(norms.tensor_split(splits), exact.tensor_split(splits, dim=1), strict=True):
        target.copy_(block.float().norm(dim=0))
    return norms


_CACHE: weakref.WeakKeyDictionary[nn.Linear, dict[str, tuple[object, Tensor]]] = weakref.WeakKeyDictionary()
"""{linear layer: {projection: (state of the layer, norms)}}."""


def kept_column_norms(projection: Projection, rows: Tensor | None = None) -> Tensor:
    """Return a projection's `column_norms`, cached until its linear layer's tensors are written to or moved.

    `rows` [m] are factors that its rows were multiplied by, to be left out. Do not write to the result. Writes through
    `weight.data` go unnoticed, because torch does not count them.
    """
    linear = projection.linear
    # A quantized layer's weight is dequantized on every access; its buffers stay.
    state = [
        tensor_state(tensor) for tensor in (*linear.parameters(), *linear.buffers(), *([] if rows is None else [rows]))
    ]
    cached = _CACHE.setdefault(linear, {})
    if projection.name not in cached or cached[projection.name][0] != state:
        weight = projection.weight
        cached[projection.name] = state, column_norms(weight if rows is None else weight / rows[:, None])
    return cached[projection.name][1]
