"""Planes of each input of the gated matrices: equally many, or more for inputs of more energy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil

import torch
from torch import Tensor, nn
from wina_kernels.planes import MOST_PLANES, PLANE_BITS, in_planes

from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.quantization.inputs import Site, mean_squares, output_sensitivities, sites_of
from wina_core.compute.reporter import Reporter
from wina_core.errors import WinaError
from wina_core.model_info.cost.bits import NUMBER_BITS, SCALE_BITS
from wina_core.specs import BitsPlan, QuantizationSpec

_BESIDE = SCALE_BITS + NUMBER_BITS
"""Bits of an input beside its planes, in each matrix."""


@dataclass(frozen=True, eq=False)
class PlaneSite:
    """Inputs that some linear layers share, and with which all of them have equally many planes."""

    linears: tuple[nn.Linear, ...]
    gains: Tensor
    """Divergence that each plane of an input saves for each bit, float64 [n, MOST_PLANES], nats; falling."""

    @property
    def outputs(self) -> int:
        """Return the outputs of all layers."""
        return sum(linear.out_features for linear in self.linears)


def plane_site(linears: Iterable[nn.Linear], squares: Tensor, sensitivities: dict[nn.Linear, Tensor]) -> PlaneSite:
    """Return the gains of a site's planes from E[x_i^2], [n], and the sensitivities of the layers' outputs.

    Without input i, the divergence grows by E_i = E[x_i^2] sum_j s_j W[j, i]^2 / 2, with only its first p planes by
    e_p E_i, where e_p is the relative squared error of the layers' weights in p planes.
    """
    chosen = tuple(linears)
    gains = torch.zeros(len(squares), MOST_PLANES, dtype=torch.float64)
    for linear in chosen:
        weight_t = linear.weight.detach().t().float()
        energy = squares * (weight_t.square() @ sensitivities[linear]) / 2
        gains += energy.double().cpu()[:, None] * torch.tensor(in_planes(weight_t, 1).gains, dtype=torch.float64)
    return PlaneSite(chosen, gains / (PLANE_BITS * sum(linear.out_features for linear in chosen)))


def share_planes(sites: Sequence[PlaneSite], bits: float) -> list[Tensor]:
    """Return the planes of each site's inputs, int64 [n], that save most and hold at most `bits` a weight in all.

    Scales and numbers of planes are left out. Every input has at least one plane. Raises WinaError below that.
    """
    costs = torch.cat([torch.full((site.gains.numel(),), float(site.outputs * PLANE_BITS)) for site in sites])
    gains = torch.cat([site.gains.flatten() for site in sites])
    first = torch.cat([(torch.arange(site.gains.numel()) % MOST_PLANES) == 0 for site in sites])
    order = torch.where(first, torch.inf, gains).argsort(descending=True, stable=True)
    held = costs[order].double().cumsum(0)
    budget = bits * sum(site.outputs * len(site.gains) for site in sites)
    if float(costs[first].double().sum()) > budget + 1e-6:
        raise WinaError(
            f"{bits:.3g} bits a weight are fewer than one plane of every input; allow {PLANE_BITS + 1} or more."
        )
    taken = torch.zeros(len(costs), dtype=torch.bool)
    taken[order] = held <= budget + 1e-6
    parts = taken.split([site.gains.numel() for site in sites])
    return [part.view(-1, MOST_PLANES).sum(1) for part in parts]


def planes_of_inputs(
    loaded: LoadedModel, spec: QuantizationSpec, plan: BitsPlan, tokens: Tensor | None, reporter: Reporter
) -> dict[nn.Linear, int | Tensor]:
    """Return the planes of the inputs of each gated layer with fewer than 16 bits: a number, or int64 [n] by energy.

    By energy, `tokens` [rows, sequence] are those of the spec's text, and bits include scales and numbers of planes.
    """
    cells = {
        linear: cell_bits(plan, layer.index, names[0])
        for layer in loaded.view.layers
        for site in sites_of(layer)
        for linear, names in site.linears.items()
    }
    if all(bits == 16 for bits in cells.values()):
        return {}
    if tokens is None:
        return {linear: int(bits) // PLANE_BITS for linear, bits in cells.items() if bits < 16}
    sensitivities = output_sensitivities(loaded.view, tokens, reporter)
    squares = mean_squares(loaded.view, tokens, reporter)
    sites = [site for layer in loaded.view.layers for site in sites_of(layer)]
    if isinstance(spec.bits, float):
        gains = [plane_site(site.linears, squares[_first(site)], sensitivities) for site in sites]
        weights = sum(site.inputs * site.outputs for site in sites)
        beside = sum(_BESIDE * site.inputs * len(site.linears) for site in sites)
        if spec.bits < (least := PLANE_BITS + beside / weights):
            raise WinaError(
                f"{spec.bits:.3g} bits a weight are fewer than one plane of every input with its scale; "
                f"allow {ceil(100 * least) / 100:.2f} or more."
            )
        shared = share_planes(gains, spec.bits - beside / weights)
        return {linear: own for site, own in zip(sites, shared, strict=True) for linear in site.linears}
    found: dict[nn.Linear, int | Tensor] = {}
    for site in sites:
        for linear in site.linears:
            if cells[linear] < 16:
                alone = plane_site([linear], squares[_first(site)], sensitivities)
                (found[linear],) = share_planes([alone], max(cells[linear] - _BESIDE / linear.out_features, PLANE_BITS))
    return found


def cell_bits(plan: BitsPlan, layer: int, name: str) -> float:
    """Return the bits of a projection."""
    return plan.bits[layer][plan.layout.projections.index(name)]


def _first(site: Site) -> nn.Linear:
    return next(iter(site.linears))
