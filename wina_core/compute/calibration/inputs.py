"""Collection of a model's projection inputs while it runs, each input once for all its readers.

Scores are counted in histograms of fixed size and fixed relative resolution, for any range.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from wina_core.compute.models.folded_norms import folded_norms
from wina_core.compute.models.logits import ScoredPositions
from wina_core.compute.models.view import LayerView
from wina_core.compute.scoring import GateActivation, scales_of
from wina_core.errors import WinaError
from wina_core.specs.methods import Method
from wina_core.specs.methods.base import BLOCKS
from wina_core.specs.plans import SparsityPlan, shares_of

Keys = Callable[[Tensor, Tensor | None], Tensor]
"""(x [tokens, n], c [n] or None) -> scores to compare with a threshold, like x and never negative."""


def signed_scores(x: Tensor, _scale: Tensor | None) -> Tensor:
    """Return max(x, 0): as many of these as of the signed values lie at or below any t >= 0. Infinities stay."""
    x = x.detach()
    return torch.where(x.isneginf(), -x, x.clamp(min=0)).abs()  # abs takes the sign off a zero


class ScoredGroup:
    """Projections of one site with equal scores: a histogram of their transformed scores |x_i - centre_i| * c_i."""

    def __init__(self, device: torch.device, scale: Tensor | None, keys: Keys) -> None:
        self.names: list[str] = []
        self.scale = scale
        """c [n]; None for 1."""
        self.histogram = ScoreHistogram(device)
        self._keys = keys

    def add(self, x: Tensor) -> None:
        """Count the scores of centred x [tokens, n]."""
        self.histogram.add(self._keys(x, self.scale))


class CalibrationSite:
    """One input of a decoder layer: scores of the gated projections that read it, and sampled tokens."""

    def __init__(
        self,
        layer: LayerView,
        linear: nn.Linear,
        scales: dict[str, Tensor | None],
        sampled: Tensor,
        keys: Keys,
        scored: ScoredPositions,
        signal: GateActivation | None = None,
    ) -> None:
        self.layer = layer
        self.linear = linear
        self.centre: Tensor | None = None
        """Centre subtracted before scoring, [n] in x's dtype, or None."""
        self.scoring = True
        self.signal = signal
        self._positions = scored
        self._sampled = sampled
        """Positions of the sampled tokens among the scored ones, int64, ascending."""
        self._tokens = 0
        self._kept: list[Tensor] = []
        self._kept_sources: list[Tensor] = []
        # `scales_of` returns one object for projections with equal scores: one histogram serves them.
        by_scale: dict[int, ScoredGroup] = {}
        for name, scale in scales.items():
            group = by_scale.setdefault(id(scale), ScoredGroup(linear.weight.device, scale, keys))
            group.names.append(name)
        self.scored = tuple(by_scale.values())

    @property
    def carried(self) -> Tensor | None:
        """The column norms that the input carries, [n]; None if it carries none, or another signal is scored."""
        return None if self.signal is not None else folded_norms(self.layer, self.scored[0].names[0])

    @property
    def sample(self) -> Tensor:
        """The sampled tokens, [tokens, n]; none of an expert that read none."""
        return torch.cat(self._kept) if self._kept else self.linear.weight.new_empty(0, self.linear.in_features)

    @property
    def source(self) -> Tensor:
        """The scored values of the sampled tokens, [tokens, n]: the centred input, or the signal."""
        if self.signal is not None and self._kept_sources:
            return torch.cat(self._kept_sources)
        return self.sample if self.centre is None else self.sample - self.centre

    def read(self, _: nn.Module, args: tuple[Any, ...]) -> None:
        """Collect x [batch, tokens, n]; a forward pre-hook of the site's first linear layer."""
        x = self._positions.rows(args[0].detach(), self.layer.module)
        source = x if self.signal is None else self._positions.rows(self.signal.pop().detach(), self.layer.module)
        if self.scoring:
            centred = source if self.centre is None else source - self.centre
            for group in self.scored:
                group.add(centred)
        # Positions count through the whole text, of which this batch begins at `_tokens`.
        positions = self._sampled.to(x.device) - self._tokens
        positions = positions[(positions >= 0) & (positions < len(x))]
        self._kept.append(x[positions])
        if self.signal is not None:
            self._kept_sources.append(source[positions])
        self._tokens += len(x)


def sites(
    whole: LayerView,
    method: Method,
    sampled: Tensor,
    keys: Keys,
    scored: ScoredPositions,
    shares: SparsityPlan | None = None,
) -> tuple[CalibrationSite, ...]:
    """Return the sites of a layer that the method gates, with those of its experts; `shares` is a plan with its own
    rho."""
    layer_sites = []
    for layer in whole.parts:
        scales = scales_of(method, layer, None if shares is None else shares_of(shares, layer.index))
        if method.by_gate_activation:
            if "down" not in layer.projections:
                continue
            linear = layer.projections["down"].linear
            layer_sites.append(CalibrationSite(layer, linear, scales, sampled, keys, scored, GateActivation(layer)))
            continue
        for names in BLOCKS:
            gated = {name: scales[name] for name in names if name in scales}
            if gated:
                layer_sites.append(
                    CalibrationSite(layer, layer.projections[next(iter(gated))].linear, gated, sampled, keys, scored)
                )
    return tuple(layer_sites)


def readers(sites: Iterable[CalibrationSite]) -> Iterator[Any]:
    return (site.linear.register_forward_pre_hook(site.read) for site in sites)


def sites_of_experts(sites: Sequence[CalibrationSite]) -> list[list[CalibrationSite]]:
    """Return the sites of each layer's experts by their input, in the experts' order."""
    by_input: dict[tuple[int, str], list[CalibrationSite]] = {}
    for site in sites:
        if site.layer.expert is not None:
            by_input.setdefault((site.layer.index, site.scored[0].names[0]), []).append(site)
    return list(by_input.values())


def check_finite(sites: Sequence[CalibrationSite]) -> None:
    """Raise WinaError, naming the first layer and projection, if a score was infinite or NaN."""
    groups = [(site.layer.index, group) for site in sites for group in site.scored]
    non_finite = [group.histogram.non_finite.cpu() for _, group in groups]
    if any(non_finite):
        layer, group = groups[[bool(count) for count in non_finite].index(True)]
        raise WinaError(
            f"The inputs of {group.names[0]} in layer {layer} are not finite; load the model in bfloat16 or float32, "
            "or check its weights."
        )


_BINS = 1 << 15
_INFINITE = 0x7F80
"""First bin of infinities and NaNs."""


class ScoreHistogram:
    """Counts of scores by the leading 16 bits of their float32 form: the exponent and 7 bits of mantissa.

    Neighbouring bins differ by at most 1/128 of their value over the whole range of float32. So constants, heavy tails
    and mixtures are resolved alike in 256 KiB for any number of scores.
    """

    def __init__(self, device: torch.device) -> None:
        self._counts = torch.zeros(_BINS, dtype=torch.int64, device=device)
        self._only_edges = True
        """Whether every score was a bfloat16 number, which lies on the lower edge of its bin."""

    def add(self, scores: Tensor) -> None:
        """Count non-negative scores of any shape and floating dtype."""
        # Of numbers that are not negative, float32 patterns are ordered like the numbers.
        bits = scores.detach().float().contiguous().view(torch.int32)
        self._counts += torch.bincount((bits >> 16).flatten(), minlength=_BINS)
        self._only_edges &= scores.dtype == torch.bfloat16

    @classmethod
    def merged(cls, histograms: Sequence["ScoreHistogram"]) -> "ScoreHistogram":
        """Return the histogram of the scores of all, at least one."""
        first = histograms[0]
        merged = cls(first._counts.device)
        for histogram in histograms:
            merged._counts += histogram._counts.to(merged._counts.device)
            merged._only_edges &= histogram._only_edges
        return merged

    @property
    def total(self) -> int:
        return int(self._counts.sum())

    @property
    def non_finite(self) -> Tensor:
        """Number of infinities and NaNs, int64 scalar on the device."""
        return self._counts[_INFINITE:].sum()

    def quantiles(self, fractions: Tensor) -> Tensor:
        """Return thresholds t, float32, such that about the given fractions (in [0, 1]) of the scores are at most t.

        Linear within a bin; the nearer edge if only bin edges occurred. Fraction 0 gives -1, below every score. A
        fraction among the zeros gives 0, because dropping a zero changes no output.
        """
        counts = self._counts.cpu()
        cumulative = counts.cumsum(0)
        ranks = fractions.to(torch.float64) * int(cumulative[-1])
        bins = torch.searchsorted(cumulative.to(torch.float64), ranks).clamp(max=_BINS - 1)
        inside = (ranks - (cumulative[bins] - counts[bins])) / counts[bins].clamp(min=1)
        if self._only_edges:
            thresholds = _lower_edge((bins - (inside < 0.5).long()).clamp(min=0))
        else:
            lower, upper = _lower_edge(bins), _lower_edge(bins + 1)
            thresholds = lower + (inside * (upper - lower)).float()
        return thresholds.masked_fill(bins == 0, 0.0).masked_fill(fractions <= 0, -1.0)


def _lower_edge(bins: Tensor) -> Tensor:
    return (bins << 16).to(torch.int32).view(torch.float32)
