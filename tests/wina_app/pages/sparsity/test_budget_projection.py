"""Keeping the budget, against all ways of sorting cells into those at an end and those between, tried one by one."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wina_app.pages.sparsity.cell_values import EXACT, MAX_SPARSITY, SPARSITY, balanced
from wina_app.pages.sparsity.edit_model import CellTable, Constraints

from tests.wina_app.stored_runs import layout

targets = st.floats(0.0, MAX_SPARSITY).map(lambda value: round(value, 4))


@st.composite
def tables(draw, cells=5):
    """(values, parameters, free) of one layer."""
    several = {"min_size": cells, "max_size": cells}
    values = draw(st.lists(targets, **several))
    parameters = draw(st.lists(st.integers(1, 10**9), **several))
    free = draw(st.lists(st.booleans(), **several).filter(any))
    return np.array([values]), np.array([parameters], dtype=float), np.array([free])


def brute_force(values, parameters, free, budget):
    """The nearest table: every free cell at 0, at the highest or shifted by what the others leave, in all combinations.

    None where no combination meets the budget.
    """
    start, weight = values[free], parameters[free] / parameters.sum()
    wanted = budget - float((parameters * values)[~free].sum() / parameters.sum())
    best, nearest = math.inf, None
    for places in product(("zero", "between", "highest"), repeat=len(start)):
        between = np.array([place == "between" for place in places])
        found = np.array([MAX_SPARSITY if place == "highest" else 0.0 for place in places])
        if between.any():
            left = wanted - float((weight * found)[~between].sum())
            found[between] = (start + (left - float((weight * start)[between].sum())) / weight[between].sum())[between]
        meets = abs(float((weight * found).sum()) - wanted) < 1e-12
        if meets and (found > -1e-12).all() and (found < MAX_SPARSITY + 1e-12).all():
            distance = float((weight * (found - start) ** 2).sum())
            if distance < best:
                best, nearest = distance, found
    return nearest


@settings(max_examples=40)  # each tries all combinations
@given(tables(cells=4), st.floats(0.0, 1.0))
def test_the_balanced_table_is_the_nearest_of_all_that_meet_the_budget(table, budget):
    values, parameters, free = table
    found = balanced(values, parameters, free, budget, MAX_SPARSITY)
    assert (found[~free] == values[~free]).all()
    assert ((found >= 0) & (found <= MAX_SPARSITY)).all()
    expected = brute_force(values, parameters, free, budget)
    reached = float(np.average(found, weights=parameters))
    if expected is not None:
        assert abs(reached - budget) <= EXACT
        # a cell of next to no weight may be anywhere: what its place costs is below all rounding
        heavy = parameters[free] / parameters.sum() > 1e-6
        assert found[free][heavy] == pytest.approx(expected[heavy], abs=1e-6)
    else:
        assert abs(reached - budget) > 1e-13
        end = MAX_SPARSITY if reached < budget else 0.0
        assert found[free] == pytest.approx(end, abs=1e-15), "as near as it goes"


@pytest.mark.parametrize(("rise", "second"), [(0.0, 0.5), (0.1, 0.8)], ids=["the budget is met", "it rises"])
def test_a_target_above_the_highest_that_edits_reach_is_not_pulled_down(rise, second):
    values, free = np.array([[0.9995, 0.5, 0.5]]), np.array([[True, True, False]])
    found = balanced(values, np.ones((1, 3)), free, float(values.mean()) + rise, MAX_SPARSITY)
    assert found == pytest.approx(np.array([[0.9995, second, 0.5]]))


cells = st.tuples(st.integers(0, 3), st.integers(0, 6))
TABLE = CellTable.uniform(layout(4), 0.5).with_cells({(0, 0): 0.2, (1, 6): 0.9, (3, 3): 0.0})


@given(st.dictionaries(cells, targets, min_size=1, max_size=12), st.frozensets(cells, max_size=12))
def test_an_edit_keeps_locked_cells_its_own_targets_and_the_budget(values, locked):
    constraints = Constraints(locked, TABLE.budget)
    after = constraints.edit(TABLE, values, SPARSITY)
    for row, column in locked:
        assert after.rows[row][column] == TABLE.rows[row][column]
    for (row, column), value in values.items():
        assert (row, column) in locked or after.rows[row][column] == value
    remark = constraints.remark(after, frozenset(values), SPARSITY)
    assert bool(remark) == (values.keys() <= locked or abs(after.budget - TABLE.budget) > EXACT)


def test_an_edit_without_a_kept_budget_changes_nothing_else():
    after = Constraints(frozenset({(1, 6)})).edit(TABLE, {(2, 2): 0.75, (1, 6): 0.1}, SPARSITY)
    assert after == TABLE.with_cells({(2, 2): 0.75})


def test_another_plan_goes_around_locked_cells():
    found = CellTable.uniform(layout(4), 0.3)
    locked = frozenset({(0, 0), (1, 6)})
    assert Constraints().substitute(TABLE, found, SPARSITY) is found
    after = Constraints(locked).substitute(TABLE, found, SPARSITY)
    assert after == found.with_cells({(0, 0): 0.2, (1, 6): 0.9})
    kept = Constraints(locked, found.budget).substitute(TABLE, found, SPARSITY)
    assert kept.budget == pytest.approx(0.3, abs=EXACT)
    assert (kept.rows[0][0], kept.rows[1][6]) == (0.2, 0.9)
