"""Joint allocation on a tiny model: budgets are kept, more budget never harms, and the result is a model's bits."""

import itertools
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from wina_kernels.planes import MOST_PLANES, PLANE_BITS, in_planes

from tests.wina_core.tiny import tiny_loaded, tiny_tokens
from wina_core.compute.allocation.cells import AllocationSubject, Cells, cells_of
from wina_core.compute.allocation.divergence import Journal
from wina_core.compute.allocation.in_planes import PlaneMask, allocate_in_planes, price_reading
from wina_core.compute.allocation.joint import GAP, Measurement, Options, allocate_jointly, choose
from wina_core.compute.gating import attach
from wina_core.compute.gating.rules import Rule
from wina_core.compute.models.logits import mean_divergence
from wina_core.compute.models.quantize import quantize
from wina_core.compute.models.quantized_linear import PlaneLinear
from wina_core.compute.reporter import NullReporter
from wina_core.compute.scoring import ThresholdSelection
from wina_core.errors import WinaError
from wina_core.specs import JointSpec, MethodSpec, QuantizationSpec, TextSpec

WINA = MethodSpec(name="wina", masks="shared")
RTN = QuantizationSpec(quantizer="rtn", bits=8, group=16)
TEXT = TextSpec(tokens=128, sequence=32)


def quantized(quantization: QuantizationSpec):
    loaded = tiny_loaded("llama")
    quantize(loaded, quantization, NullReporter())
    return loaded


def layers_of(loaded) -> dict:
    return {
        (layer.index, name): projection.linear
        for layer in loaded.view.layers
        for name, projection in layer.projections.items()
    }


@pytest.fixture(scope="module")
def variants():
    spec = JointSpec(bits_read=16, quantization=RTN, widths=(4, 8))
    return {bits: layers_of(quantized(spec.quantized(bits))) for bits in spec.choices}


def allocate(variants, tmp_path, method=WINA, **budgets):
    spec = JointSpec(quantization=RTN, widths=(4, 8), text=TEXT, **budgets)
    return allocate_jointly(tiny_loaded("llama"), variants, method, spec, "key", tmp_path / "a.options", NullReporter())


def test_budgets_are_kept_and_more_of_them_costs_less(variants, tmp_path):
    costs = []
    for read in (5.0, 6.0, 8.0):
        record = allocate(variants, tmp_path, bits_read=read)
        assert record.bits_read <= read + 1e-6
        assert record.bound <= record.value
        costs.append(record.value)
    assert costs == sorted(costs, reverse=True)
    held = allocate(variants, tmp_path, bits_read=6.0, bits_held=8.0)
    assert held.bits_held <= 8.0
    assert held.value >= costs[1] * (1 - 2e-3)
    bits = held.pair.quantization
    assert isinstance(bits, QuantizationSpec)
    plan = bits.plan(held.pair.plan.layout)
    assert {value for row in plan.bits for value in row} <= {4, 8}
    assert plan.provenance == held.pair.plan.provenance == "joint, 6 bits read, 8 bits held"


@torch.no_grad()
def test_the_divergence_of_the_whole_is_that_of_the_quantized_and_gated_model(variants, tmp_path):
    record = allocate(variants, tmp_path, bits_read=5.5)
    loaded = quantized(record.pair.quantization)
    tokens = tiny_tokens()
    dense = tiny_loaded("llama").model(tokens, use_cache=False).logits
    with attach(loaded, WINA, record.pair.plan):
        gated = loaded.model(tokens, use_cache=False).logits
    subject = AllocationSubject(tiny_loaded("llama"), WINA)
    cells = cells_of(subject.loaded.view.layout, WINA)
    columns = [(block.layer, block.columns[0]) for block in cells.blocks]
    plan = record.pair.quantization.plan(record.pair.plan.layout)
    widths = [plan.bits[layer][column] for layer, column in columns]
    targets = [record.pair.plan.sparsity[layer][column] for layer, column in columns]
    measurement = Measurement(subject, cells, variants, (0.0,), NullReporter())
    assert measurement.whole(tokens, widths, targets) == pytest.approx(mean_divergence(dense, gated), rel=1e-4)


def test_bits_alone_are_allocated_for_the_dense_method(variants, tmp_path):
    record = allocate(variants, tmp_path, MethodSpec(name="dense"), bits_held=8.0)
    assert record.pair.plan.budget == 0
    assert record.bits_read == pytest.approx(record.bits_held)
    assert record.bits_held <= 8.0


def test_an_interrupted_measurement_resumes_with_the_same_numbers(variants, tmp_path):
    loaded = tiny_loaded("llama")
    cells = Cells.of(loaded.view.layout, loaded.view.layout.projections)
    tokens = tiny_tokens()[:1, :8].repeat(96, 1)

    class Stopping(NullReporter):
        calls = 0

        def check(self) -> None:
            self.calls += 1
            if self.calls == 40:  # in the second batch
                raise KeyboardInterrupt

    def measured(file, reporter):
        measurement = Measurement(
            AllocationSubject(loaded, MethodSpec(name="dense")), cells, variants, (0.0,), reporter
        )
        return measurement.measure(tokens, Journal(file, reporter), lambda _: None)

    whole = measured(None, NullReporter())
    with pytest.raises(KeyboardInterrupt):
        measured(tmp_path / "b.options", Stopping())
    resumed = measured(tmp_path / "b.options", NullReporter())
    assert resumed.divergence == pytest.approx(whole.divergence)
    assert resumed.read == pytest.approx(whole.read)


@pytest.mark.parametrize(
    ("method", "budgets", "reason"),
    [
        (WINA, {"bits_held": 3.0}, "The budget of 3 bits held is below what the choices allow"),
        (MethodSpec(name="wina", selection="threshold"), {"bits_read": 5.0}, "needs a calibration for each"),
        (MethodSpec(name="cats"), {"bits_read": 5.0}, "does not gate every matrix"),
    ],
)
def test_what_cannot_be_allocated_is_said_in_one_sentence(variants, tmp_path, method, budgets, reason):
    with pytest.raises(WinaError, match=reason):
        allocate(variants, tmp_path, method, **budgets)


@st.composite
def problems(draw) -> tuple[list[Options], dict[str, float]]:
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    blocks = [
        Options(rng.random(count) * 1e-3, {"read": 16 * rng.random(count), "held": 16 * rng.random(count)})
        for count in draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    ]
    names = draw(st.sampled_from([("read",), ("held",), ("read", "held")]))
    return blocks, {name: float(sum(block.spent[name].mean() for block in blocks)) for name in names}


@settings(deadline=None, max_examples=60)
@given(problems())
def test_it_is_the_least_of_all_choices_within_the_budgets(problem):
    blocks, budgets = problem
    costs = []
    for chosen in product(*(range(len(block.costs)) for block in blocks)):
        pairs = list(zip(blocks, chosen, strict=True))
        spent = {name: sum(block.spent[name][option] for block, option in pairs) for name in budgets}
        if all(spent[name] <= budget + 1e-7 for name, budget in budgets.items()):
            costs.append(sum(block.costs[option] for block, option in pairs))
    if not costs:
        with pytest.raises(WinaError, match="No choice of bits and sparsities meets both budgets"):
            choose(blocks, budgets)
        return
    choice = choose(blocks, budgets)
    assert choice.cost == pytest.approx(min(costs), rel=2 * GAP, abs=1e-9)
    assert choice.bound <= min(costs) + 1e-9
    for name, budget in budgets.items():
        spent = sum(block.spent[name][option] for block, option in zip(blocks, choice.options, strict=True))
        assert spent <= budget + 1e-5


# ---- weights in planes -----------------------------------------------------------------------------------------------


PLANES_TEXT = TextSpec(tokens=256, sequence=32)
PLANES = QuantizationSpec(quantizer="planes", bits=10)


def in_place(quantization=PLANES):
    loaded = tiny_loaded("llama")
    quantize(loaded, quantization, NullReporter())
    loaded.source = loaded.source.model_copy(update={"quantization": quantization})
    return loaded


def allocate_planes(read: float, method=WINA, **settings):
    spec = JointSpec(bits_read=read, quantization=PLANES, text=PLANES_TEXT, **settings)
    return allocate_in_planes(tiny_loaded("llama"), in_place(), method, spec, "key", NullReporter())


def test_planes_keep_their_budgets_and_cost_less_with_more():
    assert allocate_planes(4.5, refined=True).bits_read <= 4.5
    records = [allocate_planes(read) for read in (3.0, 7.0)]
    for record, budget in zip(records, (3.0, 7.0), strict=True):
        assert 0.97 * budget <= record.bits_read <= budget
        assert record.pair.quantization == PLANES
        assert record.bits_held == records[0].bits_held
    assert [record.kl for record in records] == sorted((record.kl for record in records), reverse=True)
    assert [record.value for record in records] == sorted((record.value for record in records), reverse=True)
    plans = [record.pair.plan for record in records]
    assert plans[0].budget > plans[1].budget
    assert plans[0].provenance == "joint, 3 bits read"


@pytest.mark.parametrize(
    ("read", "method", "reason"),
    [
        (0.05, WINA, "The budget of 0.05 bits read is below the least that these weights were read with"),
        (4.5, MethodSpec(name="cats"), "does not gate every matrix by the scores of its inputs alone"),
    ],
)
def test_what_cannot_be_allocated_in_planes_is_said_in_one_sentence(read, method, reason):
    with pytest.raises(WinaError, match=reason):
        allocate_planes(read, method)


def mask_of(seed: int, inputs: int, planes: int) -> PlaneMask:
    generator = torch.Generator().manual_seed(seed)
    weight = in_planes(torch.randn(inputs, 8, generator=generator), planes)
    layer = PlaneLinear(torch.nn.Linear(inputs, 8, bias=False), weight)
    mask = PlaneMask(0, ("o",), Rule(ThresholdSelection("threshold", 0.0)), (layer,))
    mask.count(torch.randn(6, inputs, generator=generator).exp(), torch.rand(inputs, generator=generator))
    return mask


@settings(deadline=None, max_examples=12)
@given(seed=st.integers(0, 999), share=st.floats(0.05, 0.95))
def test_the_price_is_the_lowest_that_keeps_the_budget(seed: int, share: float) -> None:
    masks = [mask_of(seed, 5, 3), mask_of(seed + 1, 4, MOST_PLANES)]
    budget = share * sum(mask.bits(0.0) for mask in masks)
    price = price_reading(masks, budget)
    assert sum(mask.bits(price) for mask in masks) <= budget
    assert sum(mask.bits(price * 0.999) for mask in masks) > budget


@settings(deadline=None, max_examples=8)
@given(seed=st.integers(0, 999), share=st.floats(0.2, 0.8))
def test_no_other_levels_that_read_as_much_cost_less(seed: int, share: float) -> None:
    """Against all choices of levels for four inputs of one token each; scales are left out of the costs."""
    mask = mask_of(seed, 4, 3)
    price = price_reading([mask], share * mask.bits(0.0))
    chosen = mask.loss(price) + price * _plane_bits(mask, price)
    errors = [1.0, *(1 - mask.gains.cumsum(0)).tolist()]
    squares = [
        4.0 ** ((bin_ + 0.5) / 32 - 40) for bin_, count in enumerate(mask.seen.sum(0).tolist()) for _ in range(count)
    ]
    for levels in itertools.product(range(4), repeat=4):
        lowest = squares[:4]
        cost = sum(mask.worth * square * errors[level] for square, level in zip(lowest, levels, strict=True))
        bits = sum(levels) * PLANE_BITS * mask.outputs
        rest = [
            min(
                mask.worth * square * errors[planes] + price * planes * PLANE_BITS * mask.outputs for planes in range(4)
            )
            for square in squares[4:]
        ]
        assert cost + price * bits + sum(rest) >= chosen * (1 - 1e-6)


def _plane_bits(mask: PlaneMask, price: float) -> float:
    return float((mask.seen * mask._levels(price)).sum()) * PLANE_BITS * mask.outputs
