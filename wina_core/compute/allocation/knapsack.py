"""The choice of one option for each block with the least total cost within budgets, with its bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wina_core.errors import WinaError

Array = NDArray[np.float64]
GAP = 1e-3
"""Largest relative distance of a choice's cost from the bound."""
_SECONDS = 120.0


@dataclass(frozen=True)
class Options:
    """The options of a block."""

    costs: Array
    """[options], not negative."""
    spent: Mapping[str, Array]
    """What each option takes of each budget, by its name, [options]."""


@dataclass(frozen=True)
class Choice:
    """One option for each block."""

    options: tuple[int, ...]
    cost: float
    bound: float
    """Lower bound of all choices within the budgets."""


def choose(blocks: Sequence[Options], budgets: Mapping[str, float]) -> Choice:
    """Return the choice of least cost with sum spent <= budget for each named budget, within GAP of the bound.

    Solved as a multiple-choice knapsack problem by HiGHS. Raises WinaError for a budget below the least that the
    options can take.
    """
    for name, budget in budgets.items():
        least = sum(float(block.spent[name].min()) for block in blocks)
        if budget < least - 1e-9:
            raise WinaError(
                f"The budget of {budget:g} bits {name} is below what the choices allow, {least:.3g}; raise it or "
                "allow fewer bits."
            )
    from scipy.optimize import Bounds, LinearConstraint, milp  # half a second, which most processes do without
    from scipy.sparse import csr_array

    counts = [len(block.costs) for block in blocks]
    costs = np.concatenate([block.costs for block in blocks])
    owner = np.repeat(np.arange(len(blocks)), counts)
    one_each = csr_array((np.ones(len(costs)), (owner, np.arange(len(costs)))))
    constraints = [LinearConstraint(one_each, 1, 1)]
    for name, budget in budgets.items():
        spent = np.concatenate([block.spent[name] for block in blocks])
        constraints.append(LinearConstraint(spent[None], -np.inf, budget))
    scale = float(costs.max()) or 1.0  # tiny divergences would be lost in the solver's tolerances
    found = milp(
        costs / scale,
        integrality=np.ones(len(costs)),
        bounds=Bounds(0, 1),
        constraints=constraints,
        options={"mip_rel_gap": GAP, "time_limit": _SECONDS},
    )
    if found.x is None:
        raise WinaError("No choice of bits and sparsities meets both budgets at once; raise one of them.")
    chosen = np.split(found.x, np.cumsum(counts)[:-1])
    places = tuple(int(np.argmax(own)) for own in chosen)
    cost = sum(float(block.costs[place]) for block, place in zip(blocks, places, strict=True))
    return Choice(places, cost, min(cost, float(found.mip_dual_bound) * scale))
