"""State of the Sparsity page without any widget: selection, values, tables."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wina_app.heatmap.selection import Selection
from wina_app.pages.sparsity import heatmap_tables
from wina_app.pages.sparsity.editing.sparsity_values import HIGHEST, SPARSITY
from wina_app.shared.evaluation_choice import parse_sparsities
from wina_app.style.number_format import fraction

from tests.wina_app.stored_runs import PROJECTIONS, layout
from wina_core.errors import WinaError
from wina_core.specs.plans import SparsityPlan
from wina_core.store import RunLayerMap

NONE = Selection(4, 3)
cells = st.tuples(st.integers(0, 3), st.integers(0, 2))


@given(cells, cells)
def test_a_drag_selects_the_rectangle_between_its_ends(first, last):
    selected = NONE.click(first).drag_to(last).cells
    assert len(selected) == (abs(first[0] - last[0]) + 1) * (abs(first[1] - last[1]) + 1)
    assert {first, last} <= selected


def test_a_drag_beyond_the_edge_stops_there():
    assert NONE.click((2, 1)).drag_to((99, -5)).cells == {(2, 1), (2, 0), (3, 1), (3, 0)}


@given(cells, cells)
def test_toggling_twice_restores_the_selection(kept, toggled):
    selection = NONE.click(kept)
    twice = selection.click(toggled, toggle=True).click(toggled, toggle=True)
    assert twice.cells == selection.cells


@pytest.mark.parametrize(("text", "value"), [("50", 0.5), ("62.5", 0.625), ("62,5", 0.625), (" 7 %", 0.07), ("0", 0.0)])
def test_percentages_are_read(text, value):
    assert SPARSITY.parse(text) == pytest.approx(value)


@pytest.mark.parametrize("tenths", [7, 290, 323, 573, 999])
def test_a_percentage_is_the_same_fraction_wherever_it_is_entered(tenths):
    text = f"{tenths / 10:.1f}"
    assert SPARSITY.parse(text) == fraction(tenths / 10) == float(f"{tenths / 1000:.3f}")
    assert parse_sparsities(text) == (SPARSITY.parse(text),)


@pytest.mark.parametrize("text", ["100", "99.99999999", "-1", "120", "1.2.3", "", "nan", "inf"])
def test_what_is_no_target_is_refused_with_the_range(text):
    with pytest.raises(WinaError, match="from 0 to under 100"):
        SPARSITY.parse(text)


@given(st.integers(-200, 200), st.floats(0, 0.999))
def test_steps_stay_inside_the_range(points, start):
    stepped = SPARSITY.stepped(start, points)
    assert 0 <= stepped < 1
    if 0 <= start + points / 100 <= HIGHEST:
        assert stepped == pytest.approx(start + points / 100, abs=1e-6)


def test_a_stored_map_is_put_in_the_layouts_order_with_gaps():
    stored = RunLayerMap("fidelity", ("down", "q"), ((0.7, 0.1), (0.8, 0.2)))
    table = heatmap_tables.measured_table(layout(3), stored)
    assert table[:2, PROJECTIONS.index("q")].tolist() == [0.1, 0.2]
    assert table[:2, PROJECTIONS.index("down")].tolist() == [0.7, 0.8]
    assert np.isnan(table[2]).all()
    assert np.isnan(table[:, PROJECTIONS.index("k")]).all()
    assert np.isnan(heatmap_tables.measured_table(layout(3), None)).all()


def test_the_mean_is_weighted_by_the_matrices_sizes():
    plan = SparsityPlan.uniform(layout(2), 0.5).with_cells({(0, 6): 0.9})
    assert heatmap_tables.weighted_mean(plan.layout, heatmap_tables.target_table(plan)) == pytest.approx(plan.budget)
    assert heatmap_tables.weighted_mean(plan.layout, np.full((2, 7), math.nan)) is None
