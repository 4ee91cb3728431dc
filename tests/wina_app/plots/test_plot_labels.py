"""Names beside lines: never over one another, never far from their lines without need."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wina_app.plots.plot_labels import spread

targets = st.lists(st.floats(-50, 250), min_size=1, max_size=12)


@given(targets)
def test_names_keep_their_distance_their_order_and_the_range(positions):
    placed = spread(positions, gap=12, low=0, high=200)
    assert all(-1e-6 <= y <= 200 + 1e-6 for y in placed)
    ranked = sorted(range(len(positions)), key=lambda index: positions[index])
    ordered = [placed[index] for index in ranked]
    assert all(after - before >= 12 - 1e-6 for before, after in pairwise(ordered))


@given(st.lists(st.integers(0, 15), min_size=1, max_size=12, unique=True))
def test_names_that_have_room_stay_where_they_belong(slots):
    positions = [12.5 * slot for slot in slots]
    assert spread(positions, gap=12, low=0, high=200) == pytest.approx(positions)


def test_names_of_equal_lines_are_centred_on_them():
    assert spread([100, 100, 100], gap=10, low=0, high=200) == pytest.approx([90, 100, 110])


def test_too_many_names_are_spread_evenly():
    assert spread([5, 5, 5], gap=100, low=0, high=100) == pytest.approx([0, 50, 100])
