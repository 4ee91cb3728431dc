"""The published transform's route, as the peer of ours: a full singular value decomposition for every basis.

For each decoder layer the right singular vectors of k_proj become the basis of the attention's input, those of
gate_proj the MLP's (WINA's paper, appendix "Orthogonal Tensor Transformation"; the authors' code calls torch.linalg.svd
with full matrices). Weights are multiplied whole in float64, as in SliceGPT. Left out: inexact steps of the released
code (it subtracts the embedding's mean and rounds twice) and its garbage collections.
"""

import torch
from torch import Tensor

from wina_core.compute.models.shortcuts import set_shortcuts
from wina_core.compute.models.view import LayerView, ModelView


@torch.no_grad()
def rotate_by_full_svd(view: ModelView) -> None:
    """Rotate an untied model with pre-norms and plain gains in place, with shortcuts around attention and MLP."""
    shortcuts: dict[str, Tensor] = {}
    bases = [(_basis(layer, "k", layer.attention_norm), _basis(layer, "gate", layer.mlp_norm)) for layer in view.layers]
    incoming = bases[0][0]
    _set(view.embedding.weight, view.embedding.weight.double() @ incoming)
    for layer, (attention, mlp) in zip(view.layers, bases, strict=True):
        last = layer.index + 1 == len(view.layers)
        outgoing = mlp if last else bases[layer.index + 1][0]
        _rotate_inputs(layer, ("q", "k", "v"), layer.attention_norm, attention)
        _rotate_output(layer, "o", mlp)
        _rotate_inputs(layer, ("gate", "up"), layer.mlp_norm, mlp)
        _rotate_output(layer, "down", outgoing)
        shortcuts[f"layers.{layer.index}.attention"] = attention.T @ mlp
        if not last:
            shortcuts[f"layers.{layer.index}.mlp"] = mlp.T @ outgoing
    head = view.head.weight
    _set(head, (head.double() * _gain(view.final_norm)) @ outgoing)
    _set(view.final_norm.weight, torch.ones(1))
    set_shortcuts(view, shortcuts)


def _basis(layer: LayerView, name: str, norm: torch.nn.Module) -> Tensor:
    """Return V of the full SVD of W g, float64 [d, d]."""
    folded = layer.projections[name].weight.double() * _gain(norm)
    basis: Tensor = torch.linalg.svd(folded, full_matrices=True).Vh.T
    return basis


def _rotate_inputs(layer: LayerView, names: tuple[str, ...], norm: torch.nn.Module, basis: Tensor) -> None:
    for name in names:
        weight = layer.projections[name].linear.weight
        _set(weight, (weight.double() * _gain(norm)) @ basis)
    _set(norm.weight, torch.ones(1))


def _rotate_output(layer: LayerView, name: str, basis: Tensor) -> None:
    weight = layer.projections[name].linear.weight
    _set(weight, basis.T @ weight.double())


def _gain(norm: torch.nn.Module) -> Tensor:
    weight = norm.weight
    assert isinstance(weight, Tensor)
    return weight.double()


def _set(weight: object, value: Tensor) -> None:
    assert isinstance(weight, Tensor)
    weight.copy_(value)
