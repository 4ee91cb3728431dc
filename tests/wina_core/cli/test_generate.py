"""`wina generate` on a tiny model."""

import io
import json
import sys
from pathlib import Path

import pytest

from tests.wina_core.conftest import Wina
from tests.wina_core.tiny import tiny_folder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture
def generate(model: Path) -> tuple[object, ...]:
    return "generate", "--model", model, "--device", "cpu"


def test_answers_come_side_by_side_with_every_number(wina: Wina, generate: tuple[object, ...]) -> None:
    flags = ("--sparsity", 0.5, "--sparsity", 0.8, "--max-new-tokens", 5, "--json")
    dense, half, most = json.loads(wina.succeeds(*generate, "A prompt", *flags))
    assert [completion["answer"] for completion in (dense, half, most)] == ["dense", "wina 50 %", "wina 80 %"]
    assert (dense["speedup"], dense["mean_divergence"], dense["first_difference"]) == (None, None, None)
    assert half["sparsity"] == pytest.approx(0.5)
    assert 0 < half["mean_divergence"] < most["mean_divergence"]
    assert [token["read"] for token in half["tokens"]] == [8, 1, 1, 1, 1]
    out = wina.succeeds(*generate, "A prompt", "--sparsity", 0.5, "--max-new-tokens", 5)
    assert out.startswith("dense: 5 tokens, reached max length; prefill 8 tokens in ")
    assert "wina 50 %: 5 tokens" in out
    assert "sparsity 50.0 %; mean KL " in out


def test_a_prompt_is_read_from_stdin_and_an_empty_one_refused(
    wina: Wina, generate: tuple[object, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("From elsewhere"))
    out = wina.succeeds(*generate, "-", "--method", "dense", "--max-new-tokens", 1, "--json")
    assert [dense["prompt_tokens"] for dense in json.loads(out)] == [len("From elsewhere")]
    assert wina.fails(1, *generate, "") == "wina: The prompt is empty; write some text."
    assert "no chat template" in wina.fails(1, *generate, "A prompt", "--apply-chat-template")
