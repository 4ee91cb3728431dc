"""TEAL's greedy allocation within one decoder layer (Liu et al., "Training-Free Activation Sparsity in Large Language
Models", algorithm 1), on numbers alone: corrected, and as two repositories released it.

`wina_released` (microsoft/wina, wina/greedyopt.py): matrices count by their true sizes, fused ones as one block; the
search masks by the dense model's thresholds and leaves the first 1 % of each sequence dense. `teal_released`
(FasterDecoding/TEAL, teal/greedyopt.py): k and v count an eighth of q whatever their size, in Llama-3-8B a quarter; the
first half of each sequence is dense, and its own base step is 0.05. Both may step beyond 1, and take the written row
closest to the budget.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from wina_core.compute.allocation.cells import LARGEST, Block, Values
from wina_core.specs.allocations import GreedyVariant
from wina_core.specs.plans import PlanLayout

Error = Callable[[Values], float]
"""The error of a layer's output at these sparsities, one for each of its blocks."""

RELEASED_PREFIX: dict[GreedyVariant, float] = {"wina_released": 0.01, "teal_released": 0.5}
"""Fraction of each sequence's first tokens that the released searches leave dense."""
_ALL = 0.9999
"""Sparsity at which a released search tries targets of 1 and beyond: their inverse CDFs end at the largest values."""
_KEY_VALUE_WEIGHT, _OF_LLAMA_3_8B = 1 / 8, 1 / 4
"""Weight of k and v relative to q in TEAL's table of models."""


@dataclass(frozen=True)
class Steps:
    """The steps of a search, and its end."""

    weights: Values
    """Weight of each block in the budget, relative to the layer's whole."""
    sizes: Values
    """Sparsity that one step adds to each block."""
    budget: float
    exact: bool
    """Whether to stay within LARGEST and end on the budget by a smaller last step. Otherwise the search ends after a
    whole step, at whichever of the last two rows is closer to the budget."""

    def spent(self, values: Values) -> float:
        """Return the budget that these values use."""
        return sum(weight * value for weight, value in zip(self.weights, values, strict=True))


def corrected_steps(blocks: Sequence[Block], layout: PlanLayout, budget: float, step: float) -> Steps:
    """Return steps that each drop as many weights as `step` of q does, for the blocks of one layer."""
    parameters = layout.parameters[blocks[0].layer]
    unit = step * parameters[layout.projections.index("q")] / sum(parameters)
    weights = tuple(block.weight for block in blocks)
    return Steps(weights, tuple(unit / weight for weight in weights), budget, exact=True)


def released_steps(
    blocks: Sequence[Block], layout: PlanLayout, budget: float, step: float, key_value_weight: float | None = None
) -> Steps:
    """Return the steps of released code: a block's weight is its size over q's, and its step is `step` over that.

    `key_value_weight` replaces the weight of k and v, as in TEAL's table. If it is not their size, the plan's own
    budget differs slightly from the requested one.
    """
    parameters = layout.parameters[blocks[0].layer]
    query = parameters[layout.projections.index("q")]
    relative = [
        key_value_weight if key_value_weight is not None and name in ("k", "v") else count / query
        for name, count in zip(layout.projections, parameters, strict=True)
    ]
    weights = [sum(relative[column] for column in block.columns) for block in blocks]
    total = sum(relative)
    return Steps(
        tuple(weight / total for weight in weights), tuple(step / weight for weight in weights), budget, exact=False
    )


def teal_key_value_weight(family: str, layout: PlanLayout) -> float:
    """Return the weight of k and v in TEAL's table: a quarter of q in Llama-3-8B, an eighth in all other models.

    Llama-3-8B is recognized by its family and a k of a quarter of q's size; Mistral-7B, of the same sizes, has an
    eighth.
    """
    q, k = (layout.parameters[0][layout.projections.index(name)] for name in ("q", "k"))
    return _OF_LLAMA_3_8B if family == "llama" and q == 4 * k else _KEY_VALUE_WEIGHT


def search(error: Error, steps: Steps, values: Values, accepted: Callable[[Values], None]) -> Values:
    """Repeat the step of lowest error from `values`, all 0 at the start, until the budget is met.

    `accepted` receives the values after every step; with released steps only while budget is left, because the end
    depends on the last two. The first block wins among equals.
    """
    blocks = range(len(values))
    while (room := steps.budget - steps.spent(values)) > 1e-9:
        best: tuple[float, Values] | None = None
        for block in blocks:
            value = values[block]
            if value >= (LARGEST if steps.exact else 1.0):
                continue
            step = steps.sizes[block]
            if steps.exact:
                step = min(step, room / steps.weights[block], LARGEST - value)
            candidate = (*values[:block], value + step, *values[block + 1 :])
            found = error(tuple(min(target, LARGEST if steps.exact else _ALL) for target in candidate))
            if best is None or found < best[0]:
                best = found, candidate
        if best is None:
            break  # as released alone: everything is dropped, and the weights are wrong enough to ask for more
        before, values = values, best[1]
        beyond = steps.spent(values) - steps.budget
        if steps.exact or beyond < -1e-9:
            accepted(values)
        elif any(before) and steps.budget - steps.spent(before) <= beyond:
            return before
    return values
