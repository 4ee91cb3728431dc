"""Joint allocation for weights in planes: thresholds at one price of a bit, and their targets, within budgets of bits.

The price comes from `water_filling`; bits and divergence are measured with the gates in place. The share of inputs
below a mask's threshold is the target of its cells.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from wina_core.compute import pausable_clock
from wina_core.compute.allocation.cells import LARGEST
from wina_core.compute.allocation.divergence import BATCH_TOKENS
from wina_core.compute.allocation.gated import check_joint
from wina_core.compute.allocation.water_filling import Mask, count_scores, masks_of, price_reading
from wina_core.compute.gating.gates import Gates
from wina_core.compute.gating.rules import Rule, rules
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.logits import divergences, scored_log_probabilities
from wina_core.compute.models.scored_positions import ScoredPositions
from wina_core.compute.models.text_tokens import read_tokens
from wina_core.compute.reporter import Reporter
from wina_core.compute.scoring.selections import ThresholdSelection
from wina_core.errors import WinaError
from wina_core.records import JointRecord
from wina_core.specs import JointSpec, MethodSpec
from wina_core.specs.methods import get_method
from wina_core.specs.plan_pair import PlanPair
from wina_core.specs.plans import Cell, SparsityPlan, UniformSparsity
from wina_core.specs.targets import resolve_plan

_SMALLEST = 0.002
"""Smallest target of a cell; without one, a gate reads all planes."""
_CLOSE = 0.003
"""Largest distance of the bits read from the budget, relative."""
_TRIALS = 6
_FREE = 1e-30
"""Price at which every plane is read."""
_CORRECTING = 4_096
"""Tokens of a correction's passes."""
_LARGEST_CORRECTION = 5.0


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
    least = resolve_plan(UniformSparsity(sparsity=_SMALLEST), original.view.layout, method)
    table = rules(quantized.view, method, least)
    masks = masks_of(quantized.view, table)
    _check(quantized, method, masks)
    count_scores(quantized.view, masks, tokens, reporter)
    subject = _Subject(original, quantized, method, table, masks, tokens, reporter)
    found = subject.within(budget)
    if spec.refined:
        subject.correct(found.price)
        found = subject.within(budget)
    loss = sum(mask.loss(found.price) for mask in masks) / subject.scored(tokens)
    return JointRecord(
        key=key,
        pair=PlanPair(plan=_plan(original, found.gates, spec), quantization=quantized.source.quantization),
        value=loss,
        bound=loss,  # one price for all bits is optimal for what it reads
        kl=found.divergence,
        bits_read=found.gates.bits_read,
        bits_held=found.gates.bits_held,
        evaluations=subject.passes + 2,
        seconds=pausable_clock.now() - start,
    )


def _check(quantized: LoadedModel, method: MethodSpec, masks: Sequence[Mask]) -> None:
    """Raise WinaError for a method that this allocation does not know."""
    names = {(mask.layer, name) for mask in masks for name in mask.names}
    every = {(layer.index, name) for layer in quantized.view.layers for name in layer.projections}
    if get_method(method).by_gate_activation or method.needs_calibration or names != every:
        raise WinaError(
            f"{method.label} does not gate every matrix by the scores of its inputs alone; choose a method that does, "
            "such as WINA or TEAL."
        )


@dataclass(frozen=True, eq=False)
class _Trial:
    """The gates at one price, with what they counted."""

    price: float
    gates: Gates
    divergence: float
    """KL(original || gated) in nats per token."""


@dataclass(eq=False)
class _Subject:
    """A quantized model that is gated at several prices on one text, and its original."""

    original: LoadedModel
    quantized: LoadedModel
    method: MethodSpec
    table: Sequence[dict[str, Rule]]
    masks: Sequence[Mask]
    tokens: Tensor
    reporter: Reporter
    passes: int = 0
    """Passes over the whole text."""

    def scored(self, tokens: Tensor) -> int:
        """Return how many of the tokens are scored."""
        return ScoredPositions.of(self.original.view, tokens).count(tokens)

    def within(self, budget: float) -> _Trial:
        """Return the gates whose bits read come closest to the budget from below; WinaError if none are within it."""
        weights = sum(map(sum, self.original.view.layout.parameters)) * self.scored(self.tokens)
        wanted, best, least, last = budget, None, math.inf, -1.0
        for _ in range(_TRIALS):
            price = price_reading(self.masks, wanted * weights)
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
            wanted *= budget * (1 - _CLOSE / 2) / max(read, _SMALLEST)
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
        _, least = self._measured(free, tokens)
        for place, mask in enumerate(self.masks):
            _, own = self._measured([*free[:place], price, *free[place + 1 :]], tokens)
            expected = (mask.loss(price) - mask.loss(_FREE)) / self.scored(self.tokens)
            if expected > 0:
                mask.cost *= min(max((own - least) / expected, 1 / _LARGEST_CORRECTION), _LARGEST_CORRECTION)

    @torch.no_grad()
    def _measured(self, prices: Sequence[float], tokens: Tensor) -> tuple[Gates, float]:
        """Return gates with a price for each mask, detached, and their divergence."""
        own = [dict(row) for row in self.table]
        for mask, price in zip(self.masks, prices, strict=True):
            rule = replace(mask.rule, select=ThresholdSelection("threshold", mask.threshold(price)))
            own[mask.layer] |= dict.fromkeys(mask.names, rule)
        total, batches = 0.0, tokens.split(max(1, BATCH_TOKENS // tokens.shape[1]))
        with Gates(self.quantized.view, self.method, own, [{} for _ in own], dense_prefix=0.0) as gates:
            for done, rows in enumerate(batches, start=1):
                self.reporter.check()
                logs = [scored_log_probabilities(each.view, rows) for each in (self.original, self.quantized)]
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
        (each.layer, layout.projections.index(each.projection)): min(max(each.value, _SMALLEST), LARGEST)
        for each in gates.measured()
    }
    return SparsityPlan.uniform(layout, 0.0).with_cells(cells, provenance=spec.label)
