"""`wina plan`: plans go between the database and files."""

import json

from tests.wina_core.tiny import tiny_folder, tiny_text
from wina_core.specs import BitsPlan, QuantizationSpec
from wina_core.specs.plans import PlanLayout, SparsityPlan
from wina_core.specs.quantization import PlanPair, load_pair

PLAN = SparsityPlan(
    layout=PlanLayout(projections=("q", "down"), parameters=((4, 12), (4, 12))), sparsity=((0.25, 0.5), (0.75, 0.5)),
    provenance="edited",
)  # fmt: skip


def test_a_plan_with_bits_is_saved_listed_shown_exported_and_forgotten(tmp_path, wina):
    file, copy = tmp_path / "pair.json", tmp_path / "copy.json"
    bits = BitsPlan(layout=PLAN.layout, bits=((8, 4), (2, 3)), provenance="edited")
    pair = PlanPair(plan=PLAN, quantization=QuantizationSpec(quantizer="rtn", bits=bits, head_bits=8))
    file.write_text(pair.text())
    wina.succeeds("plan", "save", file, "attention last")
    (listed,) = json.loads(wina.succeeds("plan", "list", "--json"))
    assert (listed["name"], listed["provenance"], listed["budget"]) == ("attention last", "edited", PLAN.budget)
    assert PlanPair.parse(wina.succeeds("plan", "show", "attention last", "--json")) == pair
    shown = wina.succeeds("plan", "show", "attention last")
    assert all(words in shown for words in ("0.75", "3.875 bits rtn", "head 8"))
    wina.succeeds("plan", "export", "attention last", copy)
    assert load_pair(copy) == pair
    wina.succeeds("plan", "forget", "attention last")
    assert json.loads(wina.succeeds("plan", "list", "--json")) == []
    assert "no saved sparsity plan called 'missing'" in wina.fails(1, "plan", "show", "missing")


def test_a_joint_allocation_in_planes_says_how_to_evaluate_its_plan(tmp_path, wina):
    file, text = tmp_path / "pair.json", tiny_text(tmp_path)
    model = tiny_folder(tmp_path / "model")
    flags = ("--allocator", "joint", "--bits-read", "4", "--bits-held", "6", "--text", text, "--tokens", "1024")
    bits = ("--bits", "8", "--quantizer", "planes", "--by-energy", "--bits-text", text, "--bits-tokens", "1024")
    shown = wina.succeeds("allocate", model, *flags, *bits, "--output-path", file)
    assert "evaluate it with --selection threshold" in shown
    assert "predicted KL" in shown
    assert load_pair(file).quantization.bits == 6


def test_a_joint_allocation_chooses_the_bits_and_the_selection_itself(wina, planned):
    flags = ("allocate", "demo", "--allocator", "joint", "--bits-read", "4.5")
    wina.fails(1, *flags, "--selection", "threshold")
    assert planned[0].method.selection == "topk", "one allocation, whatever is said of the selection"
    message = wina.fails(1, *flags, "--quantization", "int8")
    assert "A joint allocation chooses the bits; leave out --quantization int8" in message
