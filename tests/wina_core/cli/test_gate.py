"""`wina gate` prints what the engine finds."""

import json
from pathlib import Path

import pytest

from tests.wina_core.tiny import tiny_folder


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("tiny") / "model")


@pytest.fixture
def gate(model) -> tuple[object, ...]:
    return "gate", model, "--layer", 1, "--prompt", "A gate.", "--sparsity", 0.25


def test_methods_and_their_agreement_as_json(wina, gate):
    flags = ("--projection", "down", "--method", "teal", "--method", "cats", "--json")
    found = json.loads(wina.succeeds(*gate, *flags))
    assert (found["layer"], found["projection"], found["inputs"], found["prompt_tokens"]) == (1, "down", 80, 7)
    assert "".join(found["tokens"]) == "A gate."
    teal, cats = found["gates"]
    assert (teal["method"], teal["kept per token"], teal["kept"]) == ("teal", 60.0, 0.75)
    assert 0 < teal["output error"] < cats["output error"] < 1
    assert found["alike"][0][0] == found["jaccard"][0][0] == 1.0


def test_the_table_names_the_cell_and_what_it_cannot_show_is_one_sentence(wina, gate):
    shown = wina.succeeds(*gate, "--projection", "q", "--tokens", 3)
    assert all(words in shown for words in ("layer 1, q", "3 of 7", "mask agreement"))
    assert wina.fails(1, *gate, "--projection", "q", "--method", "cats").endswith("inspect it on up, down.")
    assert 'no method "magic"' in wina.fails(1, *gate, "--projection", "q", "--method", "magic")
