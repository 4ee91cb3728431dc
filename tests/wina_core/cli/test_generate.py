"""`wina generate` on a tiny model."""

import io
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.wina_core.conftest import Wina
from tests.wina_core.tiny import tiny_folder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture
def generate(wina: Wina, model: Path) -> Callable[..., tuple[int, str, str]]:
    return partial(wina, "generate", "--model", model, "--device", "cpu")


def test_answers_come_side_by_side_with_every_number(generate) -> None:
    code, out, err = generate("A prompt", "--sparsity", "0.5", "--sparsity", "0.8", "--max-new-tokens", "5", "--json")
    assert code == 0, err
    dense, half, most = json.loads(out)
    assert [completion["answer"] for completion in (dense, half, most)] == ["dense", "wina 50 %", "wina 80 %"]
    assert (dense["speedup"], dense["mean_divergence"], dense["first_difference"]) == (None, None, None)
    assert half["sparsity"] == pytest.approx(0.5)
    assert 0 < half["mean_divergence"] < most["mean_divergence"]
    assert [token["read"] for token in half["tokens"]] == [8, 1, 1, 1, 1]
    code, out, err = generate("A prompt", "--sparsity", "0.5", "--max-new-tokens", "5")
    assert code == 0, err
    assert out.startswith("dense: 5 tokens, reached max length; prefill 8 tokens in ")
    assert "wina 50 %: 5 tokens" in out
    assert "sparsity 50.0 %; mean KL " in out


def test_a_prompt_is_read_from_stdin_and_an_empty_one_refused(generate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("From elsewhere"))
    code, out, err = generate("-", "--method", "dense", "--max-new-tokens", "1", "--json")
    assert code == 0, err
    (dense,) = json.loads(out)
    assert dense["prompt_tokens"] == len("From elsewhere")
    code, _, err = generate("")
    assert (code, err) == (1, "wina: The prompt is empty; write some text.\n")
    code, _, err = generate("A prompt", "--apply-chat-template")
    assert code == 1
    assert "no chat template" in err
