"""Allocation for weights in planes: budgets are kept, the plan restores what was found, and the price is optimal."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from wina_kernels.planes import MOST_PLANES, PLANE_BITS, in_planes

from tests.wina_core.tiny import tiny_loaded
from wina_core.compute.allocation.in_planes import PlaneMask, allocate_in_planes, price_reading
from wina_core.compute.gating.rules import Rule
from wina_core.compute.models.quantize import quantize
from wina_core.compute.models.quantized_linear import PlaneLinear
from wina_core.compute.reporter import NullReporter
from wina_core.compute.scoring import ThresholdSelection
from wina_core.errors import WinaError
from wina_core.specs import JointSpec, MethodSpec, QuantizationSpec, TextSpec

WINA = MethodSpec(name="wina", masks="shared")
TEXT = TextSpec(tokens=256, sequence=32)
PLANES = QuantizationSpec(quantizer="planes", bits=10)


def in_place(quantization=PLANES):
    loaded = tiny_loaded("llama")
    quantize(loaded, quantization, NullReporter())
    loaded.source = loaded.source.model_copy(update={"quantization": quantization})
    return loaded


def allocate(read: float, method=WINA, **settings):
    spec = JointSpec(bits_read=read, quantization=PLANES, text=TEXT, **settings)
    return allocate_in_planes(tiny_loaded("llama"), in_place(), method, spec, "key", NullReporter())


def test_budgets_are_kept_and_more_of_them_costs_less():
    assert allocate(4.5, refined=True).bits_read <= 4.5
    records = [allocate(read) for read in (3.0, 7.0)]
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
def test_what_cannot_be_allocated_is_said_in_one_sentence(read, method, reason):
    with pytest.raises(WinaError, match=reason):
        allocate(read, method)


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
