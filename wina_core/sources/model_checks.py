"""Checks of a model folder before anything large is read."""

import json
from pathlib import Path
from typing import Any

from wina_core.errors import WinaError
from wina_core.sources.resolve import read_safetensors_header

_PICKLE_SUFFIXES = {".bin", ".pt", ".pth", ".ckpt", ".pkl"}
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt")


def read_config(folder: Path) -> dict[str, Any]:
    """Return the folder's config.json; WinaError where it is missing, broken, or of a quantized model."""
    path = folder / "config.json"
    if not path.is_file():
        raise WinaError(f"{folder} has no config.json; choose a folder saved in the Hugging Face format.")
    config = read_json(path)
    if "quantization_config" in config:
        raise WinaError(f"The weights in {folder} are quantized; open the model's unquantized weights.")
    return config


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file of a model folder; WinaError for any other content."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise WinaError(f"{path} cannot be read ({error}); restore it from the model's source.") from error
    if not isinstance(content, dict):
        raise WinaError(f"{path} does not hold a JSON object; restore it from the model's source.")
    return content


def check_weights(folder: Path) -> dict[str, int]:
    """Return the bytes of each weight in the folder's safetensors files.

    Raises WinaError for pickle-only folders, missing shards and truncated files.
    """
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        shards = read_json(index).get("weight_map")
        if not isinstance(shards, dict):
            raise WinaError(f"{index} has no weight map; restore it from the model's source.")
        files = sorted({folder / str(name) for name in shards.values()})
    else:
        files = [folder / "model.safetensors"]
        if not files[0].is_file():
            _refuse_other_weights(folder)
    sizes: dict[str, int] = {}
    for file in files:
        if not file.is_file():
            raise WinaError(f"The weight file {file} is missing; download or copy it again.")
        entries = read_safetensors_header(file)
        offsets = {name: entry["data_offsets"] for name, entry in entries.items() if name != "__metadata__"}
        sizes |= {name: end - begin for name, (begin, end) in offsets.items()}
    return sizes


def _refuse_other_weights(folder: Path) -> None:
    pickles = sorted(path.name for path in folder.iterdir() if path.suffix in _PICKLE_SUFFIXES)
    if pickles:
        raise WinaError(
            f"{folder} has its weights only as pickle ({pickles[0]}), which can run code when it is opened; "
            "convert them to safetensors first."
        )
    raise WinaError(f"{folder} has no model.safetensors; choose a folder that holds the model's weights.")


def check_tokenizer(folder: Path) -> None:
    """Raise WinaError for a folder without a tokenizer."""
    if not any((folder / name).is_file() for name in _TOKENIZER_FILES):
        raise WinaError(
            f"{folder} has no tokenizer; copy tokenizer.json and tokenizer_config.json from the model's source into it."
        )
