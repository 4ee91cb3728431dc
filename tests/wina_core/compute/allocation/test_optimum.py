"""The searches search: on costs whose optimum is known, each comes close to it from where it begins."""

import itertools
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from wina_core.compute.allocation.allocators import Found, Problem, search
from wina_core.compute.allocation.cells import AllocationSubject, Cells, Values
from wina_core.compute.allocation.divergence import Journal, PlanCandidate
from wina_core.compute.reporter import NullReporter
from wina_core.specs import AllocatorSpec, MethodSpec
from wina_core.specs.plans import PlanLayout

LAYOUT = PlanLayout(projections=("q", "k", "v", "o", "down"), parameters=((64, 16, 16, 64, 160),) * 2)
CELLS = Cells.of(LAYOUT, LAYOUT.projections)
BUDGET = 0.5
BEST_RHO = 0.8


@dataclass(frozen=True)
class Quadratic:
    """s^T A s, plus what R-Sparse's shares add where they are not BEST_RHO: a divergence without a model."""

    matrix: NDArray[np.float64]

    def __call__(self, values: Values, rho: Values | None = None) -> float:
        s = np.array(values)
        return float(s @ self.matrix @ s) + sum((share - BEST_RHO) ** 2 for share in rho or ())

    passes = 0.0

    @property
    def optimum(self) -> float:
        """The least value of w^T s = BUDGET: s = BUDGET A^-1 w / (w^T A^-1 w), which lies between the bounds."""
        weights = np.array(CELLS.weights)
        direction = np.linalg.solve(self.matrix, weights)
        best = BUDGET * direction / (weights @ direction)
        assert best.min() > 0.05
        assert best.max() < 0.95
        return self(tuple(best))

    def measure(self, candidates: list[PlanCandidate], _base: object, _progress: object) -> list[float]:
        """As `Divergence.measure` does."""
        return [self(candidate.values, candidate.rho) for candidate in candidates]


@dataclass(frozen=True)
class Toy(Problem):
    """A problem whose divergence is a formula."""

    cost: Quadratic

    def divergence(self, _journal: Journal) -> Quadratic:
        return self.cost


def quadratic(coupling: float) -> Quadratic:
    """Blocks that cost from 1 to 2 a weight on their own, and from one to the next add to each other's costs or take
    from them, as errors of neighbours do."""
    slopes = np.array(CELLS.weights) * np.random.default_rng(0).permutation(np.linspace(1, 2, 10))
    matrix = np.diag(slopes)
    for block in range(9):
        both = coupling * (-1) ** (block // 2) * np.sqrt(slopes[block] * slopes[block + 1])
        matrix[block, block + 1] = matrix[block + 1, block] = both
    return Quadratic(matrix)


def found(name: str, cost: Quadratic, method: str = "wina", **settings: object) -> Found:
    subject = AllocationSubject(None, MethodSpec(name=method))
    allocator = AllocatorSpec(name=name, **{"step": 0.01, **settings})
    journals = Journal(None, NullReporter()), Journal(None, NullReporter())
    problem = Toy(subject, CELLS, BUDGET, allocator, torch.zeros(1, 1), *journals, NullReporter(), cost)
    result = search(problem)
    assert CELLS.budget(result.values) == pytest.approx(BUDGET)
    assert result.cost == pytest.approx(cost(result.values, result.rho)) or name == "curves"
    return result


def excess(result: Found, cost: Quadratic) -> float:
    """Return the distance above the optimum, relative to that of the uniform plan."""
    return (cost(result.values) - cost.optimum) / (cost(CELLS.uniform(BUDGET)) - cost.optimum)


def test_curves_find_the_optimum_where_costs_add_up():
    cost = quadratic(0.0)
    result = found("curves", cost)
    assert excess(result, cost) < 5e-3
    assert result.cost == pytest.approx(cost.optimum, rel=1e-3)


def test_refining_finds_round_by_round_the_optimum_that_curves_cannot_see():
    cost = quadratic(-0.2)
    by_rounds = [excess(found("curves", cost), cost)]
    by_rounds += [excess(found("refine", cost, rounds=count), cost) for count in (1, 2, 4, 8)]
    assert by_rounds[0] > 0.5
    assert all(after < 0.8 * before for before, after in itertools.pairwise(by_rounds))
    assert excess(found("refine", cost, rounds=20), cost) < 0.02


def test_evolution_finds_the_optimum():
    cost = quadratic(-0.2)
    assert excess(found("evolution", cost, rounds=40), cost) < 0.05


def test_evolution_finds_the_shares_of_r_sparse_too():
    result = found("evolution", quadratic(0.0), "rsparse", rounds=60)
    assert result.rho == pytest.approx((BEST_RHO,) * 10, abs=0.06)
