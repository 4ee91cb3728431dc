"""Loading of the model to serve: a sparse model with its gates, or any model that the workbench opens."""

from pathlib import Path
from typing import Any

from wina_core.compute.models.loading import load_model, load_tokenizer, load_weights, placement
from wina_core.compute.reporter import NullReporter
from wina_core.compute.sparse import quantizer  # noqa: F401 - registers sparse models with transformers
from wina_core.sources.model_checks import (
    SPARSE_METHOD,
    check_described,
    check_files,
    check_sizes,
    check_tokenizer,
    check_weights,
    read_config,
)
from wina_core.specs import DType, ModelSource


def load_served(folder: Path, device: str, dtype: DType) -> tuple[Any, Any]:
    """Return transformers' model of a folder, gated if it is a sparse one, and its tokenizer.

    Nothing outside the folder is read, and no code from it is run. Raises WinaError for a folder that holds no model
    that can be loaded.
    """
    source, reporter = ModelSource(location=str(folder), device=device, dtype=dtype), NullReporter()
    config = read_config(folder, SPARSE_METHOD)
    if "quantization_config" not in config:
        loaded = load_model(source, reporter)
        return loaded.model, loaded.tokenizer
    check_sizes(folder, config)
    weights = check_weights(folder)
    if not config["quantization_config"].get("weights"):  # quantized ones have other shapes in the files
        check_described(folder, config, weights)
    check_tokenizer(folder)
    check_files(folder)
    model = load_weights(folder, source, placement(device, reporter))
    return model, load_tokenizer(folder)
