"""`wina plan`: plans go between the database and files."""

import json

import pytest

from wina_core.specs import BitsPlan, QuantizationSpec
from wina_core.specs.plan_pair import PlanPair, load_pair
from wina_core.specs.plans import PlanLayout, SparsityPlan

PLAN = SparsityPlan(
    layout=PlanLayout(projections=("q", "down"), parameters=((4, 12), (4, 12))), sparsity=((0.25, 0.5), (0.75, 0.5)),
    provenance="edited",
)  # fmt: skip


def test_a_plan_is_saved_listed_shown_exported_and_forgotten(tmp_path, wina):
    file, copy = tmp_path / "plan.json", tmp_path / "copy.json"
    file.write_text(PLAN.model_dump_json())
    wina.succeeds("plan", "save", file, "attention last")
    (listed,) = json.loads(wina.succeeds("plan", "list", "--json"))
    assert (listed["name"], listed["provenance"], listed["budget"]) == ("attention last", "edited", PLAN.budget)
    assert SparsityPlan.model_validate_json(wina.succeeds("plan", "show", "attention last", "--json")) == PLAN
    assert "0.75" in wina.succeeds("plan", "show", "attention last")
    wina.succeeds("plan", "export", "attention last", copy)
    assert load_pair(copy).plan == PLAN
    wina.succeeds("plan", "forget", "attention last")
    assert json.loads(wina.succeeds("plan", "list", "--json")) == []


def test_a_plan_keeps_its_bits_in_the_database_and_in_files(tmp_path, wina):
    file, copy = tmp_path / "pair.json", tmp_path / "copy.json"
    bits = BitsPlan(layout=PLAN.layout, bits=((8, 4), (2, 3)), provenance="edited")
    pair = PlanPair(plan=PLAN, quantization=QuantizationSpec(quantizer="rtn", bits=bits, head_bits=8))
    file.write_text(pair.text())
    wina.succeeds("plan", "save", file, "both")
    shown = wina.succeeds("plan", "show", "both")
    assert "3.875 bits rtn" in shown
    assert "head 8" in shown
    wina.succeeds("plan", "export", "both", copy)
    assert load_pair(copy) == pair


@pytest.mark.parametrize("command", ["show", "forget"])
def test_a_plan_that_is_not_there_is_named(wina, command):
    assert "no saved sparsity plan called 'missing'" in wina.fails(1, "plan", command, "missing")
