"""The bases that a RotationSpec asks for, computed from the model and, where it says so, from a text."""

from collections.abc import Iterator
from itertools import repeat
from typing import Any

import torch
from torch import Tensor

from wina_core.models.view import LayerView, ModelView
from wina_core.reporting import Reporter
from wina_core.rotation.apply import LayerBases
from wina_core.rotation.bases import canonical_basis, trace_normalized
from wina_core.rotation.statistics import Moments, dense_moments, head_grams, weight_gram
from wina_core.specs import RotationSpec

_PROJECTIONS = {"k": ("k",), "qkv": ("q", "k", "v"), "gate": ("gate",), "gate_up": ("gate", "up")}
"""Basis name -> the projections whose Gram matrices it sums."""


def needs_text(spec: RotationSpec) -> bool:
    """Whether the bases depend on activations."""
    return spec.mode != "none" and "activations" in (*spec.attention_basis, *spec.mlp_basis)


def choose_bases(
    view: ModelView, spec: RotationSpec, tokens: Tensor | None, reporter: Reporter
) -> Iterator[LayerBases]:
    """The bases layer by layer; `tokens` [rows, sequence] is needed where `needs_text(spec)`.

    `global` sees every layer of the dense model before it gives the first basis; the other modes look at a layer
    only when its bases are taken, so that the layers before it may be rotated by then.
    """
    moments: Iterator[Moments | None] = repeat(None)
    if needs_text(spec) and tokens is not None:
        moments = dense_moments(view, tokens, reporter)
    layers = zip(view.layers, moments, strict=False)
    if spec.mode == "global":
        yield from _one_basis(view, spec, layers, reporter)
        return
    for layer, moment in layers:
        heads = _head_bases(view, layer) if spec.per_head else None
        if spec.mode == "none":
            yield LayerBases(heads=heads)
            continue
        attention, mlp = _site_grams(layer, spec, moment)
        if spec.mode == "per_layer":
            basis = canonical_basis(*(attention + mlp))
            yield LayerBases(basis, basis, heads)
        else:
            yield LayerBases(canonical_basis(*attention), canonical_basis(*mlp), heads)


def _one_basis(view: ModelView, spec: RotationSpec, layers: Any, reporter: Reporter) -> Iterator[LayerBases]:
    """One basis for the stream, from the sum over all sites."""
    d = view.hidden_size
    total = torch.zeros(2, d, d, dtype=torch.float64, device=view.embedding.weight.device)
    for layer, moment in layers:
        for grams in _site_grams(layer, spec, moment):
            total += grams
        reporter.progress(layer.index + 1, len(view.layers), "layers", "measuring")
        reporter.check()
    basis = canonical_basis(*total)
    for layer in view.layers:
        yield LayerBases(basis, basis, _head_bases(view, layer) if spec.per_head else None)


def _site_grams(layer: LayerView, spec: RotationSpec, moment: Moments | None) -> tuple[Tensor, Tensor]:
    """For the attention and the MLP inputs: [2, d, d], the sum that the spec names and, to decide where that one is
    degenerate, the Gram matrix of all that reads the site."""
    return (
        _grams(layer, spec.attention_basis, "qkv", layer.attention_norm, moment.attention if moment else None),
        _grams(layer, spec.mlp_basis, "gate_up", layer.mlp_norm, moment.mlp if moment else None),
    )


def _grams(layer: LayerView, names: tuple[str, ...], whole: str, norm: Any, moment: Tensor | None) -> Tensor:
    parts = {name: weight_gram(layer, _PROJECTIONS[name], norm) for name in {*names, whole} - {"activations"}}
    if moment is not None:
        parts["activations"] = moment
    normalized = {name: trace_normalized(gram) for name, gram in parts.items()}
    primary = torch.stack([normalized[name] for name in names]).sum(0)
    return torch.stack([primary, normalized[whole]])


def _head_bases(view: ModelView, layer: LayerView) -> Tensor:
    """[kv_heads, head_dim, head_dim]."""
    return torch.stack([canonical_basis(gram) for gram in head_grams(view, layer)])
