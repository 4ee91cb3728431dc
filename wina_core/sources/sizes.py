"""The size of a model's weights in memory, from its files."""

import math

from wina_core.errors import WinaError
from wina_core.files.memory import free_memory
from wina_core.sources.resolve import files_of
from wina_core.specs import SYNTHETIC, ModelSource

WORKING = 1.5
"""Memory of a model at work over the size of its weights: activations, copies while rotating."""
_WIDENED = {"float32": 2, "float64": 4}
"""Largest factor of a data type over that of the files."""


def weights_bytes(source: ModelSource) -> float:
    """Return the size of a model's weights as loaded; infinity if unknown, as for one that is not downloaded."""
    if source.location == SYNTHETIC:
        return 0.0
    try:
        sizes = [file.stat().st_size for file in files_of(source).glob("*.safetensors")]
    except (OSError, WinaError):
        return math.inf
    return float(sum(sizes) * _WIDENED.get(source.dtype, 1)) or math.inf


def fits_memory(size: float) -> bool:
    """Return whether free memory holds a model with weights of so many bytes at work."""
    return WORKING * size <= free_memory()
