"""Selections of cells as values."""

from hypothesis import given
from hypothesis import strategies as st
from wina_app.heatmap.selection import Selection

NONE = Selection(4, 3)
cells = st.tuples(st.integers(0, 3), st.integers(0, 2))


@given(cells, cells)
def test_a_drag_selects_the_rectangle_between_its_ends(first, last):
    selected = NONE.click(first).drag_to(last).cells
    assert len(selected) == (abs(first[0] - last[0]) + 1) * (abs(first[1] - last[1]) + 1)
    assert {first, last} <= selected


@given(cells, cells)
def test_toggling_twice_restores_the_selection(kept, toggled):
    selection = NONE.click(kept)
    twice = selection.click(toggled, toggle=True).click(toggled, toggle=True)
    assert twice.cells == selection.cells
