"""Values of a plan's cells, targets and bits: what is read, steps, and a kept mean."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wina_app.pages.sparsity.cell_values import BIT_WIDTHS, EXACT, SPARSITY, values_for

from wina_core.errors import WinaError
from wina_core.specs import QuantizationSpec

WIDTHS = values_for(QuantizationSpec(quantizer="rtn"))
MEANS = values_for(QuantizationSpec(quantizer="rtn", by_energy=True))
PLANES_BY_ENERGY = values_for(QuantizationSpec(quantizer="planes", by_energy=True))
CELLS = 6


@st.composite
def tables(draw):
    """(widths, weights, free) of one layer."""
    several = {"min_size": CELLS, "max_size": CELLS}
    widths = draw(st.lists(st.sampled_from(BIT_WIDTHS), **several))
    weights = draw(st.lists(st.integers(1, 100), **several))
    free = draw(st.lists(st.booleans(), **several).filter(any))
    return np.array([widths]), np.array([weights], dtype=float), np.array([free])


def mean(values, weights):
    return float((values * weights).sum() / weights.sum())


@given(tables(), st.floats(2.0, 16.0))
def test_whole_widths_stay_below_a_kept_mean_by_less_than_a_step_of_any_cell_that_may_rise(table, budget):
    widths, weights, free = table
    found = WIDTHS.balanced(widths, weights, free, budget)
    assert set(found.ravel()) <= set(BIT_WIDTHS)
    assert (found[~free] == widths[~free]).all()
    nearest = MEANS.balanced(widths, weights, free, budget)
    if abs(mean(nearest, weights) - budget) > EXACT:
        return  # out of reach: all free cells are at an end
    room = budget - mean(found, weights)
    assert room >= -EXACT
    rising = [
        weight / weights.sum() * (WIDTHS.stepped(width, 5) - width)
        for width, goal, weight, moves in zip(found[0], nearest[0], weights[0], free[0], strict=True)
        if moves and goal > width + EXACT
    ]
    assert all(step > room - EXACT for step in rising), "nothing that lost bits fits into the room"


@given(tables(), st.floats(2.0, 16.0))
def test_means_by_energy_meet_the_budget_as_targets_do(table, budget):
    values, weights, free = table
    found = MEANS.balanced(values, weights, free, budget)
    assert ((found >= 2) & (found <= 16)).all()
    reached = mean(found, weights)
    if abs(reached - budget) > EXACT:
        assert found[free] == pytest.approx(16.0 if reached < budget else 2.0)


@pytest.mark.parametrize("text", ["5", "4.2", "1", "17", "nan", "", "four"])
def test_bits_that_no_quantizer_has_are_refused_with_those_it_has(text):
    with pytest.raises(WinaError, match=r"2, 3, 4, 6, 8 or 16 bits"):
        WIDTHS.parse(text)


def test_by_energy_planes_have_any_mean_up_to_twelve_or_are_not_quantized():
    assert [PLANES_BY_ENERGY.parse(text) for text in ("2", "7,3", "12", "16")] == [2.0, 7.3, 12.0, 16.0]
    for text in ("1.9", "12.5", "17"):
        with pytest.raises(WinaError, match=r"by energy a mean from 2 to 12, or 16"):
            PLANES_BY_ENERGY.parse(text)
    assert [PLANES_BY_ENERGY.snapped(bits) for bits in (7.3, 13.0, 15.0)] == [7.3, 12, 16]
    assert PLANES_BY_ENERGY.stepped(7.3, 1) == pytest.approx(7.4)
    assert PLANES_BY_ENERGY.stepped(7.3, 5) == 8
    assert (PLANES_BY_ENERGY.stepped(12.0, 1), PLANES_BY_ENERGY.stepped(16.0, -1)) == (16, 12), "over the gap"
    assert PLANES_BY_ENERGY.shifted(16.0, -3.0) == 12


@given(tables(), st.floats(2.0, 16.0), st.lists(st.floats(2.0, 12.0), min_size=CELLS, max_size=CELLS))
def test_by_energy_planes_keep_a_budget_with_bits_that_they_have(table, budget, means):
    widths, weights, free = table
    values = np.where(widths == 16, 16.0, np.array([means]))
    found = PLANES_BY_ENERGY.balanced(values, weights, free, budget)
    assert (found[~free] == values[~free]).all()
    assert (((found >= 2) & (found <= 12 + EXACT)) | (found >= 16 - EXACT)).all()
    reached = mean(found, weights)
    if not PLANES_BY_ENERGY.meets(reached, budget):
        assert found[free] == pytest.approx(2.0), "as low as possible"
    elif reached < budget - EXACT:
        assert (found[free] >= 12 - EXACT).all(), "no free cell of fewer bits is left to rise"


@pytest.mark.parametrize("text", ["100", "99.99999999", "-1", "120", "1.2.3", "", "nan", "inf"])
def test_what_is_no_target_is_refused_with_the_range(text):
    with pytest.raises(WinaError, match="from 0 to under 100"):
        SPARSITY.parse(text)
