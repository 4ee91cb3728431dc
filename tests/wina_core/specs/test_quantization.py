"""Specs of quantization, plans of bits and joint allocations: validation, labels, hashes and files."""

import json

import pytest
from pydantic import TypeAdapter, ValidationError

from wina_core.errors import WinaError, explain
from wina_core.specs import BitsPlan, JointSpec, ModelSource, Quantization, QuantizationSpec, TextSpec, load_bits_plan
from wina_core.specs.plans import PlanLayout
from wina_core.specs.quantization import printed_quantization, quantization_label

LAYOUT = PlanLayout(projections=("q", "down"), parameters=((100, 300), (100, 300)))
PLAN = BitsPlan(layout=LAYOUT, bits=((4, 2), (8, 3)))


def test_hashes_of_sources_of_before_are_unchanged():
    """Runs are stored under hashes that hold these."""
    hashes = [ModelSource(location="demo", quantization=bits).content_hash() for bits in ("none", "int8", "int4")]
    assert hashes == ["4ac3967cc98214b8", "05f3ff35bdc9a744", "2734224029609abe"]
    assert ModelSource.model_validate_json('{"location": "demo", "quantization": "int8"}').quantization == "int8"


def test_every_field_of_a_quantization_changes_the_source_but_its_plans_provenance_does_not():
    base = {"quantizer": "gptq", "bits": 4}
    changes = [
        {},
        {"quantizer": "rtn"},
        {"bits": 3},
        {"by_energy": True},
        {"group": 32},
        {"head_bits": 8},
        {"bits": PLAN},
    ]
    changes.append({"text": TextSpec(tokens=1024)})
    hashes = [ModelSource(location="demo", quantization=QuantizationSpec(**{**base, **change})) for change in changes]
    assert len({source.content_hash() for source in hashes}) == len(changes)
    edited = PLAN.model_copy(update={"provenance": "edited"})
    one, other = (
        ModelSource(location="demo", quantization=QuantizationSpec(quantizer="rtn", bits=plan))
        for plan in (PLAN, edited)
    )
    assert one.content_hash() == other.content_hash()
    assert ModelSource.model_validate_json(one.model_dump_json()) == one
    assert len({one, other}) == 2, "sources are keys of dictionaries"


@pytest.mark.parametrize(
    ("fields", "label"),
    [
        ({"quantizer": "hqq"}, "4 bits hqq"),
        ({"quantizer": "gptq", "bits": 4.2, "by_energy": True, "head_bits": 8}, "4.2 bits gptq by energy, head 8"),
        ({"quantizer": "rtn", "bits": 3, "group": 32}, "3 bits rtn, group 32"),
        ({"quantizer": "rtn", "text": TextSpec(tokens=64)}, "4 bits rtn"),
        ({"quantizer": "planes", "bits": 6, "group": 32}, "6 bits planes"),
        ({"quantizer": "planes", "bits": 6.5, "by_energy": True}, "6.5 bits planes by energy"),
        (
            {"quantizer": "gptq", "text": TextSpec(tokens=64)},
            "4 bits gptq, on 64 tokens of demo:calibration",
        ),
    ],
)
def test_a_label_names_what_differs_from_the_usual(fields, label):
    assert QuantizationSpec(**fields).label == label


def test_labels_of_two_plans_with_one_mean_differ():
    other = BitsPlan(layout=LAYOUT, bits=((8, 3), (4, 2)))
    labels = {QuantizationSpec(quantizer="rtn", bits=plan).label for plan in (PLAN, other)}
    assert len(labels) == 2
    assert all(label.startswith("3.375 bits rtn, plan ") for label in labels)


def test_named_quantizations_are_printed_in_capitals_and_specs_by_their_label():
    spec = QuantizationSpec(quantizer="rtn")
    printed = [
        printed_quantization(quantization_label(quantization)) for quantization in ("none", "int8", "int4", spec)
    ]
    assert printed == ["", "INT8", "INT4", "4 bits rtn"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"quantizer": "hqq", "bits": 5}, "A whole matrix has 2, 3, 4, 6, 8 or 16 bits, not 5; choose one of them"),
        ({"quantizer": "rtn", "bits": 4.2}, "not 4.2; choose one of them, or bits by energy for a mean in between"),
        ({"quantizer": "hqq", "bits": 1}, "it should be greater than or equal to 2, not 1"),
        (
            {"quantizer": "planes", "bits": 5},
            "A whole matrix has 2, 4, 6, 8, 10, 12 or 16 bits in planes, not 5; choose one of them, or bits by energy",
        ),
        ({"quantizer": "planes", "bits": PLAN}, "2, 4, 6, 8, 10, 12 or 16 bits in planes, not 3;"),
        (
            {"quantizer": "planes", "bits": 12.5, "by_energy": True},
            "Planes by energy have 2 to 12 bits, not 12.5; choose fewer",
        ),
        ({"quantizer": "planes", "bits": 1.9, "by_energy": True}, "it should be greater than or equal to 2, not 1.9"),
        ({"quantizer": "rtn", "group": 48}, "it should be 16, 32, 64 or 128, not 48"),
        ({"quantizer": "rtn", "head_bits": 5}, "it should be 16, 8, 6 or 4, not 5"),
        ("int5", "'none', 'int8' or 'int4', not 'int5'"),
    ],
)
def test_an_impossible_quantization_is_refused_in_one_sentence(content, reason):
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(Quantization).validate_python(content)
    assert reason in explain(caught.value)


def test_plans_have_the_sparsity_plans_shape(tmp_path):
    assert PLAN.budget == (4 * 100 + 2 * 300 + 8 * 100 + 3 * 300) / 800
    assert PLAN.with_cells({(0, 1): 6}).bits == ((4, 6), (8, 3))
    assert BitsPlan.uniform(LAYOUT, 3).bits == ((3, 3), (3, 3))
    file = tmp_path / "bits.json"
    file.write_text(PLAN.model_dump_json())
    assert load_bits_plan(file) == PLAN
    file.write_text(json.dumps({"layout": LAYOUT.model_dump(), "bits": [[4, 4]]}))
    with pytest.raises(WinaError, match=r"is not a plan of bits .*2 layers x 2 projections"):
        load_bits_plan(file)
    with pytest.raises(WinaError, match="This plan of bits was made for a model with 2 layers"):
        PLAN.for_layout(PlanLayout(projections=("q",), parameters=((1,),)))


@pytest.mark.parametrize("by_energy", [False, True])
def test_planes_have_even_bits_and_by_energy_any_mean_up_to_twelve(by_energy):
    allowed = (2, 3.3, 6.25, 12, 16) if by_energy else (2, 4, 6, 8, 10, 12, 16)
    for bits in allowed:
        spec = QuantizationSpec(quantizer="planes", bits=bits, by_energy=by_energy)
        assert spec.reads_text == by_energy
    plan = BitsPlan(layout=LAYOUT, bits=((2.0, 12.0), (16.0, 4.0)))
    spec = QuantizationSpec(quantizer="planes", bits=plan, by_energy=by_energy)
    assert QuantizationSpec.model_validate_json(spec.model_dump_json()) == spec


# ---- joint allocations -----------------------------------------------------------------------------------------------


RTN = QuantizationSpec(quantizer="rtn", bits=4)
PLANES = QuantizationSpec(quantizer="planes", bits=6)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, "A joint allocation needs a budget: give bits_read, bits_held or both."),
        ({"bits_held": 6}, "Weights in planes need a budget of bits read; give bits_read."),
        ({"bits_held": 6, "quantization": PLANES}, "Weights in planes need a budget of bits read; give bits_read."),
        ({"bits_read": 0}, "bits_read: it should be greater than 0, not 0."),
        ({"bits_read": 4.5, "bits_held": 5, "quantization": PLANES}, "in planes, not 5"),
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


def test_other_quantizers_need_one_of_both_budgets():
    for budget in ({"bits_read": 4}, {"bits_held": 4}):
        spec = JointSpec(quantization=RTN, **budget)
        assert not spec.in_planes
        assert spec.choices == (2, 3, 4, 6, 8)


def test_budgets_change_no_measurement():
    one, other = (JointSpec(bits_read=read, quantization=RTN) for read in (3, 5))
    assert one.measured == other.measured
