"""Loading models, the uniform view of them, and every model that must be refused."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import GPT2Config, GPT2LMHeadModel

from tests.wina_core.compute.reporters import RecordingReporter
from tests.wina_core.tiny import (
    FAMILY_SETTINGS,
    KINDS,
    WITH_EXPERTS,
    tiny_folder,
    tiny_loaded,
    tiny_model,
    tiny_tokenizer,
    tiny_tokens,
)
from wina_core.compute.models import loading
from wina_core.compute.models.architectures import view
from wina_core.compute.models.loading import load_model, placement
from wina_core.compute.models.shape import summarize
from wina_core.compute.reporter import NullReporter
from wina_core.errors import Cancelled, WinaError
from wina_core.model_info.families import FAMILIES
from wina_core.model_info.resolve import resolve
from wina_core.specs import DType, ModelSource
from wina_core.specs.plans import PROJECTIONS


def _load(folder: Path, dtype: DType = "auto"):
    return load_model(ModelSource(location=str(folder), dtype=dtype), NullReporter())


@pytest.mark.parametrize(("family", "tied"), [*((family, False) for family in KINDS), ("llama", True), ("opt", True)])
def test_a_saved_model_is_loaded_as_it_was(tmp_path: Path, family: str, tied: bool) -> None:
    loaded = _load(tiny_folder(tmp_path, family, tied=tied))
    logits, expected = loaded.model(tiny_tokens()).logits, tiny_model(family, tied=tied)(tiny_tokens()).logits
    if family in WITH_EXPERTS:  # their outputs are summed in another order than by transformers' default
        torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-4)
    else:
        assert logits.equal(expected)
    assert loaded.tokenizer.decode(loaded.tokenizer("Wx, gated").input_ids) == "Wx, gated"
    assert (loaded.view.head.weight is loaded.view.embedding.weight) == tied
    assert not loaded.model.training
    assert not any(parameter.requires_grad for parameter in loaded.model.parameters())


@pytest.mark.parametrize("family", [family for family in FAMILIES if family not in WITH_EXPERTS])
def test_the_view_gives_every_family_the_shapes_it_has(family: str) -> None:
    model_view = view(tiny_model(family))
    assert len(model_view.layers) == 3
    heads = 16 if "num_key_value_heads" in FAMILY_SETTINGS[family] else 32
    gated = "gate" if family not in ("phi", "gpt_neox", "opt", "arcee", "jais2", "starcoder2") else None
    names = tuple(name for name in PROJECTIONS if name in ("q", "k", "v", "o", gated, "up", "down"))
    shapes = {"q": (32, 32), "k": (heads, 32), "v": (heads, 32), "o": (32, 32), "down": (32, 80)}
    for layer in model_view.layers:
        assert tuple(layer.projections) == names == model_view.projections
        for name, projection in layer.projections.items():
            shape = shapes.get(name, (80, 32))
            assert tuple(projection.weight.shape) == projection.shape == shape
            assert projection.bias is None or projection.bias.shape == shape[:1]
    assert model_view.layout.projections == names
    sizes = [math.prod(shapes.get(name, (80, 32))) for name in names]
    assert model_view.layout.parameters == (tuple(sizes),) * 3


def test_the_slices_of_fused_layers_are_the_projections() -> None:
    fused, separate = tiny_model("phi3"), tiny_model("mistral", seed=1)
    source, target = view(fused), view(separate)
    with torch.no_grad():
        for name in ("embedding", "final_norm", "head"):
            getattr(target, name).weight.copy_(getattr(source, name).weight)
        for theirs, ours in zip(source.layers, target.layers, strict=True):
            ours.attention_norm.weight.copy_(theirs.attention_norm.weight)
            ours.mlp_norm.weight.copy_(theirs.mlp_norm.weight)
            for name in PROJECTIONS:
                ours.projections[name].weight.copy_(theirs.projections[name].weight)
    for norm in (module for module in separate.modules() if hasattr(module, "variance_epsilon")):
        norm.variance_epsilon = source.final_norm.variance_epsilon
    torch.testing.assert_close(separate(tiny_tokens()).logits, fused(tiny_tokens()).logits)


def test_a_summary_counts_a_tied_embedding_once(tmp_path: Path) -> None:
    source = resolve(ModelSource(location=str(tiny_folder(tmp_path, "qwen2", tied=True))))
    summary = summarize(load_model(source, NullReporter()))
    biases = 3 * (32 + 16 + 16)
    assert (summary.family, summary.architecture, summary.dtype) == ("qwen2", "Qwen2ForCausalLM", "float32")
    assert (summary.heads, summary.kv_heads, summary.head_dim) == (4, 2, 8)
    assert summary.gated_parameters == 3 * 10_752
    assert summary.parameters == 3 * (10_752 + 64) + biases + 32 + 257 * 32
    assert summary.memory_bytes - 4 * summary.parameters < 200  # rotary frequencies
    assert summary.tied_embeddings
    assert summary.fingerprint == source.fingerprint
    assert not summarize(tiny_loaded("llama")).tied_embeddings


# ---- what is refused -------------------------------------------------------------------------------------------


def _edit_config(folder: Path, **changes: object) -> None:
    _edit_json(folder / "config.json", **changes)


def _edit_json(path: Path, **changes: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


UP = "model.layers.1.mlp.up_proj.weight"


def _with_weights(change: Callable[[dict[str, torch.Tensor]], object]) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        change(tensors)
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})

    return write


def _without(*names: str) -> Callable[[Path], None]:
    def remove(folder: Path) -> None:
        for name in names:
            (folder / name).unlink()

    return remove


def _pickle_only(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def _missing_shard(folder: Path) -> None:
    index = {
        "metadata": {},
        "weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"},
    }
    (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_without("config.json"), "has no config.json; choose a folder saved in the Hugging Face format"),
        (lambda folder: (folder / "config.json").write_text("{"), "config.json cannot be read"),
        (_pickle_only, r"weights only as pickle \(pytorch_model.bin\).*convert them to safetensors first"),
        (_without("model.safetensors"), "has no model.safetensors; choose a folder that holds the model's weights"),
        (_missing_shard, "model-00002-of-00002.safetensors is missing; download or copy it again"),
        (_with_weights(lambda tensors: tensors.pop(UP)), f"lack {UP}, for which its config.json asks"),
        (
            lambda folder: _edit_config(folder, intermediate_size=64),
            r"do not fit its config.json: they have other shapes than it asks for; copy both anew\.$",
        ),
        (
            lambda folder: _edit_config(folder, num_hidden_layers=-1),
            "its num_hidden_layers is -1 instead of a positive integer",
        ),
        (lambda folder: _edit_config(folder, quantization_config={"bits": 4}), "are quantized; open the model's unq"),
        (
            lambda folder: _edit_config(folder, architectures=["LlamaForSequenceClassification"]),
            "LlamaForSequenceClassification of type llama is not .*, because only LlamaForCausalLM is;",
        ),
        (lambda folder: _edit_config(folder, hidden_act="nope"), r"describes no model \(KeyError 'nope'\)"),
        (lambda folder: _edit_config(folder, rope_parameters={"rope_theta": "x"}), "describes no model"),
        (_with_weights(lambda tensors: tensors[UP][3, 5].fill_(math.nan)), f"{UP} in .* has values that are no finite"),
        (lambda folder: _edit_json(folder / "tokenizer_config.json", model_max_length="x"), "its model_max_length is"),
        (_without("tokenizer.json"), "has no tokenizer; copy tokenizer.json"),
        (lambda folder: (folder / "tokenizer.json").write_text("{}"), "tokenizer in .* cannot be opened"),
    ],
)
def test_a_broken_folder_is_refused_with_the_reason(tmp_path, damage, message):
    damage(tiny_folder(tmp_path))
    with pytest.raises(WinaError, match=message):
        _load(tmp_path)


def test_a_panic_of_the_tokenizers_library_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class PanicException(BaseException):
        """As of PyO3, which derives it from BaseException."""

    def panic(*_: object, **__: object) -> None:
        raise PanicException("called `Result::unwrap()` on an `Err` value")

    monkeypatch.setattr(loading.AutoTokenizer, "from_pretrained", panic)
    with pytest.raises(WinaError, match=r"tokenizer in .* cannot be opened \(called `Result::unwrap"):
        _load(tiny_folder(tmp_path))


def test_a_model_outside_the_table_is_refused_by_its_class(tmp_path: Path) -> None:
    model = GPT2LMHeadModel(GPT2Config(vocab_size=32, n_positions=16, n_embd=8, n_layer=1, n_head=2))
    model.save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    message = "GPT2LMHeadModel of type gpt2 is not a supported architecture, .*: llama, mistral, qwen2"
    with pytest.raises(WinaError, match=message):
        _load(tmp_path)
    with pytest.raises(WinaError, match=message):
        view(model)


def test_remote_code_is_never_run(tmp_path: Path) -> None:
    _edit_config(tiny_folder(tmp_path), auto_map={"AutoModelForCausalLM": "evil.Model", "AutoConfig": "evil.Config"})
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    assert type(_load(tmp_path).model).__name__ == "LlamaForCausalLM"
    assert not (tmp_path / "ran").exists()


def test_a_layer_that_is_not_plain_linear_is_refused() -> None:
    class PackedLinear(torch.nn.Linear):
        pass

    model = tiny_model()
    model.model.layers[1].self_attn.q_proj = PackedLinear(32, 32)
    with pytest.raises(WinaError, match="q_proj of layer 1 is a PackedLinear instead of a plain linear layer"):
        view(model)


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("toaster", '"toaster" is not a device; choose "auto", "cpu" or "cuda"'),
        pytest.param(
            "cuda",
            "No CUDA device is available here",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device"),
        ),
    ],
)
def test_a_device_that_is_not_there_is_refused(tmp_path: Path, device: str, message: str) -> None:
    with pytest.raises(WinaError, match=message):
        load_model(ModelSource(location=str(tiny_folder(tmp_path)), device=device), NullReporter())


def test_an_unreachable_hub_model_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_args: object, **_options: object) -> str:
        raise ConnectionError("no route to host")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)
    with pytest.raises(WinaError, match="owner/name is neither a folder here nor a model that could be fetched"):
        load_model(ModelSource(location="owner/name"), NullReporter())


def test_loading_reports_bytes_and_can_be_cancelled(tmp_path):
    reporter = RecordingReporter()
    loaded = load_model(ModelSource(location=str(tiny_folder(tmp_path))), reporter)
    weights = [weight.nbytes for weight in loaded.model.state_dict().values()]
    assert reporter.calls[0] == (0, sum(weights), "bytes", "reading weights")
    assert reporter.calls[-1] == (sum(weights), sum(weights), "bytes", "reading tokenizer")
    steps = [done for done, *_ in reporter.calls[:-1]]
    assert steps == sorted(steps)
    assert len(steps) == 1 + len(weights)
    for after in (0, reporter.checks // 2):  # before the weights, and between two of them
        with pytest.raises(Cancelled):
            load_model(ModelSource(location=str(tmp_path)), RecordingReporter(after))


def test_a_download_reports_the_received_bytes_and_can_be_cancelled(tmp_path, monkeypatch):
    tiny_folder(tmp_path)

    def fetch(*_args: object, tqdm_class: type, **_options: object) -> str:
        transfer = tqdm_class(total=0, initial=0, unit="B", name="huggingface_hub.snapshot_download.transfer")
        files = tqdm_class(total=0, initial=0, unit="B", name="huggingface_hub.snapshot_download")
        files.total += 30
        for _ in range(3):
            files.update(10)
            transfer.update(7)
        return str(tmp_path)

    def arrived(reporter: RecordingReporter) -> list[tuple[float, float | None]]:
        return [(done, total) for done, total, _, metric in reporter.calls if metric == "fetching owner/name"]

    class CancellingAtTen(RecordingReporter):
        def check(self) -> None:
            if arrived(self)[-1:] == [(10, 30)]:
                raise Cancelled

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    reporter, cancelling = RecordingReporter(), CancellingAtTen()
    load_model(ModelSource(location="owner/name"), reporter)
    assert arrived(reporter) == [(0, None), (10, 30), (20, 30), (30, 30)]
    with pytest.raises(Cancelled):
        load_model(ModelSource(location="owner/name"), cancelling)
    assert arrived(cancelling)[-1] == (10, 30)


# ---- placement on accelerators ---------------------------------------------------------------------------------------


@pytest.fixture
def accelerators(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """As many as the test is given."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: request.param)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: request.param > 0)


CUDA = {"": torch.device("cuda")}
WARNING = 'warning: "spread" needs two accelerators, but there {} here.'


@pytest.mark.parametrize(
    ("accelerators", "name", "placed", "logged"),
    [
        (0, "auto", None, []),
        (0, "cpu", None, []),
        (0, "spread", None, [WARNING.format("are none")]),
        (1, "auto", CUDA, []),
        (1, "spread", CUDA, [WARNING.format("is one")]),
        (2, "auto", CUDA, []),
        (2, "cuda:1", {"": torch.device("cuda:1")}, []),
        (2, "spread", "auto", []),
    ],
    indirect=["accelerators"],
)
@pytest.mark.usefixtures("accelerators")
def test_weights_are_spread_where_there_are_two_accelerators(name: str, placed: object, logged: list[str]) -> None:
    reporter = RecordingReporter()
    assert placement(name, reporter) == placed
    assert reporter.lines == logged


@pytest.mark.parametrize("left", ["cpu", "disk"])
def test_layers_for_which_no_accelerator_has_room_are_refused(tmp_path, monkeypatch, left):
    read = loading.AutoModelForCausalLM.from_pretrained

    def from_pretrained(*args: Any, **kwargs: Any) -> Any:
        assert kwargs["device_map"] == "auto"
        model, info = read(*args, **kwargs | {"device_map": None})
        model.hf_device_map = {"model.embed_tokens": 0, "model.layers.2": left}
        return model, info

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(loading.AutoModelForCausalLM, "from_pretrained", from_pretrained)
    source = ModelSource(location=str(tiny_folder(tmp_path)), device="spread")
    with pytest.raises(WinaError, match="does not fit into the memory of all accelerators together; choose a smaller"):
        load_model(source, NullReporter())
