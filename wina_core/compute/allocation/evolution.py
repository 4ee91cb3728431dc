"""An evolutionary search over sparsities and, for R-Sparse, rho: breeding and survival, on numbers alone.

R-Sparse (Zhang et al., "R-Sparse: Rank-Aware Activation Sparsity for Efficient LLM Inference") searches rho at given
sparsities; here the sparsities are searched too, under the budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wina_core.compute.allocation.cells import Cells, Values

POPULATION = 8
"""Parents kept and children bred in each generation."""
_MUTATED = 0.25
"""Fraction of a child's blocks that mutate."""
_SPREAD = 4
"""Standard deviation of a mutation, in steps."""
SMALLEST_RHO = 0.5


@dataclass(frozen=True)
class Individual:
    """Targets of all blocks, R-Sparse's shares if searched, and the divergence once measured."""

    values: Values
    rho: Values | None = None
    cost: float = float("inf")


def children(
    parents: Sequence[Individual], cells: Cells, budget: float, step: float, generator: np.random.Generator
) -> list[Individual]:
    """Breed POPULATION children of the budget: each block from either of two parents, then a few of them mutated.

    Each parent is the better of two drawn at random. `step` is the unit of mutations.
    """
    return [_child(_drawn(parents, generator), _drawn(parents, generator), cells, budget, step, generator)
            for _ in range(POPULATION)]  # fmt: skip


def survivors(population: Sequence[Individual]) -> list[Individual]:
    """Return the best POPULATION of parents and children, the older one among equals."""
    return sorted(population, key=lambda individual: individual.cost)[:POPULATION]


def _drawn(parents: Sequence[Individual], generator: np.random.Generator) -> Individual:
    first, second = generator.integers(len(parents), size=2)
    return min(parents[first], parents[second], key=lambda parent: parent.cost)


def _child(
    mother: Individual, father: Individual, cells: Cells, budget: float, step: float, generator: np.random.Generator
) -> Individual:
    blocks = len(mother.values)
    from_mother = generator.random(blocks) < 0.5
    values = np.where(from_mother, mother.values, father.values)
    values = values + _mutation(blocks, step, generator)
    rho = None
    if mother.rho is not None and father.rho is not None:
        shares = np.where(from_mother, mother.rho, father.rho) + _mutation(blocks, step, generator)
        rho = tuple(np.clip(shares, SMALLEST_RHO, 1.0).tolist())
    return Individual(cells.fitted(values.tolist(), budget), rho)


def _mutation(blocks: int, step: float, generator: np.random.Generator) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    change = generator.normal(0.0, _SPREAD * step, blocks)
    return np.where(generator.random(blocks) < _MUTATED, change, 0.0)
