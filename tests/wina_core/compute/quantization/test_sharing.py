"""Runs of bits by energy against brute force, and the shares of a model's matrices."""

from itertools import combinations, pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from wina_core.compute.quantization.inputs import QuantizationSite
from wina_core.compute.quantization.sharing import (
    MOST_RUNS,
    BitsRun,
    EnergySite,
    RunChoice,
    run_bits,
    run_edges,
    share_bits,
)
from wina_core.model_info.cost.terms import ORDER_BITS, RUN_BITS

GROUP = 32


def every_choice(inputs: int):
    """All runs of falling bits, by force."""
    ends = run_edges(inputs).tolist()
    for count in range(1, MOST_RUNS + 1):
        for cuts in combinations(ends[1:-1], count - 1):
            for widths in combinations(RUN_BITS, count):
                edges = [0, *cuts, inputs]
                yield tuple(BitsRun(b - a, bits) for (a, b), bits in zip(pairwise(edges), widths, strict=True))


@st.composite
def tables(draw) -> np.ndarray:
    """Errors that fall with the bits, of inputs whose energies need not fall."""
    inputs = draw(st.sampled_from((16, 40, 80, 96)))
    seed = draw(st.integers(0, 1000))
    random = np.random.default_rng(seed)
    energy = np.exp(random.normal(size=(inputs, 1)) - np.linspace(0, draw(st.floats(0, 8)), inputs)[:, None])
    return energy * np.array([0.0, *(4.0**-bits * random.uniform(0.5, 1.5) for bits in RUN_BITS[1:])])


@settings(max_examples=15, deadline=None)
@given(errors=tables(), mean=st.floats(2, 12), price=st.floats(1e-9, 1e-2))
def test_runs_are_the_best_of_all_within_a_budget_and_at_a_price(errors, mean, price):
    outputs = 3
    choice = RunChoice(errors, outputs, GROUP)
    all_runs = [(runs, choice.error(runs), choice.held(runs)) for runs in every_choice(len(errors))]
    budget = mean * errors.shape[0] * outputs
    fitting = [error for _, error, held in all_runs if held <= budget]
    best_runs = choice.within(budget)
    assert (best_runs is None) == (not fitting)
    if best_runs is not None:
        assert choice.held(best_runs) <= budget
        assert choice.error(best_runs) == pytest.approx(min(fitting), rel=1e-9, abs=1e-15)
    cheapest = choice.at_price(price)
    least = min(error + price * held for _, error, held in all_runs)
    assert choice.error(cheapest) + price * choice.held(cheapest) == pytest.approx(least, rel=1e-9)
    assert sum(run.inputs for run in cheapest) == len(errors)


def test_a_runs_bits_count_started_groups_and_no_zero_in_8_bits_or_scales_in_16():
    assert run_bits(BitsRun(48, 4), 32) == 48 * 4 + 2 * 32
    assert run_bits(BitsRun(48, 8), 32) == 48 * 8 + 2 * 16
    assert run_bits(BitsRun(48, 16), 32) == 48 * 16


def sites() -> list[EnergySite]:
    """Two inputs, one with falling energies read by two matrices, one with even energies."""
    torch.manual_seed(0)
    energy_sites = []
    for layer, fall in enumerate((6.0, 0.0)):
        linears = [torch.nn.Linear(128, outputs, bias=False).requires_grad_(False) for outputs in (16, 200)]
        moments = torch.diag(torch.exp(-torch.linspace(0, fall, 128)))
        sensitivities = {linear: torch.ones(linear.out_features) for linear in linears}
        site = QuantizationSite(layer, {linears[0]: ("q",), linears[1]: ("k",)})
        energy_sites.append(EnergySite(site, moments, sensitivities, GROUP, compensated=False))
    return energy_sites


@pytest.mark.parametrize("mean", [4.0, 5.0, 9.0])
def test_a_models_bits_are_shared_out_within_the_budget_and_order_is_counted(mean):
    steep, even = sites()
    plans = share_bits((steep, even), mean)
    held = 0.0
    for site, plan in zip((steep, even), plans, strict=True):
        for linear, runs in plan.runs.items():
            held += linear.out_features * sum(run_bits(run, GROUP) for run in runs)
        held += 0 if plan.order is None else ORDER_BITS * site.site.inputs
    weights = steep.weights + even.weights
    assert 0.85 * mean <= held / weights <= mean
    assert plans[0].order is not None, "its energies fall"


def test_a_matrix_of_a_plan_holds_no_more_than_with_equal_bits():
    for site in sites():
        budgets = {linear: linear.out_features * (128 * 4.0 + 32 * 4) for linear in site.site.linears}
        plan = site.within(budgets)
        held = sum(linear.out_features * run_bits(run, GROUP) for linear, runs in plan.runs.items() for run in runs)
        order = 0 if plan.order is None else ORDER_BITS * 128
        assert held + order <= sum(budgets.values())
        if plan.order is None:
            assert set(plan.runs.values()) == {(BitsRun(128, 4),)}
