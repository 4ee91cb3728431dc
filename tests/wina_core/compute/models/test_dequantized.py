"""GGUF files are dequantized once, to what transformers makes of them, and opened as any other model."""

from pathlib import Path

import gguf
import pytest
import torch
from transformers import AutoModelForCausalLM, GgufConfig

from tests.wina_core.tiny import tiny_tokenizer
from tests.wina_core.tiny_gguf import TEMPLATE, gguf_model, tiny_gguf
from wina_core.compute.models import dequantized as module
from wina_core.compute.models.loading import LoadedModel, load_model
from wina_core.compute.models.shape import summarize
from wina_core.compute.reporter import NullReporter
from wina_core.errors import Cancelled, WinaError
from wina_core.model_info.cost.describe import check_source
from wina_core.model_info.gguf_header import GGUF_FAMILIES
from wina_core.model_info.resolve import dequantized_folder, files_of, resolve
from wina_core.model_info.sizes import weights_bytes
from wina_core.specs import ModelSource

IDS = torch.arange(24)[None]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of the test's own."""
    monkeypatch.setenv("WINA_HOME", str(tmp_path / "home"))


def opened(location: Path) -> LoadedModel:
    return load_model(resolve(ModelSource(location=str(location))), NullReporter())


def logits(model: torch.nn.Module) -> torch.Tensor:
    """The logits of some tokens."""
    with torch.no_grad():
        return model(IDS).logits


@pytest.mark.parametrize("architecture", GGUF_FAMILIES)
def test_weights_in_a_file_are_those_of_the_model(tmp_path: Path, architecture: str):
    loaded = opened(tiny_gguf(tmp_path / "tiny.gguf", architecture))
    torch.testing.assert_close(logits(loaded.model), logits(gguf_model(architecture)), rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_0", "F16", "BF16"])
def test_logits_equal_those_of_transformers_bit_for_bit(tmp_path: Path, kind: str):
    file = tiny_gguf(tmp_path / "tiny.gguf", "llama", kind)
    theirs = AutoModelForCausalLM.from_pretrained(
        tmp_path, gguf_file=file.name, quantization_config=GgufConfig(dequantize=True), dtype=torch.float32
    )
    ours = opened(tmp_path)
    assert ours.dtype == torch.float32
    assert torch.equal(logits(ours.model), logits(theirs))


def test_a_file_is_dequantized_once_and_then_described_without_loading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tiny_gguf(tmp_path / "tiny.gguf", "llama", "Q4_0")
    source, facts = check_source(ModelSource(location=str(file)))
    assert facts is None
    with pytest.raises(WinaError, match="wina model info"):
        files_of(source)
    size = weights_bytes(source)
    loaded = load_model(source, NullReporter())
    monkeypatch.setattr(module, "_write_folder", lambda *_: pytest.fail("it was dequantized again"))
    again = load_model(source, NullReporter())
    assert torch.equal(logits(loaded.model), logits(again.model))
    assert weights_bytes(source) == size
    _, facts = check_source(source)
    summary = summarize(again)
    assert facts is not None
    assert facts.parameters == summary.parameters
    assert "quantized before" in summary.remarks[0]
    assert "3.5 bits" in summary.remarks[0]


def test_tokenizer_and_chat_template_come_from_the_file_alone(tmp_path: Path):
    file = tiny_gguf(tmp_path / "tiny.gguf")
    (tmp_path / "tokenizer.json").write_text("{}")
    (tmp_path / "tokenizer_config.json").write_text('{"auto_map": {"AutoTokenizer": ["evil.Evil", null]}}')
    (tmp_path / "adapter_config.json").write_text("{}")
    loaded = opened(file)
    text = "rows of a matrix"
    assert loaded.tokenizer(text).input_ids == tiny_tokenizer()(text).input_ids
    assert loaded.tokenizer.chat_template == TEMPLATE
    assert loaded.tokenizer.eos_token_id == 256


_FREQUENCIES = 500_000.0 ** -torch.arange(0, 1, 0.25)
_WAVES = 2 * torch.pi / _FREQUENCIES
_MIDDLE = 1 / ((1 - (8192 / _WAVES - 1) / 3) / 8 + (8192 / _WAVES - 1) / 3)
DIVISORS = torch.where(_WAVES > 8192, 8.0, torch.where(_WAVES < 2048, 1.0, _MIDDLE))
"""As llama.cpp's converter writes them for Llama 3.1: a wave, one between, and two plain ones."""


def test_scaled_positions_of_llama_3_are_kept(tmp_path: Path):
    fields = {"llama.rope.freq_base": 500_000.0}
    file = tiny_gguf(tmp_path / "tiny.gguf", fields=fields, tensors={"rope_freqs.weight": DIVISORS})
    loaded = opened(file)
    assert loaded.model.config.rope_parameters["rope_type"] == "llama3"
    assert loaded.model.config.rope_parameters["factor"] == 8
    torch.testing.assert_close(loaded.model.model.rotary_emb.inv_freq, _FREQUENCIES / DIVISORS)


def test_positions_scaled_in_other_ways_are_refused(tmp_path: Path):
    file = tiny_gguf(tmp_path / "tiny.gguf", tensors={"rope_freqs.weight": torch.tensor([1.0, 3.0, 2.0, 8.0])})
    with pytest.raises(WinaError, match="rotary positions"):
        opened(file)


@pytest.mark.parametrize(
    ("fields", "tensors", "reason"),
    [
        ({}, {"blk.0.attn_q.bias": torch.zeros(32)}, "has .* weights|has places|has"),
        ({"llama.block_count": 2**30}, {}, "layers are more than"),
        ({"llama.embedding_length": 2**30}, {}, "holds|describes"),
        ({"llama.attention.head_count_kv": 3}, {}, "cannot share"),
        ({"qwen2.attention.head_count_kv": 3}, {}, "cannot share"),  # transformers takes those of other architectures
        ({"llama.embedding_length": 30}, {}, "cannot be opened"),
        ({"tokenizer.ggml.model": "other"}, {}, "cannot be opened"),
    ],
)
def test_fields_that_do_not_fit_the_weights_are_refused(
    tmp_path: Path, fields: dict[str, object], tensors: dict[str, torch.Tensor], reason: str
):
    source = resolve(ModelSource(location=str(tiny_gguf(tmp_path / "t.gguf", fields=fields, tensors=tensors))))
    with pytest.raises(WinaError, match=reason) as refused:
        load_model(source, NullReporter())
    assert source.location in str(refused.value)
    cache = dequantized_folder(Path(source.location)).parent
    assert str(cache) not in str(refused.value)
    assert not [path for path in cache.glob("*") if path.is_dir()]


def test_a_cancelled_dequantization_leaves_nothing(tmp_path: Path):
    class Cancelling(NullReporter):
        def progress(self, done: float, *_: object) -> None:
            self.done = done

        def check(self) -> None:
            if getattr(self, "done", 0) >= 3:
                raise Cancelled

    source = resolve(ModelSource(location=str(tiny_gguf(tmp_path / "tiny.gguf"))))
    dequantize, reader = gguf.dequantize, gguf.GGUFReader
    with pytest.raises(Cancelled):
        load_model(source, Cancelling())
    folder = dequantized_folder(Path(source.location))
    assert not [path for path in folder.parent.iterdir() if path.is_dir()]
    assert (gguf.dequantize, gguf.GGUFReader) == (dequantize, reader)


def test_a_machine_without_memory_or_disk_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    source = resolve(ModelSource(location=str(tiny_gguf(tmp_path / "tiny.gguf"))))
    monkeypatch.setenv("WINA_MEMORY", "1KB")
    with pytest.raises(WinaError, match="of memory"):
        load_model(source, NullReporter())
