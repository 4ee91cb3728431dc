"""The model that a config.json describes, built without its weights."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig
from transformers.utils import logging as transformers_logging

from wina_core.errors import WinaError
from wina_core.specs import DType

_LONGEST_REASON = 200


def describe(folder: Path, dtype: DType = "auto") -> Any:
    """Return the model of a config.json on the meta device, in `dtype`, by default the config's, or else float32.

    Raises WinaError for a config or a generation config that describes no model.
    """
    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
        chosen = (config.dtype or torch.float32) if dtype == "auto" else getattr(torch, dtype)
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config, dtype=chosen)
    except Exception as error:  # sizes that do not go together fail in the constructors in as many ways as there are
        raise WinaError(
            f"The config.json in {folder} describes no model ({reason(error)}); restore it from the model's source."
        ) from error
    if (folder / "generation_config.json").exists():
        try:
            GenerationConfig.from_pretrained(folder, local_files_only=True)
        except Exception as error:  # likewise
            raise WinaError(
                f"The generation_config.json in {folder} is invalid ({reason(error)}); correct or remove it."
            ) from error
    return model


@contextmanager
def without_progress_bars() -> Iterator[None]:
    """Show none of transformers' progress bars within the block: progress is the reporter's."""
    were_enabled = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        if were_enabled:
            transformers_logging.enable_progress_bar()


def reason(error: BaseException) -> str:
    """Return a library's error as a part of a sentence."""
    text = " ".join(str(error).split())
    text = text if len(text.split()) > 1 else f"{type(error).__name__} {text}".strip()
    return shortened(text).rstrip(".")


def shortened(text: str) -> str:
    # The values in a library's errors may be whole files.
    return text if len(text) <= _LONGEST_REASON else f"{text[:_LONGEST_REASON]}..."
