"""The factors c that weigh the scores |x_i| c_i of a layer's inputs, from a method and the column norms."""

from collections.abc import Mapping, Sequence

from torch import Tensor

from wina_core.compute.models.view import LayerView
from wina_core.compute.scoring.column_norms import kept_column_norms
from wina_core.methods.base import BLOCKS, Method

Scales = dict[str, Tensor | None]


def scales_of(method: Method, layer: LayerView, rho: Mapping[str, float] | None = None) -> Scales:
    """Return c [n], at least float32, of each gated projection of a layer by canonical name; None is c = 1.

    Shared masks sum c_i^2 over the gated matrices that read the same input. Projections with the same input and the
    same object here share one mask wherever their targets agree. `rho` are the plan's shares of the mask by name.
    Raises WinaError for a model without a projection that the method reads.
    """
    method.check_projections(layer.projections)
    found: Scales = {}
    for whole in BLOCKS:
        block = tuple(name for name in whole if name in layer.projections)
        linears = {id(layer.projections[name].linear) for name in block}
        fused = len(block) > len(linears)
        norms = {
            name: method.norms_of(name, block, fused=fused, rho=None if rho is None else rho[name])
            for name in block
            if method.gates(name)
        }
        made = {
            names: _root_sum([kept_column_norms(layer.projections[name]) for name in names])
            for names in set(norms.values())
        }
        own = {name: made[names] for name, names in norms.items()}
        found |= own if method.masks == "separate" else _shared(own)
    return found


def _shared(own: Scales) -> Scales:
    norms = [scale for scale in own.values() if scale is not None]
    return dict.fromkeys(own, _root_sum(norms, ones=len(own) - len(norms)))


def _root_sum(norms: Sequence[Tensor], ones: int = 0) -> Tensor | None:
    """Return the root of the sum of the squares of `norms` [n] and of that many ones; None where all are ones."""
    if not norms or (len(norms) == 1 and ones == 0):
        return norms[0] if norms else None
    squares = norms[0].square()
    for scale in norms[1:]:
        squares = squares + scale.square()
    return (squares + ones).sqrt()
