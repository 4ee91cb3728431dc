"""Joint allocation for weights in planes: thresholds at one price of a bit, and their targets, within budgets of bits.

The price comes from reverse water-filling of what gates read. An input of score s costs about w s^2 in divergence if it
is dropped, and e_p w s^2 if its first p planes are read. Here w is the worth of its mask, from the sensitivities of the
outputs, and e_p the relative squared error of the weights. At one price of a bit for all masks and tokens of a model,
every plane is read that saves its price. Weights that are not in planes are one plane without an error.

Bits and divergence are measured with the gates in place. The share of inputs below a mask's threshold is the target of
its cells.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from wina_kernels.planes import MOST_PLANES, PLANE_BITS
from wina_kernels.selection import scores

from wina_core.compute import pausable_clock
from wina_core.compute.allocation.cells import MAX_TARGET, check_joint
from wina_core.compute.allocation.divergence import batches_of
from wina_core.compute.gating.gates import Gates
from wina_core.compute.gating.rules import Rule, rules
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.logits import ScoredPositions, divergences, scored_log_probabilities
from wina_core.compute.models.passage import Passage, in_batches
from wina_core.compute.models.quantized_linear import PlaneLinear
from wina_core.compute.models.text_tokens import read_tokens
from wina_core.compute.models.view import LayerView, ModelView
from wina_core.compute.quantization.inputs import SAMPLED, output_sensitivities
from wina_core.compute.reporter import Reporter
from wina_core.compute.scoring import ThresholdSelection
from wina_core.errors import WinaError
from wina_core.model_info.cost.terms import SCALE_BITS
from wina_core.records import JointRecord
from wina_core.specs import JointSpec, MethodSpec
from wina_core.specs.methods import get_method
from wina_core.specs.plans import Cell, SparsityPlan, UniformSparsity, resolve_plan
from wina_core.specs.quantization import PlanPair

_MIN_TARGET = 0.002
"""Smallest target of a cell; without one, a gate reads all planes."""
_CLOSE = 0.003
"""Largest distance of the bits read from the budget, relative."""
_TRIALS = 6
_FREE = 1e-30
"""Price at which every plane is read."""
_CORRECTING = 4_096
"""Tokens of a correction's passes."""
_MAX_CORRECTION = 5.0


def allocate_in_planes(
    original: LoadedModel,
    quantized: LoadedModel,
    method: MethodSpec,
    spec: JointSpec,
    key: str,
    reporter: Reporter,
) -> JointRecord:
    """Return the target of each cell with which a model in planes reads `spec.bits_read` on the spec's text.

    `original` is the same model before it was quantized. The gates select by threshold; a plan's targets restore the
    thresholds by calibration. Raises WinaError for a method whose gates are not plain, and for a budget out of reach.
    """
    check_joint(original.view)
    start = pausable_clock.now()
    budget = spec.bits_read
    assert budget is not None  # of the spec's validator
    tokens = read_tokens(spec.text, original.tokenizer)
    least = resolve_plan(UniformSparsity(sparsity=_MIN_TARGET), original.view.layout, method)
    table = rules(quantized.view, method, least)
    masks = masks_of(quantized.view, table)
    _check(quantized, method, masks)
    count_scores(quantized.view, masks, tokens, reporter)
    subject = _PriceSearch(original, quantized, method, table, masks, tokens, reporter)
    trial = subject.within(budget)
    if spec.refined:
        subject.correct(trial.price)
        trial = subject.within(budget)
    loss = sum(mask.loss(trial.price) for mask in masks) / subject.scored(tokens)
    return JointRecord(
        key=key,
        pair=PlanPair(plan=_plan(original, trial.gates, spec), quantization=quantized.source.quantization),
        value=loss,
        bound=loss,  # one price for all bits is optimal for what it reads
        kl=trial.divergence,
        bits_read=trial.gates.bits_read,
        bits_held=trial.gates.bits_held,
        # The two further passes measure the sensitivities and the scores.
        evaluations=subject.passes + 2,
        seconds=pausable_clock.now() - start,
    )


def _check(quantized: LoadedModel, method: MethodSpec, masks: Sequence[PlaneMask]) -> None:
    """Raise WinaError for a method that does not gate every matrix by the scores of its inputs alone."""
    names = {(mask.layer, name) for mask in masks for name in mask.names}
    every = {(layer.index, name) for layer in quantized.view.layers for name in layer.projections}
    if get_method(method).by_gate_activation or method.needs_calibration or names != every:
        raise WinaError(
            f"{method.label} does not gate every matrix by the scores of its inputs alone; choose a method that does, "
            "such as WINA or TEAL."
        )


@dataclass(frozen=True, eq=False)
class _Trial:
    """The gates at one price, with their counts."""

    price: float
    gates: Gates
    divergence: float
    """KL(original || gated) in nats per token."""


@dataclass(eq=False)
class _PriceSearch:
    """A quantized model that is gated at several prices on one text, and its original."""

    original: LoadedModel
    quantized: LoadedModel
    method: MethodSpec
    table: Sequence[dict[str, Rule]]
    masks: Sequence[PlaneMask]
    tokens: Tensor
    reporter: Reporter
    passes: int = 0
    """Passes over the whole text."""

    def scored(self, tokens: Tensor) -> int:
        return ScoredPositions.of(self.original.view, tokens).count(tokens)

    def within(self, budget: float) -> _Trial:
        """Return the gates whose bits read come closest to the budget from below; WinaError if none are within it."""
        weights = sum(map(sum, self.original.view.layout.parameters)) * self.scored(self.tokens)
        target, best, least, last = budget, None, math.inf, -1.0
        for _ in range(_TRIALS):
            price = price_reading(self.masks, target * weights)
            if price == last:
                break  # all planes are read, or none
            last = price
            trial = _Trial(price, *self._measured([price] * len(self.masks), self.tokens))
            read = trial.gates.bits_read
            if read <= budget and (best is None or read > best.gates.bits_read):
                best = trial
            least = min(least, read)
            if budget * (1 - _CLOSE) <= read <= budget:
                break
            # Aim at the middle of the accepted range; bits read are about proportional to the target.
            target *= budget * (1 - _CLOSE / 2) / max(read, _MIN_TARGET)
        if best is None:
            raise WinaError(
                f"The budget of {budget:g} bits read is below the least that these weights were read with, "
                f"{least:.3g}; raise it."
            )
        return best

    def correct(self, price: float) -> None:
        """Correct the worth of each mask by the divergence that it causes alone at this price, on part of the text."""
        tokens = self.tokens[: max(1, _CORRECTING // self.tokens.shape[1])]
        free = [_FREE] * len(self.masks)
        _, least = self._measured(free, tokens)  # the divergence of quantization alone
        for index, mask in enumerate(self.masks):
            _, divergence = self._measured([*free[:index], price, *free[index + 1 :]], tokens)
            expected = (mask.loss(price) - mask.loss(_FREE)) / self.scored(self.tokens)
            if expected > 0:
                mask.cost *= min(max((divergence - least) / expected, 1 / _MAX_CORRECTION), _MAX_CORRECTION)

    @torch.no_grad()
    def _measured(self, prices: Sequence[float], tokens: Tensor) -> tuple[Gates, float]:
        """Return gates with a price for each mask, detached, and their divergence."""
        rules_of_layers = [dict(row) for row in self.table]
        for mask, price in zip(self.masks, prices, strict=True):
            rule = replace(mask.rule, select=ThresholdSelection("threshold", mask.threshold(price)))
            rules_of_layers[mask.layer] |= dict.fromkeys(mask.names, rule)
        total, batches = 0.0, batches_of(tokens)
        with Gates(
            self.quantized.view, self.method, rules_of_layers, [{} for _ in rules_of_layers], dense_prefix=0.0
        ) as gates:
            for done, rows in enumerate(batches, start=1):
                self.reporter.check()
                logs = [scored_log_probabilities(model.view, rows) for model in (self.original, self.quantized)]
                total += float(divergences(*logs).sum(dtype=torch.float64))
                self.reporter.progress(done, len(batches), "batches", "measuring a price of bits")
        self.passes += 1
        if not math.isfinite(total):
            raise WinaError("The gated model's logits are not numbers; choose more bits or another dtype.")
        return gates, total / self.scored(tokens)


def _plan(original: LoadedModel, gates: Gates, spec: JointSpec) -> SparsityPlan:
    """Return the fractions that the gates dropped as targets."""
    layout = original.view.layout
    cells: dict[Cell, float] = {
        (record.layer, layout.projections.index(record.projection)): min(max(record.value, _MIN_TARGET), MAX_TARGET)
        for record in gates.measured()
    }
    return SparsityPlan.uniform(layout, 0.0).with_cells(cells, provenance=spec.label)


_OCTAVE = 32
"""Bins of a histogram for each doubling of the score."""
_LOWEST = -40
"""Base-2 logarithm of the lowest score that is distinguished from 0."""
_BINS = 80 * _OCTAVE  # scores up to 2^40
_SQUARES = 4.0 ** ((torch.arange(_BINS, dtype=torch.float64) + 0.5) / _OCTAVE + _LOWEST)
"""Squares of the scores in the bins' middles."""
_WHOLE = 16
"""Bits of a weight that is not in planes; one price for all makes any number the same."""


@dataclass(eq=False)
class PlaneMask:
    """Inputs of a layer that are gated together, and the statistics of their scores."""

    layer: int
    names: tuple[str, ...]
    rule: Rule
    linears: tuple[nn.Linear, ...]
    reader: nn.Module | None = None
    """The layer, or the expert, whose current call selects the tokens that are read."""
    cost: float = 0.0
    """Sum over tokens of the divergence without any input, to second order, in nats."""
    squares: float = 0.0
    """Sum over tokens of all squared scores."""
    seen: Tensor = field(default_factory=lambda: torch.zeros(MOST_PLANES, _BINS, dtype=torch.int64))
    """Scores by planes held and by bin."""

    def __post_init__(self) -> None:
        largest = max(self.linears, key=lambda linear: linear.out_features)
        weight = largest.weight_t if isinstance(largest, PlaneLinear) else None
        self.outputs = sum(linear.out_features for linear in self.linears)
        self.gains = torch.tensor((1.0,) if weight is None else weight.gains, dtype=torch.float64)
        """Decrease of the relative error by each plane, [planes]."""
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
        bins = ((score.clamp(min=2.0 ** (_LOWEST - 1)).log2() - _LOWEST) * _OCTAVE).long().clamp_(0, _BINS - 1)
        bins += (self.counts - 1) * _BINS  # a histogram for each number of planes, one behind the other
        self.seen += torch.bincount(bins.flatten(), minlength=MOST_PLANES * _BINS).view(MOST_PLANES, _BINS).cpu()

    def threshold(self, price: float) -> float:
        """Return the score from which the first plane saves its price, in nats per bit."""
        return float((price * self._plane_bits / max(self.worth * float(self.gains[0]), 1e-300)) ** 0.5)

    def bits(self, price: float) -> float:
        """Return the bits of planes and scales that all tokens read at a price in nats per bit."""
        levels = self._levels(price)
        return float((self.seen * (levels * self._plane_bits + (levels > 0) * self._input_bits)).sum())

    def loss(self, price: float) -> float:
        """Return the divergence of this mask over all tokens at a price, to second order, in nats."""
        errors = 1 - torch.cat((torch.zeros(1, dtype=torch.float64), self.gains.cumsum(0)))
        return float((self.seen * errors[self._levels(price)] * _SQUARES).sum()) * self.worth

    def _levels(self, price: float) -> Tensor:
        """Return the planes read for scores in each bin, by planes held, int64 [MOST_PLANES, _BINS]."""
        worth = self.worth * _SQUARES[:, None] * self.gains / self._plane_bits
        # Gains fall from plane to plane, so the planes that are worth the price are the first ones.
        return torch.minimum((worth >= price).sum(1)[None], torch.arange(1, MOST_PLANES + 1)[:, None])


def masks_of(view: ModelView, table: Sequence[dict[str, Rule]]) -> list[PlaneMask]:
    """Return the masks of all layers, by their rules."""
    masks = []
    for layer, row in zip(view.parts, table, strict=True):
        names: dict[int, list[str]] = {}
        for name, rule in row.items():
            # Projections with one rule object share a mask.
            names.setdefault(id(rule), []).append(name)
        for grouped in names.values():
            linears = tuple({layer.projections[name].linear: None for name in grouped})
            masks.append(PlaneMask(layer.index, tuple(grouped), row[grouped[0]], linears, layer.module))
    return masks


@torch.no_grad()
def count_scores(view: ModelView, masks: Sequence[PlaneMask], tokens: Tensor, reporter: Reporter) -> None:
    """Count the scores of all masks, and the worth of their inputs, on the scored `tokens` [rows, sequence]."""
    scored = ScoredPositions.of(view, tokens)
    with torch.enable_grad():
        sensitivities = output_sensitivities(view, tokens, reporter)
    by_layer: dict[int, list[PlaneMask]] = {}
    for mask in masks:
        by_layer.setdefault(mask.layer, []).append(mask)

    def hooks(layer: LayerView) -> Iterable[Any]:
        for mask in by_layer.get(layer.index, ()):
            costs = [linear.weight.float().square().t() @ sensitivities[linear] for linear in mask.linears]
            yield mask.linears[0].register_forward_pre_hook(
                partial(_count, mask, scored, torch.stack(costs).sum(0) / 2)
            )

    before, read = tokens[::SAMPLED].numel(), tokens.numel()
    reporter.stage("allocation")
    for layer in Passage(view, in_batches(tokens)).layers(reporter, hooks):
        reporter.progress(before + read * (layer.index + 1) / len(view.layers), before + read, "tokens", "scores")


def _count(mask: PlaneMask, scored: ScoredPositions, norms: Tensor, _: nn.Module, args: tuple[Tensor]) -> None:
    mask.count(scored.rows(args[0], mask.reader), norms)


def price_reading(masks: Sequence[PlaneMask], bits: float) -> float:
    """Return the lowest price of a bit, in nats, at which all masks together read at most `bits`."""
    low, high = -120.0, 60.0  # base-2 logarithms
    for _ in range(60):
        middle = (low + high) / 2
        fits = sum(mask.bits(2.0**middle) for mask in masks) <= bits
        low, high = (low, middle) if fits else (middle, high)
    return float(2.0**high)
