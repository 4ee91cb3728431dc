"""Energy spectra of the inputs of gated matrices: how many directions hold most of their energy."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from wina_core.compute.models.norms import normalized
from wina_core.compute.models.passage import Passage, in_batches
from wina_core.compute.models.scored_positions import ScoredPositions
from wina_core.compute.models.view import LayerView, ModelView
from wina_core.compute.reporter import Reporter
from wina_core.records import SiteSpectrum
from wina_core.records.rotations import SPECTRUM_SITES, SpectrumSite

_POINTS = 24
"""Points of a cumulative spectrum, spaced evenly on a logarithmic axis."""


@torch.no_grad()
def energy_spectra(view: ModelView, tokens: Tensor, reporter: Reporter) -> tuple[SiteSpectrum, ...]:
    """Return the cumulative spectrum of the second moment of each gated input of the unrotated model on `tokens` [rows,
    sequence]: of the norms' outputs without gain, and of o's and down's inputs. Experts' inner inputs are left out."""
    moments: dict[SpectrumSite, Tensor] = {}
    scored = ScoredPositions.of(view, tokens)

    def hooks(layer: LayerView) -> Iterator[Any]:
        moments.clear()
        norms: tuple[tuple[SpectrumSite, nn.Module], ...] = (
            ("attention", layer.attention_norm),
            ("mlp", layer.mlp_norm),
        )
        for site, norm in norms:
            yield norm.register_forward_pre_hook(partial(_add_normalized, moments, scored, site))
        linears: tuple[SpectrumSite, ...] = ("o", "down")
        for site in linears:
            if site in layer.projections:
                yield layer.projections[site].linear.register_forward_pre_hook(partial(_add, moments, scored, site))

    found = []
    for layer in Passage(view, in_batches(tokens)).layers(reporter, hooks):
        for site in SPECTRUM_SITES:
            if site in moments:
                found.append(site_spectrum(layer.index, site, moments[site]))
                reporter.check()
        reporter.progress(layer.index + 1, len(view.layers), "layers", "spectra of the inputs")
    return tuple(found)


def site_spectrum(layer: int, site: SpectrumSite, moment: Tensor) -> SiteSpectrum:
    """Return the spectrum of a second moment [n, n] at about `_POINTS` counts of directions, those that hold half and
    90 % of the energy, and 90 % of it outside the first direction, among them."""
    values = torch.linalg.eigvalsh(moment).double().clamp(min=0).flip(0)
    shares = (values.cumsum(0) / values.sum().clamp(min=torch.finfo(values.dtype).tiny)).cpu()
    size = len(shares)
    first = float(shares[0])
    counts = {min(int((shares < share).sum()) + 1, size) for share in (0.5, 0.9, first + 0.9 * (1 - first))}
    counts |= {round(size ** (point / (_POINTS - 1))) for point in range(_POINTS)}
    directions = tuple(sorted(counts))
    cumulative = tuple(round(float(shares[count - 1]), 6) for count in directions)
    return SiteSpectrum(layer=layer, site=site, directions=directions, cumulative=cumulative)


def _add_normalized(
    moments: dict[SpectrumSite, Tensor],
    scored: ScoredPositions,
    site: SpectrumSite,
    norm: nn.Module,
    args: tuple[Tensor],
) -> None:
    _sum(moments, site, normalized(norm, scored.rows(args[0]).float()))


def _add(
    moments: dict[SpectrumSite, Tensor], scored: ScoredPositions, site: SpectrumSite, _: nn.Module, args: tuple[Tensor]
) -> None:
    _sum(moments, site, scored.rows(args[0]).float())


def _sum(moments: dict[SpectrumSite, Tensor], site: SpectrumSite, x: Tensor) -> None:
    gram = x.T @ x
    moments[site] = gram if site not in moments else moments[site].add_(gram)
