"""The size of a model's weights in memory, from its files."""

import math
import re
from collections.abc import Mapping

from wina_core.errors import WinaError
from wina_core.files.memory import free_memory
from wina_core.sources.resolve import files_of
from wina_core.sources.safetensors_header import FLOATS, TensorEntry, read_safetensors_header
from wina_core.specs import SYNTHETIC, DType, ModelSource

WORKING = 1.5
"""Memory of a model at work over the size of its weights: activations, copies while rotating."""
BY_LAYER = 3.0
"""Memory of a pass over layers that are read from their files, over the size of the largest: it, the next, copies."""
_LAYER = re.compile(r"\.(\d+)\.")
"""Number of a layer in the name of a tensor; those of experts follow it."""
_OF_AN_EXPERT = re.compile(r"\.experts\.\d+\.")
"""Part of the name of a tensor that transformers stacks with those of the other experts."""
ELEMENT_BYTES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}


def loaded_bytes(weights: Mapping[str, TensorEntry], dtype: DType) -> int:
    """Return the size of weights in the data type that they are loaded in."""
    return sum(_bytes(entry, dtype) for entry in weights.values())


def weights_bytes(source: ModelSource) -> float:
    """Return the size of a model's weights as loaded; infinity if unknown, as for one that is not downloaded."""
    if source.location == SYNTHETIC:
        return 0.0
    return float(loaded_bytes(_weights(source), source.dtype)) or math.inf


def converted_bytes(source: ModelSource) -> tuple[float, float]:
    """Return the sizes of weights that loading converts: experts to be stacked, and others to another data type.

    0 if unknown.
    """
    stacked = cast = 0
    for name, entry in _weights(source).items():
        size = _bytes(entry, source.dtype)
        if _OF_AN_EXPERT.search(name):
            stacked += size
        elif size != entry.bytes:
            cast += size
    return float(stacked), float(cast)


def largest_layer_bytes(source: ModelSource) -> float:
    """Return the size of the largest layer's weights as loaded; 0 if unknown."""
    layers: dict[str, int] = {}
    for name, entry in _weights(source).items():
        if found := _LAYER.search(name):
            layers[found[1]] = layers.get(found[1], 0) + _bytes(entry, source.dtype)
    return float(max(layers.values(), default=0))


def _weights(source: ModelSource) -> dict[str, TensorEntry]:
    """Return the tensors of a model's files; none if they cannot be read."""
    try:
        files = sorted(files_of(source).glob("*.safetensors"))
        return {name: entry for file in files for name, entry in read_safetensors_header(file).tensors.items()}
    except (OSError, WinaError):  # the job itself reports it better
        return {}


def _bytes(entry: TensorEntry, dtype: DType) -> int:
    return entry.elements * ELEMENT_BYTES[dtype] if dtype != "auto" and entry.dtype in FLOATS else entry.bytes


def fits_memory(size: float) -> bool:
    """Return whether free memory holds a model with weights of so many bytes at work."""
    return WORKING * size <= free_memory()
