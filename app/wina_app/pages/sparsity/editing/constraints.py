"""Constraints on edits of a table: locked cells, and a kept budget."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from wina_app.pages.sparsity.editing.cell_table import CellTable
from wina_app.pages.sparsity.editing.cell_values import CellValues
from wina_app.style.translation import tr
from wina_core.specs.plans import Cell


@dataclass(frozen=True)
class Constraints:
    """Locked cells, and the kept budget if any."""

    locked: frozenset[Cell] = frozenset()
    budget: float | None = None


def edited(table: CellTable, values: Mapping[Cell, float], constraints: Constraints, kind: CellValues) -> CellTable:
    """Return the table with new values in unlocked cells; other cells compensate for a kept budget."""
    free_values = {cell: value for cell, value in values.items() if cell not in constraints.locked}
    if not free_values:
        return table
    return _balanced(table.with_cells(free_values), constraints.budget, constraints.locked | free_values.keys(), kind)


def replaced(table: CellTable, replacement: CellTable, constraints: Constraints, kind: CellValues) -> CellTable:
    """Return another table with this one's locked cells, at the kept budget if any."""
    locked_values = {
        (row, column): table.rows[row][column]
        for row, column in constraints.locked
        if table.rows[row][column] != replacement.rows[row][column]
    }
    if not locked_values:
        return replacement
    return _balanced(replacement.with_cells(locked_values), constraints.budget, constraints.locked, kind)


def remark(table: CellTable, cells: frozenset[Cell], constraints: Constraints, kind: CellValues) -> str:
    """Return what an edit of the cells could not do, as a sentence; empty if nothing."""
    if cells and cells <= constraints.locked:
        return tr(
            "The {n} cells are locked and stay unchanged; L on the heatmap unlocks the selection.",
            "The cell is locked and stays unchanged; L on the heatmap unlocks the selection.",
            len(cells),
        )
    if constraints.budget is not None and not kind.meets(table.budget, constraints.budget):
        return tr(
            "The budget of {kept} cannot be kept: all other cells are at their limits. It is now {now}; unlock cells "
            "or undo the edit.",
            kept=kind.text(constraints.budget),
            now=kind.text(table.budget),
        )
    return ""


def kept_remark(locked: int) -> str:
    """Return the notice of a plan taken over around locked cells."""
    cells = tr("{n} locked cells", "{n} locked cell", locked)
    return tr("{cells} stayed unchanged; all others follow the new plan.", cells=cells)


def _balanced(table: CellTable, budget: float | None, fixed: frozenset[Cell], kind: CellValues) -> CellTable:
    if budget is None:
        return table
    values = np.asarray(table.rows, dtype=float)
    free = np.ones_like(values, dtype=bool)
    for cell in fixed:
        free[cell] = False
    return table.with_array(kind.balanced(values, table.weights, free, budget))
