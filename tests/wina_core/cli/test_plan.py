"""`wina plan`: plans go between the database and files."""

import json

import pytest

from tests.wina_core.tiny import tiny_folder, tiny_text
from wina_core.errors import WinaError
from wina_core.specs import BitsPlan, QuantizationSpec
from wina_core.specs.plans import PlanLayout, SparsityPlan
from wina_core.specs.quantization import PlanPair, load_pair

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


def test_a_plan_with_a_quantizer_that_is_not_installed_is_refused_before_anything_is_loaded(tmp_path, wina):
    file = tmp_path / "old.json"
    file.write_text(PlanPair(plan=PLAN, quantization=QuantizationSpec(quantizer="absent", bits=8)).text())
    message = wina.fails(1, "eval", "--plan", file, "--no-fidelity", "--tasks", "demo_choice")
    assert message.startswith('wina: There is no quantizer "absent"')
    wina.succeeds("plan", "save", file, "old")
    assert "8 bits absent" in wina.succeeds("plan", "show", "old"), "it can still be read"


def test_a_joint_allocation_in_planes_says_how_to_evaluate_its_plan(tmp_path, wina):
    file, text = tmp_path / "pair.json", tiny_text(tmp_path)
    model = tiny_folder(tmp_path / "model")
    flags = ("--allocator", "joint", "--bits-read", "4", "--bits-held", "6", "--text", text, "--tokens", "1024")
    bits = ("--bits", "8", "--quantizer", "planes", "--by-energy", "--bits-text", text, "--bits-tokens", "1024")
    shown = wina.succeeds("allocate", model, *flags, *bits, "--output-path", file)
    assert "evaluate it with --selection threshold" in shown
    assert "predicted KL" in shown
    assert load_pair(file).quantization.bits == 6


def test_the_cost_of_planes_is_called_an_estimate(wina):
    flags = ("demo", "--bits", "6.5", "--quantizer", "planes", "--by-energy", "--sparsity", "0.5")
    assert "are estimates for normal weights and scores" in wina.succeeds("cost", *flags)
    rows = json.loads(wina.succeeds("cost", *flags, "--json"))["rows"]
    assert rows[1]["bits_held"] == pytest.approx(6.5)
    assert 1 < rows[1]["bits_read"] < 0.6 * 6.5


@pytest.fixture
def jobs(monkeypatch):
    """The jobs that `wina allocate` would run; each ends with an error."""
    found = []

    def remember(job, *_):
        found.append(job)
        raise WinaError("enough")

    monkeypatch.setattr("wina_core.cli.planning.confirm_and_run", remember)
    return found


def test_budgets_of_other_quantizers_may_be_between_widths(wina, jobs):
    wina.fails(1, "allocate", "demo", "--allocator", "joint", "--bits-held", "4.5", "--bits", "4", "--quantizer", "rtn")
    assert jobs[0].spec.bits_held == 4.5


def test_a_joint_allocation_chooses_the_bits_and_the_selection_itself(wina, jobs):
    flags = ("allocate", "demo", "--allocator", "joint", "--bits-read", "4.5")
    wina.fails(1, *flags, "--selection", "threshold")
    assert jobs[0].method.selection == "topk", "one allocation, whatever is said of the selection"
    message = wina.fails(1, *flags, "--quantization", "int8")
    assert "A joint allocation chooses the bits; leave out --quantization int8" in message
    assert len(jobs) == 1
