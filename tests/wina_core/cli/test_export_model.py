"""`wina export-model` writes a stored run's gated model, or one of flags."""

import filecmp
import json
from pathlib import Path

import pytest

from tests.wina_core.tiny import tiny_folder, tiny_loaded, tiny_text
from wina_core.specs.plans import SparsityPlan
from wina_core.store import Store


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return tiny_folder(tmp_path / "model")


def test_a_stored_run_is_exported_with_its_results(wina, model, tmp_path):
    database, out = tmp_path / "results.sqlite", tmp_path / "sparse"
    text = tiny_text(tmp_path)
    flags = ("--method", "wina", "--rotation", "none")
    wina.succeeds("eval", "--model", model, "--text", text, "--tokens", 512, *flags, "--database", database)
    with Store(database) as store:
        (run,) = store.run_details()
    found = json.loads(wina.succeeds("export-model", out, "--run", run[:10], "--database", database, "--json"))
    assert found["folder"] == str(out)
    assert found["bytes"] == sum(file.stat().st_size for file in out.iterdir())
    assert json.loads((out / "config.json").read_text())["quantization_config"]["run"] == run
    card = (out / "README.md").read_text()
    assert "| fidelity | kl |" in card
    assert "wina export-model sparse --model ./model --method wina --sparsity 0.5\n" in card
    assert "is an exported sparse model" in wina.fails(1, "rotate", out)
    shown = wina.succeeds("export-model", tmp_path / "same", "--model", model, *flags, "--database", database)
    assert " MB" in shown
    assert (tmp_path / "same" / "README.md").read_text() == card.replace("model sparse", "model same")


def test_a_folder_has_its_uneven_plan_which_makes_it_again(wina, model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    layout = tiny_loaded().view.layout
    cells = [[0.2 + 0.1 * (layer == 0) for _ in layout.projections] for layer in range(layout.layers)]
    (tmp_path / "mine.json").write_text(SparsityPlan(layout=layout, sparsity=cells).model_dump_json())
    wina.succeeds("export-model", "one", "--model", model, "--plan", "mine.json")
    card = (tmp_path / "one" / "README.md").read_text()
    (command,) = [line for line in card.splitlines() if line.startswith("wina export-model")]
    monkeypatch.chdir(tmp_path / "one")
    wina.succeeds(
        *["../two" if word == "one" else model if word == "./model" else word for word in command.split()[1:]]
    )
    assert filecmp.cmp("plan.wina.json", "../two/plan.wina.json")
    assert filecmp.cmp("model.safetensors", "../two/model.safetensors", shallow=False)


def test_what_cannot_be_exported_is_one_sentence(wina, model, tmp_path):
    out = tmp_path / "sparse"
    one = "give one sparsity or one plan."
    assert wina.fails(1, "export-model", out, "--model", model, "--sparsity", 0.4, "--sparsity", 0.5).endswith(one)
    assert "No run begins" in wina.fails(1, "export-model", out, "--run", "abc")
    beside = wina.fails(1, "export-model", out, "--run", "abc", "--sparsity", 0.5, "--rotation", "none")
    assert beside.endswith("leave out --rotation, --sparsity, or --run.")
    assert "drops nothing" in wina.fails(1, "export-model", out, "--model", model, "--method", "dense")
