"""The command line: the same jobs as in the window, one sentence for what goes wrong, and nothing computed twice."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.wina_core.conftest import Wina
from tests.wina_core.tiny import tiny_folder, tiny_text
from wina_core.api.arguments import rotation_spec
from wina_core.model_info.resolve import demo_folder
from wina_core.specs import FREE_KL_ROTATION, FREE_ROTATION, NO_ROTATION, RotationSpec, TextSpec
from wina_core.specs.plans import PlanLayout, SparsityPlan
from wina_core.studies.expand import load_study

STUDY = """
name = "tiny grid"
sparsities = [0.5]
models = [{ location = "demo", dtype = "float32" }]
configurations = [{}, { method = { name = "teal" } }, { method = { name = "wina" } }]

[evaluation]
tasks = ["demo_choice"]
limit = 2
fidelity = { source = "demo:heldout", tokens = 256, sequence = 64 }
"""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "study.toml"
    path.write_text(STUDY)
    return path


# ---- what it does ------------------------------------------------------------------------------------------------


def test_a_study_is_computed_once_shown_filtered_and_exported(
    wina: Wina, study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = json.loads(wina.succeeds("study", "run", study, "--json"))
    assert [(row["method"], row["target"]) for row in rows] == [("dense", 0.0), ("teal", 0.5), ("wina", 0.5)]
    assert rows[0]["kl"] == rows[0]["gated"] == 0.0
    assert all(row["gated"] == pytest.approx(row["target"], abs=0.01) for row in rows)
    *without_norms, by_norms = rows
    assert all(row["net"] == row["gated"] for row in without_norms)
    assert by_norms["gated"] - 0.05 < by_norms["net"] < by_norms["gated"]
    assert all(0.0 <= row["demo_choice acc"] <= 1.0 for row in rows)

    def computed(*_: object) -> None:
        raise AssertionError("computed again")

    with monkeypatch.context() as patch:
        patch.setattr("wina_core.engine.server.evaluate._measure", computed)
        code, out, err = wina("study", "run", study, "--json")
        assert code == 0
        assert "6 of 6 measurements are stored and reused" in err
        assert json.loads(out) == rows

    assert json.loads(wina.succeeds("results", "--json", "--study", "tiny grid")) == rows
    only = json.loads(wina.succeeds("results", "--json", "--method", "wina", "--metric", "acc"))
    assert [(row["method"], row["demo_choice acc"]) for row in only] == [("wina", by_norms["demo_choice acc"])]
    text = wina.succeeds("results").splitlines()
    assert text[0].split()[:4] == ["model", "method", "rotation", "gated"]
    assert len(text) == 1 + len(rows)

    for suffix in ("csv", "json", "tex"):
        wina.succeeds("export", tmp_path / f"table.{suffix}", "--tasks", "demo_choice", "--metric", "acc")
    exported = json.loads((tmp_path / "table.json").read_text())
    assert [row["value"] for row in exported] == [row["demo_choice acc"] for row in rows]
    assert len((tmp_path / "table.csv").read_text().splitlines()) == 1 + len(rows)

    again = json.loads(wina.succeeds("study", "run", study, "--json", "--recompute"))
    assert again == rows


def test_eval_is_a_study_of_one_method_that_can_be_saved(wina: Wina, tmp_path: Path) -> None:
    text, saved = tmp_path / "text.txt", tmp_path / "study.json"
    text.write_text((demo_folder() / "text" / "heldout.txt").read_text(encoding="utf-8"), encoding="utf-8")
    flags = ("--rotation", "none", "--rotate-heads", "--rotation-text", text, "--calibration-text", text)
    more = ("--calibration-tokens", "1024", "--method", "dense", "--tasks", "demo_choice", "--limit", "2")
    rows = json.loads(wina.succeeds("eval", *flags, *more, "--no-fidelity", "--save-study", saved, "--json"))
    assert [(row["method"], row["rotation"]) for row in rows] == [("dense", "none + heads, norms folded")]
    assert [name for name in rows[0] if name.startswith("demo_choice")]
    study = load_study(saved)
    assert study.calibration.text == TextSpec(source=str(text), tokens=1024)
    rotation = study.configurations[0].rotation
    assert (rotation.mode, rotation.per_head, rotation.text.source) == ("none", True, str(text))
    code, out, err = wina("study", "run", saved, "--json")
    assert code == 0
    assert "2 of 2 measurements are stored and reused" in err, "the cost of a token is one"
    assert json.loads(out) == rows


def test_eval_shows_what_16_bits_cost_beside_the_gates(wina: Wina, tmp_path: Path) -> None:
    model = ("--model", tiny_folder(tmp_path / "model", dtype=torch.float32), "--no-fidelity", "--original")
    read = ("--text", tiny_text(tmp_path), "--tokens", "512", "--method", "teal", "--json")
    floor, gated = json.loads(wina.succeeds("eval", *model, *read, "--dtype", "bfloat16"))
    assert (floor["method"], gated["method"]) == ("dense", "teal")
    assert 0 < floor["original kl"] < gated["original kl"]
    assert [row["method"] for row in json.loads(wina.succeeds("eval", *model, *read, "--dtype", "float32"))] == ["teal"]


def test_eval_scores_the_positions_of_numbers_imported_for_the_model(wina: Wina, tmp_path: Path) -> None:
    wina.succeeds("import", Path(__file__).parents[1] / "store" / "imported" / "data" / "kl.log", "--model", "demo")
    read = ("--method", "dense", "--text", tiny_text(tmp_path), "--tokens", "512", "--no-fidelity", "--original")
    for flags, scored in (((), "second_half"), (("--no-second-half",), "all")):
        wina.succeeds("eval", *read, *flags, "--save-study", tmp_path / "study.json")
        original = load_study(tmp_path / "study.json").evaluation.original
        assert original is not None
        assert original.scored == scored


def test_a_rotation_is_shown_and_saved(wina: Wina, tmp_path: Path) -> None:
    model, target = tiny_folder(tmp_path / "model"), tmp_path / "a folder with ünïcode"
    flags = ("--rotation", "global", "--attention-basis", "qkv", "--mlp-basis", "gate_up")
    report = json.loads(wina.succeeds("rotate", model, *flags, "--output-path", target, "--json"))
    assert report["shortcut_parameters"] == 0
    assert report["exported_to"] == str(target)
    assert json.loads(wina.succeeds("model", "info", target, "--json"))["architecture"] == "LlamaForCausalLM"


def test_rotate_measures_candidates_and_says_which_is_taken(wina: Wina, tmp_path: Path) -> None:
    folder, text = tiny_folder(tmp_path / "model"), tiny_text(tmp_path)
    flags = ("--rotation-text", text, "--rotation-tokens", "1024", "--rotation-sparsity", "0.65")
    report = json.loads(wina.succeeds("rotate", folder, *flags, "--spectra", "--json"))
    assert report["choice"]["sparsity"] == 0.65
    assert {(each["layer"], each["site"]) for each in report["spectra"]} == {
        (layer, site) for layer in range(3) for site in ("attention", "mlp", "o", "down")
    }
    printed = wina.succeeds("rotate", folder, *flags, "--spectra")
    assert report["verdict"] in printed
    assert "for 90 %" in printed
    evaluated = ("--rotation", "auto", *flags, "--text", text, "--tokens", "512", "--sparsity", "0.5")
    (row,) = json.loads(wina.succeeds("eval", "--model", folder, *evaluated, "--json"))
    assert row["rotation"].startswith("auto at 65 %")


def test_free_is_the_proposed_rotation_and_any_flag_changes_just_that() -> None:
    assert rotation_spec("free") == FREE_ROTATION
    assert (rotation_spec("global", heads=False).per_head, rotation_spec("none", heads=True).per_head) == (False, True)
    changed = rotation_spec("free", heads=False, steps=20, tokens=4096)
    text = TextSpec(tokens=4096)
    assert changed == FREE_ROTATION.model_copy(update={"per_head": False, "steps": 20, "text": text})
    assert rotation_spec("free", objective="kl") == FREE_KL_ROTATION
    assert rotation_spec("global") == RotationSpec(fold_norms="exact")
    assert rotation_spec("global", fold_norms="none") == RotationSpec()
    assert rotation_spec("none", fold_norms="all") == NO_ROTATION.model_copy(update={"fold_norms": "all"})


# ---- what goes wrong ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "words", "message"),
    [
        (1, ("model", "info", "/no/such/model"), "The model folder /no/such/model does not exist"),
        (1, ("eval", "--method", "magic", "--no-fidelity", "--tasks", "demo_choice"), 'There is no method "magic"'),
        (1, ("eval", "--no-fidelity"), "Nothing would be measured"),
        (1, ("results", "--study", "x"), 'No study "x" is stored'),
        (1, ("latency", "--shape", "5x"), '"5x" is not a shape; write outputs x inputs'),
        (1, ("latency", "demo"), 'Only decoding is timed on a model; add --decode, or give shapes instead of "demo".'),
        (1, ("latency", "--decode"), "--decode needs a model; name a folder"),
        (1, ("latency", "demo", "--decode", "--shape", "64x48"), "A model has its own shapes"),
        (1, ("latency", "demo", "--decode", "--method", "teal", "--method", "wina"), "--method takes one value"),
        (
            2,
            ("latency", "demo", "--decode", "--new-tokens", "1"),
            "new_tokens: it should be greater than or equal to 2",
        ),
        (1, ("latency", "--rotation", "global"), "Single products have no rotation, quantization, shared masks"),
        (1, ("study", "run", "none.toml"), "cannot be read"),
        (1, ("export", "table.xyz"), "end its name in one of .csv"),
        (2, ("rotate", "demo", "--attention-basis", "qkv,q"), "attention_basis[1]:"),
        (2, ("eval", "--sparsity=1.2"), "sparsities[0]: it should be"),
        (1, ("eval", "--by-energy"), "The other flags of quantization need --bits; add for example --bits 4."),
        (1, ("eval", "--bits", "4", "--quantization", "int8"), "Give either --quantization int8 or --bits 4."),
        (1, ("allocate", "demo", "--allocator", "gredy"), 'There is no allocator "gredy"; choose one of uniform,'),
        (1, ("eval", "--bits", "8", "--quantizer", "planes", "--group", "32"), "leave out --group"),
        (
            1,
            ("allocate", "demo", "--allocator", "joint", "--bits-read", "4", "--sparsity", "0.3"),
            "--sparsity, --rounds and --seed are for the other allocators",
        ),
        (1, ("allocate", "demo", "--refined"), "--bits-read, --bits-held and --refined need --allocator joint"),
        (2, ("eval", "--rotation", "sideways"), ""),
    ],
)
def test_a_wrong_call_is_one_sentence_and_an_exit_code(
    wina: Wina, code: int, words: tuple[str, ...], message: str
) -> None:
    assert message in wina.fails(code, *words)


def test_a_run_that_fails_leaves_earlier_results(wina: Wina, tmp_path: Path) -> None:
    common = ("eval", "--tasks", "demo_choice", "--limit", "2", "--no-fidelity", "--context", "0")
    before = wina.succeeds(*common, "--json")
    plan = SparsityPlan.uniform(PlanLayout(projections=("q",), parameters=((4,),)), 0.5)
    (tmp_path / "plan.json").write_text(plan.model_dump_json())
    message = wina.fails(1, *common, "--plan", tmp_path / "plan.json")
    assert "1 of 1 runs failed: This sparsity plan was made for a model with 1 layers x (q)" in message
    shutil.copytree(demo_folder() / "model", tmp_path / "model")
    weights = tmp_path / "model" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])
    assert "is damaged or was not copied to the end" in wina.fails(1, *common, "--model", tmp_path / "model")
    assert wina.succeeds("results", "--json") == before


# ---- the process -------------------------------------------------------------------------------------------------


def test_looking_at_results_and_help_imports_nothing_heavy() -> None:
    code = """
import sys
from wina_core import cli
late = {"torch", "transformers", "triton", "lm_eval", "pandas"}
for args, unused in (
    (["--version"], {*late, "numpy", "sqlalchemy", "wina_core.specs"}),
    (["engine", "--help"], {*late, "numpy", "sqlalchemy"}),
    (["--help"], late),
    (["eval", "--help"], late),
    (["results"], late),
):
    sys.argv[1:] = args
    try:
        cli.main()
    except SystemExit:
        pass
    heavy = unused & set(sys.modules)
    assert not heavy, (args, heavy)
"""
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
