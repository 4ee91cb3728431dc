"""The size of a model's weights in memory, from its files."""

import math
import re

from wina_core.errors import WinaError
from wina_core.files.memory import free_memory
from wina_core.sources.resolve import files_of
from wina_core.sources.safetensors_header import read_safetensors_header
from wina_core.specs import SYNTHETIC, ModelSource

WORKING = 1.5
"""Memory of a model at work over the size of its weights: activations, copies while rotating."""
BY_LAYER = 3.0
"""Memory of a pass over layers that are read from their files, over the size of the largest: it, the next, copies."""
_LAYER = re.compile(r"\.(\d+)\.")
"""Number of a layer in the name of a tensor; those of experts follow it."""
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


def largest_layer_bytes(source: ModelSource) -> float:
    """Return the size of the largest layer's weights as loaded; 0 if unknown."""
    layers: dict[str, int] = {}
    try:
        for file in files_of(source).glob("*.safetensors"):
            for name, entry in read_safetensors_header(file).tensors.items():
                if found := _LAYER.search(name):
                    layers[found[1]] = layers.get(found[1], 0) + entry.bytes
    except (OSError, WinaError):
        return 0.0
    return float(max(layers.values(), default=0) * _WIDENED.get(source.dtype, 1))


def fits_memory(size: float) -> bool:
    """Return whether free memory holds a model with weights of so many bytes at work."""
    return WORKING * size <= free_memory()
