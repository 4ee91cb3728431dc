"""llama.cpp's converter, with one tokenizer more: `python -m wina_core.compute.gguf.run_converter CONVERTER ...`.

The converter recognizes tokenizers by their tokens of a sample, so it knows published vocabularies alone. A tokenizer
that splits text into words as GPT-2's does is written as one of that kind: llama.cpp then computes the same tokens.
"""

import json
import os
import runpy
import sys
from pathlib import Path
from typing import Any


def splits_like_gpt2(tokenizer: dict[str, Any]) -> bool:
    """Return whether a tokenizer.json describes byte-level BPE with GPT-2's regular expression and nothing else."""
    split = tokenizer.get("pre_tokenizer") or {}
    return (
        tokenizer["model"].get("type") == "BPE"
        and tokenizer.get("normalizer") is None
        and split.get("type") == "ByteLevel"
        and split.get("use_regex", True)
        and not split.get("add_prefix_space", True)
    )


def main() -> None:
    """Run the converter that is the first argument with those that follow."""
    converter = Path(sys.argv[1])
    sys.argv[:2] = [str(converter)]
    local = [] if "NO_LOCAL_GGUF" in os.environ else [str(converter.parent / "gguf-py")]  # as the converter does
    sys.path[:0] = [str(converter.parent), *local]
    try:
        from conversion.base import TextModel  # type: ignore[import-not-found]
    except ImportError:  # an older converter, which is one file, or a package that it will name itself
        pass
    else:
        _add_gpt2(TextModel)
    runpy.run_path(str(converter), run_name="__main__")


def _add_gpt2(text_model: Any) -> None:
    original = text_model.get_vocab_base_pre

    def get_vocab_base_pre(model: Any, tokenizer: Any) -> str:
        try:
            return str(original(model, tokenizer))
        except NotImplementedError:
            file = Path(model.dir_model) / "tokenizer.json"
            if not (file.is_file() and splits_like_gpt2(json.loads(file.read_text(encoding="utf-8")))):
                raise
            return "gpt-2"

    text_model.get_vocab_base_pre = get_vocab_base_pre


if __name__ == "__main__":
    main()
