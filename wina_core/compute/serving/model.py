"""Loading of the model to serve: a sparse model with its gates, or any model that the workbench opens."""

from pathlib import Path
from typing import Any

from wina_core.compute.models.architectures import view
from wina_core.compute.models.loading import check_finite, load_model, load_tokenizer, load_weights, placement
from wina_core.compute.reporter import NullReporter
from wina_core.compute.sparse import quantizer  # noqa: F401 - registers sparse models with transformers
from wina_core.model_info.model_checks import SPARSE_METHOD, read_config
from wina_core.model_info.model_folder import check_folder
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
    check_folder(folder, SPARSE_METHOD)
    model = load_weights(folder, source, placement(device, reporter))
    check_finite(view(model), folder)
    return model, load_tokenizer(folder)
