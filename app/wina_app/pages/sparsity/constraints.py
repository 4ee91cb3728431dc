"""Constraints on edits of a plan: locked cells, and a kept budget."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from wina_app.pages.sparsity.budget_projection import balanced
from wina_app.pages.sparsity.edits import HIGHEST
from wina_app.style.number_format import percent
from wina_app.style.translation import tr
from wina_core.specs.plans import Cell, SparsityPlan

EXACT = 1e-9
"""Tolerance of a kept budget."""


@dataclass(frozen=True)
class Constraints:
    """Locked cells, and the kept budget if any."""

    locked: frozenset[Cell] = frozenset()
    budget: float | None = None


def edited(plan: SparsityPlan, values: Mapping[Cell, float], constraints: Constraints) -> SparsityPlan:
    """Return the plan with new targets in unlocked cells; other cells compensate for a kept budget."""
    wanted = {cell: value for cell, value in values.items() if cell not in constraints.locked}
    if not wanted:
        return plan
    return _balanced(plan.with_cells(wanted), constraints.budget, constraints.locked | wanted.keys())


def replaced(plan: SparsityPlan, found: SparsityPlan, constraints: Constraints) -> SparsityPlan:
    """Return another plan with this one's locked cells, at the kept budget if any."""
    kept = {
        cell: plan.sparsity[cell[0]][cell[1]]
        for cell in constraints.locked
        if plan.sparsity[cell[0]][cell[1]] != found.sparsity[cell[0]][cell[1]]
    }
    if not kept:
        return found
    return _balanced(found.with_cells(kept), constraints.budget, constraints.locked)


def remark(plan: SparsityPlan, asked: frozenset[Cell], constraints: Constraints) -> str:
    """Return what an edit of the `asked` cells could not do, as a sentence; empty if nothing."""
    if asked and asked <= constraints.locked:
        return tr(
            "The {n} cells are locked and stay unchanged; L on the heatmap unlocks the selection.",
            "The cell is locked and stays unchanged; L on the heatmap unlocks the selection.",
            len(asked),
        )
    if constraints.budget is not None and abs(plan.budget - constraints.budget) > EXACT:
        return tr(
            "The budget of {kept} cannot be kept: all other cells are at their limits. It is now {now}; unlock cells "
            "or undo the edit.",
            kept=percent(constraints.budget),
            now=percent(plan.budget),
        )
    return ""


def kept_remark(locked: int) -> str:
    """Return the notice of a plan taken over around locked cells."""
    cells = tr("{n} locked cells", "{n} locked cell", locked)
    return tr("{cells} stayed unchanged; all others follow the new plan.", cells=cells)


def _balanced(plan: SparsityPlan, budget: float | None, fixed: frozenset[Cell]) -> SparsityPlan:
    if budget is None:
        return plan
    values = np.asarray(plan.sparsity, dtype=float)
    free = np.ones_like(values, dtype=bool)
    for cell in fixed:
        free[cell] = False
    table = balanced(values, np.asarray(plan.layout.parameters, dtype=float), free, budget, HIGHEST)
    rows = tuple(map(tuple, table.tolist()))
    return SparsityPlan(layout=plan.layout, sparsity=rows, provenance=plan.provenance, rho=plan.rho)
