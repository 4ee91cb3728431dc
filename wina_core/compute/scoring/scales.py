"""The factors c that weigh the scores |x_i| c_i of a layer's inputs, from a method and the column norms."""

from collections.abc import Mapping, Sequence
from itertools import chain

import torch
from torch import Tensor

from wina_core.compute.models.folded_norms import folded_norms, unfolded_column_norms, unfolded_weight
from wina_core.compute.models.view import LayerView, ModelView
from wina_core.errors import WinaError
from wina_core.model_info.folding import reads_norms
from wina_core.specs import MethodSpec
from wina_core.specs.methods import METHOD_PLUGINS, get_method
from wina_core.specs.methods.base import BLOCKS, Method

Scales = dict[str, Tensor | None]


def check_experts(view: ModelView, method: MethodSpec) -> None:
    """Raise WinaError for a method with calibrated values of each input, on a Mixture of Experts."""
    if view.has_experts and (get_method(method).centring != "none" or method.correction == "mean"):
        raise WinaError(
            f"{method.label} replaces dropped inputs by calibrated values, which are not kept for each expert of this "
            "model; choose wina or teal without a correction."
        )


def scales_of(method: Method, layer: LayerView, rho: Mapping[str, float] | None = None) -> Scales:
    """Return c [n], at least float32, of each gated projection of a layer by canonical name; None is c = 1.

    Shared masks sum c_i^2 over the gated matrices that read the same input. Projections with the same input and the
    same object here share one mask wherever their targets agree. `rho` are the plan's shares of the mask by name.

    An input that carries its norms (`folded_norms`) gets the factors for the input without them, so that every method
    keeps its masks: None for the norms of all that read it, 1 / c for magnitude alone.

    Raises WinaError for a model without a projection that the method reads.
    """
    method.check_projections(layer.names)
    found: Scales = {}
    for whole in BLOCKS:
        block = tuple(name for name in whole if name in layer.projections)
        linears = {id(layer.projections[name].linear) for name in block}
        fused = len(block) > len(linears)
        carried = folded_norms(layer, block[0]) if block else None
        by_norms = {
            name: method.norms_of(name, block, fused=fused, rho=None if rho is None else rho[name])
            for name in block
            if method.gates(name)
        }
        if method.masks == "shared":
            by_norms = dict.fromkeys(by_norms, tuple(dict.fromkeys(chain.from_iterable(by_norms.values()))))
        made: dict[tuple[str, ...], Tensor | None] = {}
        for norms in set(by_norms.values()):
            if not reads_norms(method, block, norms, folded=carried is not None):
                made[norms] = None
            elif norms:
                made[norms] = _root_sum([_column_weights(method, layer, name) for name in norms])
            elif carried is not None:
                made[norms] = 1 / carried
        found |= {name: made[norms] for name, norms in by_norms.items()}
    return found


def _column_weights(method: Method, layer: LayerView, name: str) -> Tensor:
    """Return the method's own weights of a projection's columns, or else their norms."""
    if not method.has_column_weights:
        return unfolded_column_norms(layer, name)
    weight = unfolded_weight(layer, name)
    with METHOD_PLUGINS.blamed(method.name):
        found: Tensor = method.column_weights(weight)
        if found.shape != weight.shape[1:] or not bool((found >= 0).all() & found.isfinite().all()):
            raise ValueError(f"its column weights of {name} are not {weight.shape[1]} finite numbers of at least 0")
    return found.to(weight.device, torch.promote_types(weight.dtype, torch.float32))


def _root_sum(norms: Sequence[Tensor]) -> Tensor:
    """Return the root of the sum of the squares of `norms` [n]."""
    if len(norms) == 1:
        return norms[0]
    squares = norms[0].square()
    for scale in norms[1:]:
        squares = squares + scale.square()
    return squares.sqrt()
