"""Specs of joint allocations: what they need, and what is held."""

import pytest
from pydantic import ValidationError

from wina_core.errors import explain
from wina_core.specs import JointSpec, QuantizationSpec

RTN = QuantizationSpec(quantizer="rtn", bits=4)
PLANES = QuantizationSpec(quantizer="planes", bits=6)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, "A joint allocation needs a budget: give bits_read, bits_held or both."),
        ({"bits_held": 6}, "Weights in planes need a budget of bits read; give bits_read."),
        ({"bits_held": 6, "quantization": PLANES}, "Weights in planes need a budget of bits read; give bits_read."),
        ({"bits_read": 0}, "bits_read: it should be greater than 0, not 0."),
        ({"bits_read": 4, "quantization": RTN, "widths": (4, 5)}, "2, 3, 4, 6, 8 or 16 bits, not 5"),
    ],
)
def test_an_impossible_allocation_is_refused_in_one_sentence(fields, reason):
    with pytest.raises(ValidationError) as caught:
        JointSpec(**fields)
    assert reason in explain(caught.value)


def test_planes_by_energy_are_the_default_and_hold_eight_bits_without_a_budget():
    spec = JointSpec(bits_read=4.5)
    assert spec.in_planes
    assert spec.in_planes_held == QuantizationSpec(quantizer="planes", bits=8, by_energy=True)
    assert spec.label == "joint, 4.5 bits read"
    assert JointSpec(bits_read=4.5, bits_held=6).in_planes_held.bits == 6
    assert JointSpec(bits_read=4.5, bits_held=20).in_planes_held.bits == 12, "the most that planes have"
    assert JointSpec(bits_read=4.5, quantization=PLANES).in_planes_held == PLANES


def test_whole_matrices_of_planes_hold_even_bits():
    with pytest.raises(ValidationError, match="in planes, not 5"):
        JointSpec(bits_read=4.5, bits_held=5, quantization=PLANES)


def test_other_quantizers_need_one_of_both_budgets():
    for budget in ({"bits_read": 4}, {"bits_held": 4}):
        spec = JointSpec(quantization=RTN, **budget)
        assert not spec.in_planes
        assert spec.choices == (2, 3, 4, 6, 8)


def test_budgets_change_no_measurement():
    one, other = (JointSpec(bits_read=read, quantization=RTN) for read in (3, 5))
    assert one.measured == other.measured
