"""Reverse water-filling of what gates read of a model's weights.

An input of score s costs about w s^2 in divergence if it is dropped, and e_p w s^2 if its first p planes are read. Here
w is the worth of its mask, from the sensitivities of the outputs, and e_p the relative squared error of the weights. At
one price of a bit for all masks and tokens of a model, every plane is read that saves its price. Weights that are not
in planes are one plane without an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from wina_kernels.planes import MOST_PLANES, PLANE_BITS
from wina_kernels.selection import scores

from wina_core.compute.gating.rules import Rule
from wina_core.compute.models.passage import Passage, in_batches
from wina_core.compute.models.plane_linear import PlaneLinear
from wina_core.compute.models.scored_positions import ScoredPositions
from wina_core.compute.models.view import LayerView, ModelView
from wina_core.compute.quantization.inputs import SAMPLED, output_sensitivities
from wina_core.compute.reporter import Reporter
from wina_core.model_info.cost.bits import SCALE_BITS

_OCTAVE = 32
"""Bins of a histogram for each doubling of the score."""
_LOWEST = -40
"""Base-2 logarithm of the lowest score that is told from 0."""
_BINS = 80 * _OCTAVE
_SQUARES = 4.0 ** ((torch.arange(_BINS, dtype=torch.float64) + 0.5) / _OCTAVE + _LOWEST)
"""Squares of the scores in the bins' middles."""
_WHOLE = 16
"""Bits of a weight that is not in planes; one price for all makes any number the same."""


@dataclass(eq=False)
class Mask:
    """Inputs of a layer that are gated together, and what was seen of them."""

    layer: int
    names: tuple[str, ...]
    rule: Rule
    linears: tuple[nn.Linear, ...]
    reader: nn.Module | None = None
    """The layer, or the expert, whose call in progress says which tokens it reads."""
    cost: float = 0.0
    """Sum over tokens of the divergence without any input, to second order, in nats."""
    squares: float = 0.0
    """Sum over tokens of all squared scores."""
    seen: Tensor = field(default_factory=lambda: torch.zeros(MOST_PLANES, _BINS, dtype=torch.int64))
    """Scores by planes held and by bin."""

    def __post_init__(self) -> None:
        """Take what is needed of the weights."""
        largest = max(self.linears, key=lambda linear: linear.out_features)
        weight = largest.weight_t if isinstance(largest, PlaneLinear) else None
        self.outputs = sum(linear.out_features for linear in self.linears)
        self.gains = torch.tensor((1.0,) if weight is None else weight.gains, dtype=torch.float64)
        """Fall of the relative error by each plane, [planes]."""
        self.counts: Tensor | int = 1 if weight is None else weight.counts
        """Planes of each input."""
        self._plane_bits = self.outputs * (_WHOLE if weight is None else PLANE_BITS)
        self._input_bits = 0 if weight is None else SCALE_BITS * len(self.linears)

    @property
    def worth(self) -> float:
        """Return the divergence that dropping an input of score 1 costs, in nats."""
        return self.cost / max(self.squares, 1e-300)

    def count(self, x: Tensor, norms: Tensor) -> None:
        """Count the scores of inputs x [tokens, n].

        `norms` [n] is the divergence that dropping an input of 1 costs, to second order: half the squared norm of its
        weights, each weighted by its output's sensitivity.
        """
        x = x.float()
        score = scores(x, self.rule.scale)
        self.cost += float((x.square() @ norms).sum(dtype=torch.float64))
        self.squares += float(score.square().sum(dtype=torch.float64))
        places = ((score.clamp(min=2.0 ** (_LOWEST - 1)).log2() - _LOWEST) * _OCTAVE).long().clamp_(0, _BINS - 1)
        places += (self.counts - 1) * _BINS
        self.seen += torch.bincount(places.flatten(), minlength=MOST_PLANES * _BINS).view(MOST_PLANES, _BINS).cpu()

    def threshold(self, price: float) -> float:
        """Return the score from which the first plane is worth its bits at a price in nats for a bit."""
        return float((price * self._plane_bits / max(self.worth * float(self.gains[0]), 1e-300)) ** 0.5)

    def bits(self, price: float) -> float:
        """Return the bits of planes and scales that all tokens read at a price."""
        levels = self._levels(price)
        return float((self.seen * (levels * self._plane_bits + (levels > 0) * self._input_bits)).sum())

    def loss(self, price: float) -> float:
        """Return the divergence that the mask costs over all tokens at a price, to second order, in nats."""
        errors = 1 - torch.cat((torch.zeros(1, dtype=torch.float64), self.gains.cumsum(0)))
        return float((self.seen * errors[self._levels(price)] * _SQUARES).sum()) * self.worth

    def _levels(self, price: float) -> Tensor:
        """Return the planes that are read of scores in each bin, by planes held, int64 [MOST_PLANES, _BINS]."""
        worth = self.worth * _SQUARES[:, None] * self.gains / self._plane_bits
        return torch.minimum((worth >= price).sum(1)[None], torch.arange(1, MOST_PLANES + 1)[:, None])


def masks_of(view: ModelView, table: Sequence[dict[str, Rule]]) -> list[Mask]:
    """Return the masks of all layers, by their rules."""
    found = []
    for layer, row in zip(view.parts, table, strict=True):
        names: dict[int, list[str]] = {}
        for name, rule in row.items():
            names.setdefault(id(rule), []).append(name)
        for own in names.values():
            linears = tuple({layer.projections[name].linear: None for name in own})
            found.append(Mask(layer.index, tuple(own), row[own[0]], linears, layer.module))
    return found


@torch.no_grad()
def count_scores(view: ModelView, masks: Sequence[Mask], tokens: Tensor, reporter: Reporter) -> None:
    """Count the scores of all masks, and what their inputs are worth, on the scored `tokens` [rows, sequence]."""
    scored = ScoredPositions.of(view, tokens)
    with torch.enable_grad():
        sensitivities = output_sensitivities(view, tokens, reporter)
    by_layer: dict[int, list[Mask]] = {}
    for mask in masks:
        by_layer.setdefault(mask.layer, []).append(mask)

    def hooks(layer: LayerView) -> Iterable[Any]:
        for mask in by_layer.get(layer.index, ()):
            own = [linear.weight.float().square().t() @ sensitivities[linear] for linear in mask.linears]
            yield mask.linears[0].register_forward_pre_hook(partial(_count, mask, scored, torch.stack(own).sum(0) / 2))

    before, read = tokens[::SAMPLED].numel(), tokens.numel()
    reporter.stage("allocation")
    for layer in Passage(view, in_batches(tokens)).layers(reporter, hooks):
        reporter.progress(before + read * (layer.index + 1) / len(view.layers), before + read, "tokens", "scores")


def _count(mask: Mask, scored: ScoredPositions, norms: Tensor, _: nn.Module, args: tuple[Tensor]) -> None:
    mask.count(scored.rows(args[0], mask.reader), norms)


def price_reading(masks: Sequence[Mask], bits: float) -> float:
    """Return the lowest price of a bit, in nats, at which all masks together read at most so many bits."""
    low, high = -120.0, 60.0  # base-2 logarithms
    for _ in range(60):
        middle = (low + high) / 2
        fits = sum(mask.bits(2.0**middle) for mask in masks) <= bits
        low, high = (low, middle) if fits else (middle, high)
    return float(2.0**high)
