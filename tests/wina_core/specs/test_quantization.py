"""Specs of quantization, plans of bits and joint allocations: validation, labels, hashes and files."""

import json

import pytest
from pydantic import TypeAdapter, ValidationError

from wina_core.errors import WinaError, explain
from wina_core.specs import BitsPlan, JointSpec, ModelSource, Quantization, QuantizationSpec, TextSpec, load_bits_plan
from wina_core.specs.plans import PlanLayout

LAYOUT = PlanLayout(projections=("q", "down"), parameters=((100, 300), (100, 300)))
PLAN = BitsPlan(layout=LAYOUT, bits=((4, 2), (8, 3)))


def test_every_field_of_a_quantization_changes_the_source_but_its_plans_provenance_does_not():
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
    specs = [QuantizationSpec(**{"quantizer": "gptq", "bits": 4} | change) for change in changes]
    sources = [ModelSource(location="demo", quantization=spec) for spec in specs]
    assert len({source.content_hash() for source in sources}) == len(changes)
    assert ModelSource.model_validate_json(sources[6].model_dump_json()) == sources[6]
    edited = QuantizationSpec(quantizer="gptq", bits=PLAN.model_copy(update={"provenance": "edited"}))
    assert ModelSource(location="demo", quantization=edited).content_hash() == sources[6].content_hash()


@pytest.mark.parametrize(
    ("fields", "label"),
    [
        ({"quantizer": "hqq"}, "4 bits hqq"),
        ({"quantizer": "gptq", "bits": 4.2, "by_energy": True, "head_bits": 8}, "4.2 bits gptq by energy, head 8"),
        ({"quantizer": "rtn", "bits": 3, "group": 32}, "3 bits rtn, group 32"),
        ({"quantizer": "planes", "bits": 6, "group": 32}, "6 bits planes"),
        (
            {"quantizer": "gptq", "text": TextSpec(tokens=64)},
            "4 bits gptq, on 64 tokens of demo:calibration",
        ),
    ],
)
def test_a_label_names_what_differs_from_the_usual(fields, label):
    assert QuantizationSpec(**fields).label == label


RTN = QuantizationSpec(quantizer="rtn", bits=4)
PLANES = QuantizationSpec(quantizer="planes", bits=6)


@pytest.mark.parametrize(
    ("kind", "content", "reason"),
    [
        (
            Quantization,
            {"quantizer": "hqq", "bits": 5},
            "A whole matrix has 2, 3, 4, 6, 8 or 16 bits, not 5; choose one",
        ),
        (Quantization, {"quantizer": "hqq", "bits": 1}, "it should be greater than or equal to 2, not 1"),
        (Quantization, {"quantizer": "planes", "bits": PLAN}, "2, 4, 6, 8, 10, 12 or 16 bits in planes, not 3;"),
        (Quantization, {"quantizer": "planes", "bits": 12.5, "by_energy": True}, "have 2 to 12 bits, not 12.5; choose"),
        (Quantization, {"quantizer": "rtn", "group": 48}, "it should be 16, 32, 64 or 128, not 48"),
        (Quantization, "int5", "'none', 'int8' or 'int4', not 'int5'"),
        (JointSpec, {}, "A joint allocation needs a budget: give bits_read, bits_held or both."),
        (JointSpec, {"bits_held": 6}, "Weights in planes need a budget of bits read; give bits_read."),
        (JointSpec, {"bits_read": 0}, "bits_read: it should be greater than 0, not 0."),
        (JointSpec, {"bits_read": 4.5, "bits_held": 5, "quantization": PLANES}, "in planes, not 5"),
        (JointSpec, {"bits_read": 4, "quantization": RTN, "widths": (4, 5)}, "2, 3, 4, 6, 8 or 16 bits, not 5"),
    ],
)
def test_what_no_quantizer_makes_is_refused_in_one_sentence(kind, content, reason):
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(kind).validate_python(content)
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


def test_planes_by_energy_are_the_default_and_hold_eight_bits_without_a_budget():
    spec = JointSpec(bits_read=4.5)
    assert spec.in_planes
    assert spec.in_planes_held == QuantizationSpec(quantizer="planes", bits=8, by_energy=True)
    assert spec.label == "joint, 4.5 bits read"
    assert JointSpec(bits_read=4.5, bits_held=6).in_planes_held.bits == 6
    assert JointSpec(bits_read=4.5, bits_held=20).in_planes_held.bits == 12, "the most that planes have"
    assert JointSpec(bits_read=4.5, quantization=PLANES).in_planes_held == PLANES
    assert JointSpec(bits_read=4, quantization=RTN).choices == (2, 3, 4, 6, 8)


def test_budgets_change_no_measurement():
    one, other = (JointSpec(bits_read=read, quantization=RTN) for read in (3, 5))
    assert one.measured == other.measured
