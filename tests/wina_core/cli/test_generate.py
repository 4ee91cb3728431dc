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


def test_completions_are_stored_listed_shown_and_erased(wina: Wina, generate: tuple[object, ...]) -> None:
    assert json.loads(wina.succeeds("completions", "--json")) == []
    flags = ("--sparsity", 0.5, "--max-new-tokens", 16)
    assert "Stored" not in wina(*generate, "Not this one", *flags, "--no-store")[2]
    _, out, err = wina(*generate, "A prompt", *flags, "--json")
    first = json.loads(out)
    assert "Stored in " in err
    assert "--no-store" in err
    gated, dense = sorted(json.loads(wina.succeeds("completions", "--json")), key=lambda row: row["KL"] is None)
    assert (gated["configuration"], dense["configuration"], gated["prompt"]) == ("wina 50 %", "dense", "A prompt")
    shown = json.loads(wina.succeeds("completions", "show", gated["id"], "--json"))
    assert [shown["dense"]["text"], shown["text"]] == [each["text"] for each in first]
    assert shown["tokens"] == first[1]["tokens"]
    out = wina.succeeds("completions", "show", gated["id"])
    assert "A prompt" in out
    assert "wina 50 %: 16 tokens, reached max length" in out
    assert "wina 50 %" in wina.succeeds("completions", "--search", "wina PROMPT")
    wina.succeeds("completions", "delete", gated["id"])
    assert json.loads(wina.succeeds("completions", "--json")) == []
    assert "No completion 7 is stored" in wina.fails(1, "completions", "show", 7)


def test_answers_come_side_by_side_with_every_number(wina: Wina, generate: tuple[object, ...]) -> None:
    flags = ("--sparsity", 0.5, "--sparsity", 0.8, "--max-new-tokens", 5, "--no-store", "--json")
    dense, half, most = json.loads(wina.succeeds(*generate, "A prompt", *flags))
    assert [completion["answer"] for completion in (dense, half, most)] == ["dense", "wina 50 %", "wina 80 %"]
    assert (dense["speedup"], dense["mean_divergence"], dense["first_difference"]) == (None, None, None)
    assert half["sparsity"] == pytest.approx(0.5)
    assert 0 < half["mean_divergence"] < most["mean_divergence"]
    out = wina.succeeds(*generate, "A prompt", "--sparsity", 0.5, "--max-new-tokens", 5)
    assert out.startswith("dense: 5 tokens, reached max length; first token after ")
    assert " ms, prefill of 8 tokens; decode " in out
    assert "speed-up" not in out  # of four passes
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
