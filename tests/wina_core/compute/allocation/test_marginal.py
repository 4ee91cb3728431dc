"""Levelling of marginal costs, on divergences that are sums of exponentials."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wina_core.compute.allocation.cells import MAX_TARGET, Cells
from wina_core.compute.allocation.optimizers import bands, levelled, raised
from wina_core.specs.plans import PlanLayout

SLOPE = 8.0


def cells_of(layers):
    layout = PlanLayout(projections=("q", "o", "down"), parameters=((64, 16, 256),) * layers)
    return Cells.of(layout, layout.projections)


def model(cells, worths):
    """Return the divergence of values: each block's worth and weight times exp(SLOPE value)."""

    def cost(values):
        return sum(
            worth * weight * math.exp(SLOPE * value)
            for worth, weight, value in zip(worths, cells.weights, values, strict=True)
        )

    return cost


def probed(cells, cost, values):
    every = range(len(values))
    return cost(values), cost(raised(values, every)), [cost(raised(values, band)) for band in bands(cells)]


@pytest.mark.parametrize("layers", [1, 2, 3, 8, 9, 30, 80])
def test_bands_hold_each_block_once_and_the_first_and_the_last_layer_s_alone(layers):
    cells = cells_of(layers)
    all_bands = bands(cells)
    assert sorted(block for band in all_bands for block in band) == list(range(3 * layers))
    for band in all_bands:
        assert len({cells.blocks[block].columns for block in band}) == 1
        within = [cells.blocks[block].layer for block in band]
        assert within == list(range(within[0], within[0] + len(within))), "neighbours"
        assert len(band) == 1 or not {0, layers - 1} & set(within)
    sizes = [len(band) for band in all_bands if cells.blocks[band[0]].layer not in (0, layers - 1)]
    assert len(all_bands) == 3 * min(layers, 8)
    assert not sizes or max(sizes) - min(sizes) <= 1


@settings(deadline=None)
@given(
    worths=st.lists(st.floats(0.3, 3.0), min_size=15, max_size=15),
    budget=st.floats(0.2, 0.7),
)
def test_values_level_the_rates_and_keep_the_budget(worths, budget):
    cells = cells_of(5)
    cost, start = model(cells, worths), cells.uniform(budget)
    whole, *_ = trials = levelled(cells, budget, start, *probed(cells, cost, start))
    for values in trials:
        assert cells.budget(values) == pytest.approx(budget)
        assert cost(values) <= cost(start) * (1 + 1e-12)
    rates = [
        worth * math.exp(SLOPE * value) for worth, value in zip(worths, whole, strict=True) if 0 < value < MAX_TARGET
    ]
    assert max(rates) / min(rates) == pytest.approx(1, rel=1e-6)


def test_a_rate_that_noise_made_negative_moves_no_further_than_a_low_one():
    cells = cells_of(3)
    start = cells.uniform(0.5)
    (values, *_) = levelled(cells, 0.5, start, 1.0, 2.0, [1.2, *[0.99] * 8])
    assert all(0 <= value <= MAX_TARGET for value in values)
    assert values[0] < 0.5 < values[1] == pytest.approx(values[2])


@pytest.mark.parametrize(("cost", "whole"), [(0.0, 0.0), (1.0, 0.9), (0.0, 1.0)])
def test_nothing_moves_where_no_divergence_rises(cost, whole):
    cells = cells_of(3)
    assert levelled(cells, 0.5, cells.uniform(0.5), cost, whole, [cost] * 9) == []
    highest = (MAX_TARGET,) * 9
    assert levelled(cells, MAX_TARGET, highest, 1.0, 2.0, [1.0] * 9) == []
