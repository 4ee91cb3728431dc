"""Transposed weights give back the pages of those in files, and nobody else's."""

import sys
from pathlib import Path

import pytest
import torch

from tests.wina_core.tiny import tiny_model, tiny_text, tiny_tokenizer, tiny_tokens
from wina_core.compute.gating import attach
from wina_core.compute.models.loading import load_model
from wina_core.compute.models.mapped import in_files
from wina_core.compute.reporter import NullReporter
from wina_core.compute.rotation import rotate
from wina_core.files.hardware import MEMORY_VARIABLE
from wina_core.specs import MethodSpec, ModelSource, RotationSpec, TextSpec
from wina_core.specs.plans import UniformSparsity

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="weights stay in their files on Linux alone")
LARGER_THAN_A_PAGE = {
    "llama": {"intermediate_size": 512},
    "qwen3_moe": {"moe_intermediate_size": 256},
    "gpt_oss": {"intermediate_size": 256},  # gate and up lie between each other
}


@pytest.mark.parametrize("memory", ["", pytest.param("1M", marks=LINUX)])
@pytest.mark.parametrize("rotated", [False, True])
@pytest.mark.parametrize("family", LARGER_THAN_A_PAGE)
def test_a_model_in_files_is_the_same_while_transposed_and_afterwards(
    family: str, rotated: bool, memory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if memory:
        monkeypatch.setenv(MEMORY_VARIABLE, memory)
    tiny_model(family, **LARGER_THAN_A_PAGE[family]).save_pretrained(tmp_path / "model")
    tiny_tokenizer().save_pretrained(tmp_path / "model")
    loaded = load_model(ModelSource(location=str(tmp_path / "model"), dtype="float32"), NullReporter())
    if rotated:
        text = TextSpec(source=tiny_text(tmp_path), tokens=256, sequence=64)
        rotate(loaded, RotationSpec(text=text), NullReporter())
    ids = tiny_tokens(1, 3)

    @torch.no_grad()
    def logits() -> torch.Tensor:
        return loaded.model(ids, use_cache=False).logits

    before = logits()
    method, plan = MethodSpec(name="wina"), UniformSparsity(sparsity=0.5)
    with attach(loaded, method, plan):
        gated = logits()
    with attach(loaded, method, plan, kernels=True) as gates:
        weights = [transposed.weight_t for transposed in gates.transposed]
        assert len(in_files(weights)) == (len(weights) if memory else 0)
        torch.testing.assert_close(logits(), gated, rtol=0, atol=1e-4)
    torch.testing.assert_close(logits(), before, rtol=0, atol=1e-4)
