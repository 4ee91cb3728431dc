"""Rotation by symmetric eigendecompositions, against the full singular value decompositions of the published transform,
on a random Llama of hidden size 1024.

Expected: V of W g is found from W^T W in d^3 instead of m^2 n operations and without U, some nine times faster for each
basis, so `per_site` takes at most a fifth of the peer's time and `global`, with one decomposition, less. Logits deviate
alike.

The bar is missed at this size, because the peer's weight products in float64 alone take a third of its time. Float32
products of float32 weights would be faster, but move the logits four times as far, and bases would depend on the
machine.

The peer is the published transform's route, a full singular value decomposition for every basis: for each decoder layer
the right singular vectors of k_proj become the basis of the attention's input, those of gate_proj the MLP's (WINA's
paper, appendix "Orthogonal Tensor Transformation"; the authors' code calls torch.linalg.svd with full matrices).
Weights are multiplied whole in float64, as in SliceGPT. Left out: inexact steps of the released code (it subtracts the
embedding's mean and rounds twice) and its garbage collections.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import partial

import torch
from comparing import Contender, Facts, TimingComparison, compare
from random_models import TOY, Size, random_llama
from torch import Tensor

from wina_core.compute.models.architectures import view
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.logits import probe_logits, relative_deviation
from wina_core.compute.models.shortcuts import set_shortcuts
from wina_core.compute.models.view import LayerView, ModelView
from wina_core.compute.reporter import NullReporter
from wina_core.compute.rotation.apply import apply_bases
from wina_core.compute.rotation.bases import choose_bases
from wina_core.specs import AS_RELEASED_ROTATION, RotationSpec

SIZE = Size(hidden=1024, intermediate=2816, layers=4, heads=16, kv_heads=4)
AT_MOST = 0.2
PEER = "full_svd"
Route = Callable[[ModelView], None]


def measure(toy: bool) -> list[TimingComparison]:
    """Measure in float32 and bfloat16 with two threads."""
    size, repetitions, count = (TOY, 1, 1) if toy else (SIZE, 3, 2)
    comparisons = []
    for dtype in (torch.float32, torch.bfloat16):
        loaded = random_llama(size, dtype)
        facts = {name: _facts(route, loaded) for name, route in ROUTES.items()}
        contenders = [
            Contender(name, partial(_ready, route, loaded), None if name == PEER else AT_MOST)
            for name, route in ROUTES.items()
        ]
        setting: Facts = {**size.facts, "dtype": str(dtype).removeprefix("torch."), "threads": count}
        comparisons.append(compare(contenders[0], contenders[1:], repetitions, setting, facts))
    return comparisons


@contextmanager
def _ready(route: Route, loaded: LoadedModel) -> Iterator[partial[None]]:
    yield partial(route, view(deepcopy(loaded.model)))


def _facts(route: Route, loaded: LoadedModel) -> Facts:
    rows = torch.randint(len(loaded.tokenizer), (2, 64), generator=torch.Generator().manual_seed(0))
    model = deepcopy(loaded.model)
    route(view(model))
    return {"logits_deviation": relative_deviation(probe_logits(view(model), rows), probe_logits(loaded.view, rows))}


@torch.no_grad()
def rotate_by_full_svd(view: ModelView) -> None:
    """Rotate an untied model with pre-norms and plain gains in place, with shortcuts around attention and MLP."""
    shortcuts: dict[str, Tensor] = {}
    bases = [(_basis(layer, "k", layer.attention_norm), _basis(layer, "gate", layer.mlp_norm)) for layer in view.layers]
    incoming = bases[0][0]
    view.embedding.weight.copy_(view.embedding.weight.double() @ incoming)
    for layer, (attention, mlp) in zip(view.layers, bases, strict=True):
        last = layer.index + 1 == len(view.layers)
        outgoing = mlp if last else bases[layer.index + 1][0]
        for names, norm, basis in (
            (("q", "k", "v"), layer.attention_norm, attention),
            (("gate", "up"), layer.mlp_norm, mlp),
        ):
            for name in names:
                _weight(layer, name).copy_((_weight(layer, name).double() * _gain(norm)) @ basis)
            _gain(norm).fill_(1)
        for name, basis in (("o", mlp), ("down", outgoing)):
            _weight(layer, name).copy_(basis.T @ _weight(layer, name).double())
        shortcuts[f"layers.{layer.index}.attention"] = attention.T @ mlp
        if not last:
            shortcuts[f"layers.{layer.index}.mlp"] = mlp.T @ outgoing
    head = view.head.weight
    head.copy_((head.double() * _gain(view.final_norm)) @ outgoing)
    _gain(view.final_norm).fill_(1)
    set_shortcuts(view, shortcuts)


def _basis(layer: LayerView, name: str, norm: torch.nn.Module) -> Tensor:
    """Return V of the full SVD of W g, float64 [d, d]."""
    vt: Tensor = torch.linalg.svd(_weight(layer, name).double() * _gain(norm), full_matrices=True).Vh
    return vt.T


def _weight(layer: LayerView, name: str) -> Tensor:
    return layer.projections[name].linear.weight  # type: ignore[no-any-return]


def _gain(norm: torch.nn.Module) -> Tensor:
    return norm.weight  # type: ignore[return-value]  # a parameter


def ours(spec: RotationSpec) -> Route:
    """Return the part of `wina_core.compute.rotation.rotate` between its measurements, for bases from weights alone."""
    return lambda view: apply_bases(view, choose_bases(view, spec, None, NullReporter()), NullReporter())


ROUTES: dict[str, Route] = {
    PEER: rotate_by_full_svd,
    "per_site (k, gate)": ours(AS_RELEASED_ROTATION),
    "global": ours(RotationSpec(attention_basis=("qkv",), mlp_basis=("gate_up",), per_head=False)),
    "global + heads": ours(RotationSpec(attention_basis=("qkv",), mlp_basis=("gate_up",))),
}
"""The second computes the peer's own bases, up to what is arbitrary in them; the others are free at run time."""
