"""The searches' mathematics, on numbers alone."""

import itertools
import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from wina_core.compute.allocation.allocators import Found, Problem
from wina_core.compute.allocation.allocators import search as allocated
from wina_core.compute.allocation.cells import MAX_TARGET, AllocationSubject, Cells, PlanCandidate, Values
from wina_core.compute.allocation.divergence import Journal
from wina_core.compute.allocation.greedy import corrected_steps, released_steps, search, teal_key_value_weight
from wina_core.compute.allocation.optimizers import (
    POPULATION,
    CostCurve,
    Individual,
    bands,
    between,
    children,
    levelled,
    lower_hull,
    parabola,
    raised,
    spread,
    survivors,
)
from wina_core.compute.reporter import NullReporter
from wina_core.errors import WinaError
from wina_core.specs import AllocatorSpec, MethodSpec
from wina_core.specs.plans import PlanLayout

LAYOUT = PlanLayout(projections=("q", "k", "v", "o", "down"), parameters=((64, 16, 16, 64, 160),) * 2)
CELLS = Cells.of(LAYOUT, LAYOUT.projections)

COSTS = st.lists(st.floats(0, 10), min_size=4, max_size=4)


def curve(costs: list[float]) -> CostCurve:
    return CostCurve(np.linspace(0.0, 0.9, len(costs)), np.array(costs))


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
    assert sum(w * s for w, s in zip(weights, result.values, strict=True)) == pytest.approx(budget, abs=1e-9)
    assert result.cost == pytest.approx(sum(c.at(s) for c, s in zip(curves, result.values, strict=True)))
    assert result.bound <= min(best, result.cost) + 1e-9
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


def test_children_are_of_the_budget_and_depend_on_the_generator_alone():
    first = Individual(CELLS.uniform(0.5), (0.95,) * 10, 1.0)
    bred = children([first], CELLS, 0.5, 0.025, np.random.default_rng(3))
    assert len(bred) == POPULATION
    assert all(CELLS.budget(child.values) == pytest.approx(0.5) for child in bred)
    assert all(0.5 <= share <= 1 for child in bred for share in child.rho or ())
    assert bred == children([first], CELLS, 0.5, 0.025, np.random.default_rng(3))
    assert bred != children([first], CELLS, 0.5, 0.025, np.random.default_rng(4))
    assert survivors([*bred, first])[0] == first


# ---- marginal costs, on divergences that are sums of exponentials ----------------------------------------------------

SLOPE = 8.0


def cells_with(layers):
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
    cells = cells_with(layers)
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
    cells = cells_with(5)
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
    cells = cells_with(3)
    start = cells.uniform(0.5)
    (values, *_) = levelled(cells, 0.5, start, 1.0, 2.0, [1.2, *[0.99] * 8])
    assert all(0 <= value <= MAX_TARGET for value in values)
    assert values[0] < 0.5 < values[1] == pytest.approx(values[2])


@pytest.mark.parametrize(("cost", "whole"), [(0.0, 0.0), (1.0, 0.9), (0.0, 1.0)])
def test_nothing_moves_where_no_divergence_rises(cost, whole):
    cells = cells_with(3)
    assert levelled(cells, 0.5, cells.uniform(0.5), cost, whole, [cost] * 9) == []
    highest = (MAX_TARGET,) * 9
    assert levelled(cells, MAX_TARGET, highest, 1.0, 2.0, [1.0] * 9) == []


# ---- searches on costs whose optimum is known: each comes close to it from where it begins ---------------------------

BUDGET = 0.5
BEST_RHO = 0.8


@dataclass(frozen=True)
class Quadratic:
    """s^T A s, plus what R-Sparse's shares add where they are not BEST_RHO: a divergence without a model."""

    matrix: NDArray[np.float64]

    def __call__(self, values: Values, rho: Values | None = None) -> float:
        s = np.array(values)
        return float(s @ self.matrix @ s) + sum((share - BEST_RHO) ** 2 for share in rho or ())

    passes = 0.0

    @property
    def optimum(self) -> float:
        """The least value of w^T s = BUDGET: s = BUDGET A^-1 w / (w^T A^-1 w), which lies between the bounds."""
        weights = np.array(CELLS.weights)
        direction = np.linalg.solve(self.matrix, weights)
        best = BUDGET * direction / (weights @ direction)
        assert best.min() > 0.05
        assert best.max() < 0.95
        return self(tuple(best))

    def measure(self, candidates: list[PlanCandidate], _base: object, _progress: object) -> list[float]:
        """As `Divergence.measure` does."""
        return [self(candidate.values, candidate.rho) for candidate in candidates]


@dataclass(frozen=True)
class Toy(Problem):
    """A problem whose divergence is a formula."""

    cost: Quadratic

    def divergence(self, _journal: Journal) -> Quadratic:
        return self.cost


def quadratic(coupling: float) -> Quadratic:
    """Blocks that cost from 1 to 2 a weight on their own, and from one to the next add to each other's costs or take
    from them, as errors of neighbours do."""
    slopes = np.array(CELLS.weights) * np.random.default_rng(0).permutation(np.linspace(1, 2, 10))
    matrix = np.diag(slopes)
    for block in range(9):
        both = coupling * (-1) ** (block // 2) * np.sqrt(slopes[block] * slopes[block + 1])
        matrix[block, block + 1] = matrix[block + 1, block] = both
    return Quadratic(matrix)


def found(name: str, cost: Quadratic, method: str = "wina", **settings: object) -> Found:
    subject = AllocationSubject(None, MethodSpec(name=method))
    allocator = AllocatorSpec(name=name, **{"step": 0.01, **settings})
    journals = Journal(None, NullReporter()), Journal(None, NullReporter())
    problem = Toy(subject, CELLS, BUDGET, allocator, torch.zeros(1, 1), *journals, NullReporter(), cost)
    result = allocated(problem)
    assert CELLS.budget(result.values) == pytest.approx(BUDGET)
    assert result.cost == pytest.approx(cost(result.values, result.rho)) or name == "curves"
    return result


def excess(result: Found, cost: Quadratic) -> float:
    """Return the distance above the optimum, relative to that of the uniform plan."""
    return (cost(result.values) - cost.optimum) / (cost(CELLS.uniform(BUDGET)) - cost.optimum)


def test_curves_find_the_optimum_where_costs_add_up():
    cost = quadratic(0.0)
    result = found("curves", cost)
    assert excess(result, cost) < 5e-3
    assert result.cost == pytest.approx(cost.optimum, rel=1e-3)


def test_refining_finds_round_by_round_the_optimum_that_curves_cannot_see():
    cost = quadratic(-0.2)
    by_rounds = [excess(found("curves", cost), cost)]
    by_rounds += [excess(found("refine", cost, rounds=count), cost) for count in (1, 2, 4, 8)]
    assert by_rounds[0] > 0.5
    assert all(after < 0.8 * before for before, after in itertools.pairwise(by_rounds))
    assert excess(found("refine", cost, rounds=20), cost) < 0.02


def test_evolution_finds_the_optimum():
    cost = quadratic(-0.2)
    assert excess(found("evolution", cost, rounds=40), cost) < 0.05


def test_evolution_finds_the_shares_of_r_sparse_too():
    result = found("evolution", quadratic(0.0), "rsparse", rounds=60)
    assert result.rho == pytest.approx((BEST_RHO,) * 10, abs=0.06)
