"""llama.cpp as a peer: it reads the files that are written for it, and computes the same model."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from wina_core.compute.gguf.convert import LlamaCppModel
from wina_core.errors import WinaError

TOKENS = list(range(3, 35))


def random_llama() -> Any:
    """A random model whose head is its embedding and whose MLP is no multiple of llama.cpp's blocks."""
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        "llama", vocab_size=64, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, tie_word_embeddings=True,
    )  # fmt: skip
    model = AutoModelForCausalLM.from_config(config).eval().requires_grad_(False)
    for name, parameter in model.named_parameters():
        parameter.normal_(std=parameter.shape[-1] ** -0.5)
        if "norm" in name:
            parameter.add_(1.0)
    return model


def test_llama_cpp_computes_the_same_model(benchmark: Callable[[str], Any], tmp_path: Path) -> None:
    pytest.importorskip("llama_cpp", reason="the optional extra `peers`")
    model, file, quantized = random_llama(), tmp_path / "model.gguf", tmp_path / "quantized.gguf"
    files = benchmark("peers")
    files.write_gguf(model, file, torch.float32)
    files.quantize_gguf(file, quantized, "Q8_0", 1)
    expected = model(torch.tensor([TOKENS])).logits[0]
    with LlamaCppModel(file, 1, 64) as exact, LlamaCppModel(quantized, 1, 64) as rounded:
        distances = [float((each.logits(TOKENS) - expected).norm() / expected.norm()) for each in (exact, rounded)]
        first, last = exact.tokens_per_second(TOKENS, 3)[1][0], exact.logits(TOKENS)[-1]
    assert distances[0] < 3e-3 < distances[1] < 0.1, "a cache of 16 bits, and weights of 8"
    assert first == int(last.argmax())
    bits = benchmark("peers_kl").bits_per_weight(files.tensor_storage(quantized, 96))
    assert bits == pytest.approx(8.5), "zeros that pad the MLP are not counted"


def test_quantizations_diverge_the_more_the_fewer_their_bits(
    benchmark: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("llama_cpp", reason="the optional extra `peers`")
    monkeypatch.setattr("wina_core.compute.models.text_tokens._LONGEST", 1 << 16)
    file = tmp_path / "kl.json"
    options = ["--tokens", "128", "--sequence", "64", "--kinds", "Q8_0", "Q4_0", "--out", str(file)]
    benchmark("run").main(["peers-kl", "--dtype", "float32", "--threads", "1", *options])
    exact, eight, four = json.loads(file.read_text(encoding="utf-8"))["kinds"]
    assert (exact["kind"], eight["kind"], four["kind"]) == ("F32", "Q8_0", "Q4_0")
    assert 0 <= exact["kl"] < eight["kl"] < four["kl"]
    assert exact["bytes_read"] > eight["bytes_read"] > four["bytes_read"]
    assert (exact["bits_per_weight"], eight["bits_per_weight"], four["bits_per_weight"]) == (32, 8.5, 4.5)


def test_a_missing_extra_is_named(benchmark: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llama_cpp", None)
    with pytest.raises(SystemExit, match=r"wina-workbench\[peers\]"):
        benchmark("run").main(["peers"])


def test_a_model_that_cannot_be_written_is_refused(benchmark: Callable[[str], Any], tmp_path: Path) -> None:
    opt = SimpleNamespace(config=SimpleNamespace(model_type="opt", rope_parameters=None))
    with pytest.raises(WinaError, match="not a model of type opt"):
        benchmark("peers").write_gguf(opt, tmp_path / "opt.gguf")
