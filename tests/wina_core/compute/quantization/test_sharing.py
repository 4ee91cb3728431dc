"""Runs of bits by energy against brute force, and the shares of a model's matrices."""

import errno
import itertools
from itertools import combinations, pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from wina_kernels.planes import MOST_PLANES, PLANE_BITS

from tests.wina_core.tiny import tiny_loaded, tiny_tokens
from wina_core.compute.gating import attach
from wina_core.compute.models.logits import mean_divergence
from wina_core.compute.models.quantize import quantize
from wina_core.compute.models.quantized_linear import PlaneLinear
from wina_core.compute.quantization.apply import QuantizedSites
from wina_core.compute.quantization.inputs import QuantizationSite
from wina_core.compute.quantization.sharing import (
    MOST_RUNS,
    BitsRun,
    EnergySite,
    PlaneSite,
    RunChoice,
    run_bits,
    run_edges,
    share_bits,
    share_planes,
)
from wina_core.compute.reporter import NullReporter
from wina_core.errors import WinaError
from wina_core.model_info.cost.terms import ORDER_BITS, RUN_BITS
from wina_core.specs import BitsPlan, MethodSpec, QuantizationSpec, TextSpec
from wina_core.specs.plans import UniformSparsity

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


# ---- planes by energy ------------------------------------------------------------------------------------------------


TEXT = TextSpec(tokens=256, sequence=32)


def site(energies: list[float], outputs: int) -> PlaneSite:
    gains = torch.tensor(energies, dtype=torch.float64)[:, None] * 4.0 ** -torch.arange(MOST_PLANES)
    return PlaneSite((torch.nn.Linear(len(energies), outputs, bias=False),), gains / outputs)


def saved(sites: list[PlaneSite], planes: list[torch.Tensor]) -> float:
    return sum(
        float((site.gains * (torch.arange(MOST_PLANES) < site_planes[:, None])).sum()) * site.outputs
        for site, site_planes in zip(sites, planes, strict=True)
    )


def held(sites: list[PlaneSite], planes: list[torch.Tensor]) -> float:
    bits = sum(
        float(site_planes.sum()) * PLANE_BITS * site.outputs for site, site_planes in zip(sites, planes, strict=True)
    )
    return bits / sum(site.outputs * len(site.gains) for site in sites)


@settings(deadline=None, max_examples=30)
@given(
    energies=st.lists(st.floats(0.01, 100), min_size=3, max_size=3, unique=True), bits=st.floats(2, 12)
)  # fmt: skip
def test_no_choice_within_what_is_held_saves_more(energies: list[float], bits: float) -> None:
    sites = [site(energies[:2], 4), site(energies[2:], 4)]
    planes = share_planes(sites, bits)
    assert held(sites, planes) <= bits + 1e-9
    assert held(sites, planes) > bits - PLANE_BITS / 3 - 1e-9 or held(sites, planes) == PLANE_BITS * MOST_PLANES
    for other in itertools.product(range(1, MOST_PLANES + 1), repeat=3):
        other_planes = [torch.tensor(other[:2]), torch.tensor(other[2:])]
        if held(sites, other_planes) <= held(sites, planes) + 1e-9:
            assert saved(sites, other_planes) <= saved(sites, planes) * (1 + 1e-9)


def model(**fields):
    loaded, cached = tiny_loaded("llama"), []
    spec = QuantizationSpec(quantizer="planes", text=TEXT, **fields)
    cache = type("Cache", (), {"read": lambda _: None, "write": lambda _, made, _seconds: cached.append(made)})()
    quantize(loaded, spec, NullReporter(), cache)
    return loaded, cached[0]


@torch.no_grad()
def test_by_energy_the_model_holds_its_bits_and_is_closer_than_with_equal_planes():
    tokens = tiny_tokens()
    dense = tiny_loaded("llama").model(tokens, use_cache=False).logits
    results = {}
    for by_energy in (True, False):
        loaded, _ = model(bits=6, by_energy=by_energy)
        results[by_energy] = mean_divergence(dense, loaded.model(tokens, use_cache=False).logits)
        with attach(loaded, MethodSpec(name="wina"), UniformSparsity(sparsity=0.0)) as gates:
            bits = gates.bits_held
        assert bits <= 6 if by_energy else 6 < bits < 7.5
    assert results[True] < results[False] * 1.5  # and it holds fewer bits


def test_a_plan_gives_each_matrix_its_own_bits():
    layout = tiny_loaded("llama").view.layout
    plan = BitsPlan.uniform(layout, 4).with_cells({(0, 0): 16, (1, 3): 8})
    loaded, _ = model(bits=plan)
    layers = [layer.projections for layer in loaded.view.layers]
    assert not isinstance(layers[0]["q"].linear, PlaneLinear)
    assert layers[1]["o"].linear.weight_t.counts.unique().tolist() == [4]
    assert layers[1]["q"].linear.weight_t.counts.unique().tolist() == [2]
    loaded, _ = model(bits=16, by_energy=True, head_bits=8)
    linears = {projection.linear for layer in loaded.view.layers for projection in layer.projections.values()}
    assert not any(isinstance(linear, PlaneLinear) for linear in linears), "16 bits stay unquantized"


def test_weights_that_cannot_be_written_leave_the_earlier_file(tmp_path, monkeypatch):
    def fail(_tensors, path, _metadata):
        path.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    (tmp_path / "weights.safetensors").write_bytes(b"earlier")
    monkeypatch.setattr("wina_core.compute.stages.save_file", fail)
    with pytest.raises(WinaError, match=r"could not be written to .*; free some space"):
        QuantizedSites().save(tmp_path / "weights.safetensors")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"earlier"]


def test_kept_weights_are_read_again_as_they_were(tmp_path):
    loaded, made = model(bits=6, by_energy=True)
    made.save(tmp_path / "weights.safetensors")
    again = QuantizedSites.load(tmp_path / "weights.safetensors")
    assert list(again.weights) == list(made.weights)
    for one, other in zip(made.weights.values(), again.weights.values(), strict=True):
        assert torch.equal(one.dequantize(), other.dequantize())
        assert one.ladder == other.ladder
    restored = tiny_loaded("llama")
    cache = type("Cache", (), {"read": lambda _: again, "write": lambda *_: None})()
    quantize(restored, QuantizationSpec(quantizer="planes", text=TEXT, bits=6, by_energy=True), NullReporter(), cache)
    with torch.no_grad():
        logits = [candidate.model(tiny_tokens(), use_cache=False).logits for candidate in (loaded, restored)]
    assert torch.equal(*logits)
