"""The orthogonal tensor transformation (paper, appendix, algorithm 1; SliceGPT's computational invariance).

With the norms' gains folded into the matrices that follow, a residual stream h may be replaced by h Q: matrices
that read it become W Q, matrices that write it become Q^T W, and between two bases it is carried by Q_in^T Q_out.
All arithmetic is in float64, on blocks of rows, and each weight is rounded to its dtype once.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from wina_core.models.shortcuts import Branch, set_shortcut
from wina_core.models.view import LayerView, ModelView
from wina_core.reporting import Reporter

_BLOCK = 512
"""Rows or columns of a weight that are held in float64 at a time."""


@dataclass(frozen=True)
class LayerBases:
    """The bases of one decoder layer, float64; None where it is not rotated."""

    attention: Tensor | None = None
    """[d, d], of the stream that attention_norm reads."""
    mlp: Tensor | None = None
    """[d, d], of the stream that mlp_norm reads."""
    heads: Tensor | None = None
    """[kv_heads, head_dim, head_dim], of the values."""


@torch.no_grad()
def apply_bases(view: ModelView, bases: Iterable[LayerBases], reporter: Reporter) -> None:
    """Rotate a model in place, layer by layer; `bases` has one entry a layer, taken just before it is needed."""
    stream: Tensor | None = None  # the basis in which the residual leaves the part that is done
    previous: LayerView | None = None
    for layer, basis in zip(view.layers, bases, strict=True):
        if basis.heads is not None:
            _rotate_heads(view, layer, basis.heads)
        if basis.attention is not None and basis.mlp is not None:
            if stream is None or previous is None:
                untie(view)
                _rotate_columns(view.embedding.weight, None, basis.attention)
            else:
                _rotate_write(previous, "mlp", stream, basis.attention)
            _rotate_reads(layer, ("q", "k", "v"), layer.attention_norm, basis.attention)
            _rotate_write(layer, "attention", basis.attention, basis.mlp)
            _rotate_reads(layer, ("gate", "up"), layer.mlp_norm, basis.mlp)
            stream, previous = basis.mlp, layer
        reporter.progress(layer.index + 1, len(view.layers), "layers", "rotating")
        reporter.check()
    if stream is not None and previous is not None:
        _rotate_write(previous, "mlp", stream, stream)
        _fold_and_rotate([view.head], view.final_norm, stream)


def untie(view: ModelView) -> None:
    """Give a tied head its own copy of the embedding, and tell the configuration so that nothing ties them again."""
    model: Any = view.model
    if view.head.weight is view.embedding.weight:
        view.head.weight = nn.Parameter(view.embedding.weight.clone(), requires_grad=False)
    model.config.tie_word_embeddings = False
    model.all_tied_weights_keys = model.get_expanded_tied_weights_keys(all_submodels=True)


def _rotate_reads(layer: LayerView, names: tuple[str, ...], norm: nn.Module, basis: Tensor) -> None:
    linears = {id(layer.projections[name].linear): layer.projections[name].linear for name in names}
    _fold_and_rotate(list(linears.values()), norm, basis)


def _fold_and_rotate(linears: list[nn.Linear], norm: Any, basis: Tensor) -> None:
    for linear in linears:
        _rotate_columns(linear.weight, norm.weight, basis)
    norm.weight.fill_(1.0)


def _rotate_columns(weight: Tensor, gain: Tensor | None, basis: Tensor) -> None:
    """W <- (W g) Q."""
    for rows in weight.split(_BLOCK):
        block = rows.double() if gain is None else rows.double() * gain.double()
        rows.copy_(block @ basis)


def _rotate_write(layer: LayerView, branch: Branch, incoming: Tensor, outgoing: Tensor) -> None:
    """W <- Q_out^T W of the matrix that ends a branch, b likewise; Q_in^T Q_out beside it where they differ."""
    linear = layer.projections["o" if branch == "attention" else "down"].linear
    for columns in linear.weight.split(_BLOCK, dim=1):
        columns.copy_(outgoing.T @ columns.double())
    if linear.bias is not None:
        linear.bias.copy_(outgoing.T @ linear.bias.double())
    if incoming is not outgoing and not torch.allclose(incoming, outgoing, rtol=0, atol=1e-12):
        set_shortcut(layer.module, branch, (incoming.T @ outgoing).to(linear.weight.dtype))


def _rotate_heads(view: ModelView, layer: LayerView, heads: Tensor) -> None:
    """W_v <- R^T W_v and b_v <- R^T b_v for each key-value head, W_o <- W_o R for the query heads that read it.

    Exact because attention is linear in the values.
    """
    v, o = layer.projections["v"], layer.projections["o"]
    values = v.weight.double().unflatten(0, (view.kv_heads, view.head_dim))
    v.weight.copy_((heads.mT @ values).flatten(0, 1))
    if v.linear.bias is not None:
        bias = v.linear.bias[v.rows]
        bias.copy_((heads.mT @ bias.double().view(view.kv_heads, view.head_dim, 1)).flatten())
    for rows in o.weight.split(_BLOCK):
        block = rows.double().unflatten(1, (view.kv_heads, -1, view.head_dim))
        rows.copy_(torch.einsum("dkgh,khe->dkge", block, heads).flatten(1))
