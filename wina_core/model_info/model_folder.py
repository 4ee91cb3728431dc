"""A model folder, checked as far as its config and the headers of its weights tell: no engine, no large read."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wina_core.model_info.families import Family, family_of
from wina_core.model_info.model_checks import (
    check_described,
    check_experts,
    check_files,
    check_sizes,
    check_tokenizer,
    check_weights,
    read_config,
)
from wina_core.model_info.safetensors_header import TensorEntry


@dataclass(frozen=True)
class ModelFolder:
    """The config of a supported model and the headers of its weights."""

    path: Path
    config: Mapping[str, Any]
    family: Family
    weights: Mapping[str, TensorEntry]

    @property
    def family_name(self) -> str:
        """Return the key in the architecture table."""
        return str(self.config["model_type"])


def read_supported(folder: Path, quantized_by: str | None = None) -> tuple[dict[str, Any], Family]:
    """Return the config.json of a supported architecture and its family; raise WinaError for others and for impossible
    sizes."""
    content = read_config(folder, quantized_by)
    named = content.get("architectures") or [None]
    family = family_of(str(content.get("model_type")), named[0] if isinstance(named, list) else str(named))
    check_sizes(folder, content)
    return content, family


def check_folder(folder: Path, quantized_by: str | None = None) -> ModelFolder:
    """Return a folder that can be loaded as far as its small files and headers tell.

    A folder quantized by the method `quantized_by` is compared with its config.json when it is loaded. Raises WinaError
    for a missing config or tokenizer, an architecture that is not supported, weights in pickle only, missing or
    truncated weight files, missing experts, and sizes that do not go together.
    """
    config, family = read_supported(folder, quantized_by)
    weights = check_weights(folder)
    if "quantization_config" not in config:
        check_described(folder, config, weights)
        if family.experts is not None:
            check_experts(folder, config, weights)
    check_tokenizer(folder)
    check_files(folder)
    return ModelFolder(folder, config, family, weights)
