"""Model folders whose files would harm or cannot be: refused by their names, kinds and sizes."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from wina_core.errors import WinaError
from wina_core.model_info.model_checks import (
    check_described,
    check_files,
    check_sizes,
    check_weights,
    read_config,
    read_json,
)

SIZES = {
    "hidden_size": 4, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 10,
}  # fmt: skip


def _folder(folder: Path, **tensors: torch.Tensor) -> Path:
    save_file(tensors or {"a.weight": torch.ones(104)}, folder / "one.safetensors")
    _index(folder, "one.safetensors")
    return folder


def _index(folder: Path, name: object, **more: Any) -> None:
    index = {"metadata": {}, "weight_map": {"a.weight": name}} | more
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


@pytest.mark.parametrize("name", ["../one.safetensors", "/etc/passwd", "one.bin"])
def test_weights_are_read_only_from_the_models_own_folder(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    _folder(tmp_path)
    _index(folder, name)
    with pytest.raises(WinaError, match="weights are read only from safetensors files in the model's own folder"):
        check_weights(folder)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"weight_map": {}}, "weight_map"),
        ({"weight_map": {"a.weight": 5}}, "weight_map"),
        ({"weight_map": {"a.weight": "one.safetensors", "b.weight": "one.safetensors"}}, "lack b.weight, which their"),
    ],
    ids=str,
)
def test_an_index_that_places_no_weights_is_refused(tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    _index(_folder(tmp_path), "one.safetensors", **change)
    with pytest.raises(WinaError, match=reason):
        check_weights(tmp_path)


def test_integers_are_no_weights(tmp_path: Path) -> None:
    _folder(tmp_path, **{"a.weight": torch.ones(4, dtype=torch.int32)})
    with pytest.raises(WinaError, match=r"The weight a.weight in .* has the dtype I32"):
        check_weights(tmp_path)


def test_a_config_larger_than_the_files_is_refused_by_arithmetic(tmp_path: Path) -> None:
    weights = check_weights(_folder(tmp_path))
    check_described(tmp_path, SIZES, weights)
    for larger in ({"num_hidden_layers": 900}, {"vocab_size": 10**12}, {"num_local_experts": 4096}):
        with pytest.raises(WinaError, match=r"describes a model of at least [\d,]+ weights, but its files hold 104"):
            check_described(tmp_path, SIZES | larger, weights)
    with pytest.raises(WinaError, match="its 10000000 layers are more than the 1000 that any model may have"):
        check_sizes(tmp_path, SIZES | {"num_hidden_layers": 10**7})


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"a": NaN}', "NaN, which is no number"),
        (b'{"a": "\\ud800"}', "surrogates not allowed"),
        (b"[" * 5000, "nested too deeply"),
        (b"[1]", "does not hold a JSON object"),
    ],
    ids=["NaN", "surrogate", "nested", "list"],
)
def test_json_without_an_object_of_numbers_and_texts_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(WinaError, match=reason):
        read_json(tmp_path / "config.json")


def test_files_that_the_libraries_would_open_are_checked_first(tmp_path: Path) -> None:
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [1, {}]}')
    with pytest.raises(WinaError, match=r"generation_config.json is invalid \(eos_token_id"):
        check_files(tmp_path)
    (tmp_path / "generation_config.json").unlink()
    os.mkfifo(tmp_path / "chat_template.jinja")
    with pytest.raises(WinaError, match=r"chat_template.jinja is a pipe, a device or the like"):
        check_files(tmp_path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"_attn_implementation": "owner/kernel"}, "may be code of others"),
        ({"_attn_implementation": {"": "owner/kernel"}}, "may be code of others"),
        ({"quantization_config": None}, r"has the quantization_config .* instead of a JSON object; restore"),
        ({"quantization_config": {"quant_method": "gptq"}}, "are quantized; open the model's unquantized weights"),
        ({"quantization_config": {"quant_method": "wina", "source": "demo-llama"}}, r"made from \('demo-llama'\)"),
    ],
)
def test_a_config_that_names_code_or_quantized_weights_is_refused(
    tmp_path: Path, content: dict[str, Any], reason: str
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(SIZES | content))
    with pytest.raises(WinaError, match=reason):
        read_config(tmp_path)
