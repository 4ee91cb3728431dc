"""The BOS token that a model's tokenizer puts before a text, by its files."""

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from wina_core.errors import WinaError
from wina_core.files.user_file import read_file
from wina_core.model_info.gguf_header import read_gguf_header

_TOKENIZER, _CONFIG, _SENTENCEPIECE = "tokenizer.json", "tokenizer_config.json", "tokenizer.model"


def adds_bos(folder: Path) -> bool:
    """Return whether the tokenizer of a model, in its folder or GGUF file, puts a BOS token before a text.

    As in transformers, the post-processor of tokenizer.json decides. Without that file `add_bos_token` of the config
    does, if it is stated; SentencePiece files alone are of families that add one. A broken file adds none: loading
    reports it.
    """
    try:
        if folder.suffix.lower() == ".gguf":
            return _adds_bos_in_gguf(folder)
        return _adds_bos(folder, tuple(_state(folder / name) for name in (_TOKENIZER, _CONFIG, _SENTENCEPIECE)))
    except (WinaError, OSError, ValueError, TypeError, AttributeError, LookupError, RecursionError):
        return False


def _state(path: Path) -> tuple[int, int] | None:
    """Return what changes with a file's content; None without the file."""
    if not path.is_file():
        return None
    found = path.stat()
    return found.st_mtime_ns, found.st_size


@lru_cache(maxsize=64)  # of a large vocabulary, parsing takes half a second, and every job resolves its model
def _adds_bos(folder: Path, states: tuple[tuple[int, int] | None, ...]) -> bool:
    tokenizer, config, sentencepiece = states
    if tokenizer:
        return _begins_with_special(_read(folder / _TOKENIZER).get("post_processor"))
    stated = _read(folder / _CONFIG).get("add_bos_token") if config else None
    return sentencepiece is not None and stated is not False


def _adds_bos_in_gguf(path: Path) -> bool:
    metadata = read_gguf_header(path).metadata
    by_default = metadata.get("tokenizer.ggml.model") == "llama"  # SentencePiece
    return bool(metadata.get("tokenizer.ggml.add_bos_token", by_default))


def _read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(read_file(path, "file of a model"))
    return content


def _begins_with_special(processor: dict[str, Any] | None) -> bool:
    """Return whether a post-processor of the tokenizers library puts a special token before a single text."""
    if processor is None:
        return False
    if processor["type"] == "Sequence":
        return any(map(_begins_with_special, processor["processors"]))
    if processor["type"] == "TemplateProcessing":
        return bool(processor["single"]) and "SpecialToken" in processor["single"][0]
    return processor["type"] in ("BertProcessing", "RobertaProcessing")
