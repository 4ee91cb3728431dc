"""The searches' mathematics, on numbers alone."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wina_core.compute.allocation.cells import MAX_TARGET, Cells
from wina_core.compute.allocation.greedy import corrected_steps, released_steps, search, teal_key_value_weight
from wina_core.compute.allocation.optimizers import (
    POPULATION,
    CostCurve,
    Individual,
    between,
    children,
    lower_hull,
    parabola,
    spread,
    survivors,
)
from wina_core.errors import WinaError
from wina_core.specs.plans import PlanLayout

LAYOUT = PlanLayout(projections=("q", "k", "v", "o", "down"), parameters=((64, 16, 16, 64, 160),) * 2)
CELLS = Cells.of(LAYOUT, LAYOUT.projections)

COSTS = st.lists(st.floats(0, 10), min_size=4, max_size=4)


def curve(costs: list[float]) -> CostCurve:
    return CostCurve(np.linspace(0.0, 0.9, len(costs)), np.array(costs))


@given(st.lists(COSTS, min_size=1, max_size=3), st.lists(st.integers(1, 5), min_size=3, max_size=3), st.floats(0, 1))
def test_a_spread_meets_its_budget_and_costs_no_less_than_its_bound(tables, shares, fraction):
    curves = [curve(costs) for costs in tables]
    weights = [share / sum(shares) for share in shares[: len(curves)]]
    budget = fraction * 0.9 * sum(weights)
    result = spread(curves, weights, budget)
    assert sum(w * s for w, s in zip(weights, result.values, strict=True)) == pytest.approx(budget, abs=1e-9)
    assert result.bound <= result.cost + 1e-9
    assert result.cost == pytest.approx(sum(c.at(s) for c, s in zip(curves, result.values, strict=True)))


@given(st.lists(COSTS, min_size=2, max_size=3), st.integers(0, 9))
def test_no_plan_of_the_budget_is_below_the_bound_and_the_found_one_is_the_best_where_there_is_no_gap(tables, units):
    curves = [curve(costs) for costs in tables]
    weights = [1 / len(curves)] * len(curves)
    grid = np.linspace(0.0, 0.9, 13)
    budget = units / 9 * 0.9
    total = budget * len(curves)
    plans = [
        values
        for head in itertools.product(grid, repeat=len(curves) - 1)
        if -1e-9 <= (last := total - sum(head)) <= 0.9 + 1e-9
        for values in [(*head, min(max(last, 0.0), 0.9))]
    ]
    best = min(sum(c.at(s) for c, s in zip(curves, values, strict=True)) for values in plans)
    result = spread(curves, weights, budget)
    assert result.bound <= best + 1e-9
    if result.cost - result.bound < 1e-12:
        assert result.cost <= best + 1e-9


@given(COSTS)
def test_a_lower_hull_is_convex_and_the_highest_below_its_curve(costs):
    whole, hull = curve(costs), lower_hull(curve(costs))
    slopes = np.diff(hull.cost) / np.diff(hull.sparsity)
    assert (np.diff(slopes) >= -1e-9).all()
    for sparsity, cost in zip(whole.sparsity, whole.cost, strict=True):
        highest = min(  # the convex envelope: the least of all chords over the point
            whole.cost[a] + (whole.cost[b] - whole.cost[a]) * (sparsity - x) / (y - x) if b > a else whole.cost[a]
            for a, x in enumerate(whole.sparsity)
            for b, y in enumerate(whole.sparsity)
            if x <= sparsity <= y
        )
        assert hull.at(sparsity) == pytest.approx(highest, abs=1e-9)
        assert hull.at(sparsity) <= cost + 1e-9


def test_a_budget_out_of_the_curves_reach_is_refused():
    with pytest.raises(ValueError, match="out of the curves' reach"):
        spread([curve([0, 1, 2, 3])], [1.0], 0.95)


def test_a_measured_curve_keeps_its_measurements_and_its_root_is_linear_between():
    cost_curve = between((0.0, 0.4, 0.8), (-1e-9, 4.0, 16.0), 0.1)
    assert [cost_curve.at(s) for s in (0.0, 0.4, 0.8)] == pytest.approx([0.0, 4.0, 16.0])
    assert cost_curve.at(0.2) == pytest.approx(1.0)


@given(st.floats(0.2, 0.7), st.tuples(*[st.floats(-3, 3)] * 3))
def test_a_parabola_goes_through_its_measurements_and_ends_within_reach(centre, coefficients):
    points = (centre - 0.1, centre, centre + 0.1)
    cost_curve = parabola(points, np.polyval(coefficients, points).tolist(), 0.05)
    assert (cost_curve.sparsity[0], cost_curve.sparsity[-1]) == pytest.approx((centre - 0.05, centre + 0.05))
    assert cost_curve.cost == pytest.approx(np.polyval(coefficients, cost_curve.sparsity), abs=1e-6)
    assert centre in cost_curve.sparsity


def test_a_parabola_at_an_end_is_the_line_to_what_is_left():
    cost_curve = parabola((0.0, 0.0, 0.1), (1.0, 1.0, 3.0), 0.05)
    assert (cost_curve.sparsity[0], cost_curve.sparsity[-1]) == pytest.approx((0.0, 0.05))
    assert cost_curve.at(0.05) == pytest.approx(2.0)


@given(st.lists(st.floats(-1, 2), min_size=10, max_size=10), st.floats(0.0, 0.98))
def test_fitted_values_meet_the_budget_and_keep_their_order(values, budget):
    fitted = CELLS.fitted(values, budget)
    assert CELLS.budget(fitted) == pytest.approx(budget, abs=1e-9)
    assert all(0 <= value <= MAX_TARGET for value in fitted)
    assert all(fitted[a] <= fitted[b] for a in range(10) for b in range(10) if values[a] <= values[b])


def test_cells_that_share_a_mask_have_one_value_and_cells_that_are_not_gated_none():
    cells = Cells.of(LAYOUT, ("q", "k", "v", "down"), (("q", "k", "v"),))
    plan = cells.plan((0.1, 0.2, 0.3, 0.4), "curves", rho=(0.9, 0.8, 0.7, 0.6))
    assert plan.sparsity == ((0.1, 0.1, 0.1, 0.0, 0.2), (0.3, 0.3, 0.3, 0.0, 0.4))
    assert plan.rho == ((0.9, 0.9, 0.9, 1.0, 0.8), (0.7, 0.7, 0.7, 1.0, 0.6))
    assert cells.budget((0.1, 0.2, 0.3, 0.4)) == pytest.approx(plan.budget)
    with pytest.raises(WinaError, match=r"cannot reach a sparsity of 80 %.*at most 79\.2 %"):
        cells.check(0.8, "This")


@settings(max_examples=30)
@given(st.floats(0.02, 0.95), st.sampled_from([0.01, 0.05, 0.3]), st.lists(st.floats(0.1, 5), min_size=5, max_size=5))
def test_corrected_greedy_lands_on_the_budget_and_never_at_1(budget, step, sensitivity):
    cells = CELLS.in_layer(1)
    accepted = []
    reached = search(
        lambda values: sum(c * s * s for c, s in zip(sensitivity, values, strict=True)),
        corrected_steps(cells.blocks, LAYOUT, budget, step),
        (0.0,) * 5,
        accepted.append,
    )
    assert sum(w * s for w, s in zip(cells.weights, reached, strict=True)) == pytest.approx(budget, abs=1e-8)
    assert max(reached) <= MAX_TARGET
    assert accepted[-1] == reached
    assert all(sum(before) < sum(after) for before, after in itertools.pairwise(accepted))


def test_a_greedy_step_drops_the_same_number_of_weights_wherever_it_goes():
    cells = CELLS.in_layer(0)
    steps = corrected_steps(cells.blocks, LAYOUT, 0.5, 0.1)
    assert steps.sizes == pytest.approx((0.1, 0.4, 0.4, 0.1, 0.04))


MULTI_HEAD = PlanLayout(projections=(*"qkvo", "gate", "up", "down"), parameters=((64, 64, 64, 64, 160, 160, 160),))
GROUPED = PlanLayout(projections=(*"qkvo", "gate", "up", "down"), parameters=((64, 16, 16, 64, 160, 160, 160),))


@pytest.mark.parametrize(
    ("family", "layout", "weight"),
    [
        ("llama", GROUPED, 1 / 4),
        ("mistral", GROUPED, 1 / 8),
        ("llama", MULTI_HEAD, 1 / 8),
        ("llama", PlanLayout(projections=("q", "k", "v", "down"), parameters=((64, 8, 8, 160),)), 1 / 8),
    ],
    ids=["Llama-3-8B", "Mistral-7B", "Llama-2-7B", "Llama-3-70B"],
)
def test_greedy_as_teal_released_it_has_a_table_of_what_k_and_v_count(family, layout, weight):
    assert teal_key_value_weight(family, layout) == weight
    cells = Cells.of(layout, layout.projections).in_layer(0)
    steps = released_steps(cells.blocks, layout, 0.5, 0.1, weight)
    size = dict(zip(layout.projections, steps.sizes, strict=True))
    assert (size["q"], size["k"], size["v"]) == pytest.approx((0.1, 0.1 / weight, 0.1 / weight))
    assert size["down"] == pytest.approx(0.04)
    assert steps.spent((1.0,) * len(cells.blocks)) == pytest.approx(1.0)


def test_greedy_as_released_steps_beyond_1_and_is_measured_within():
    cells = CELLS.in_layer(0)
    steps, requested = released_steps(cells.blocks, LAYOUT, 0.5, 0.1, 1 / 8), []

    def error(values):
        requested.append(values)
        return -sum(values)  # the largest step is the best

    reached = search(error, steps, (0.0,) * 5, lambda _: None)
    assert reached[1] > 1
    assert max(value for values in requested for value in values) == 0.9999, "the highest value, whatever is above it"


# One block: the rows are step, 2 step, ...
@settings(max_examples=30)
@given(st.floats(0.05, 0.9), st.sampled_from([0.05, 0.2]), st.lists(st.floats(0.1, 5), min_size=5, max_size=5))
def test_greedy_as_released_misses_its_budget_by_half_a_step_at_most(budget, step, sensitivity):
    cells = CELLS.in_layer(0)
    steps = released_steps(cells.blocks, LAYOUT, budget, step)

    def error(values):
        return sum(c * s * s for c, s in zip(sensitivity, values, strict=True))

    path = []
    reached = search(error, steps, (0.0,) * 5, path.append)
    unit = step * 64 / 320  # what every step adds, as a share of the layer
    assert abs(steps.spent(reached) - budget) <= max(unit / 2, unit - budget) + 1e-9
    middle = len(path) // 2
    if path:
        assert search(error, steps, path[middle], lambda _: None) == reached, "resumed anywhere"


def test_children_are_of_the_budget_and_depend_on_the_generator_alone():
    first = Individual(CELLS.uniform(0.5), (0.95,) * 10, 1.0)
    bred = children([first], CELLS, 0.5, 0.025, np.random.default_rng(3))
    assert len(bred) == POPULATION
    assert all(CELLS.budget(child.values) == pytest.approx(0.5) for child in bred)
    assert all(0.5 <= share <= 1 for child in bred for share in child.rho or ())
    assert bred == children([first], CELLS, 0.5, 0.025, np.random.default_rng(3))
    assert bred != children([first], CELLS, 0.5, 0.025, np.random.default_rng(4))
    assert survivors([*bred, first])[0] == first
