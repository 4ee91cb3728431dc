"""The size of a model's weights in memory, from its files."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from wina_core.errors import WinaError
from wina_core.files.hardware import free_memory, has_bf16_units, machine_memory, memory_limit, visible_devices
from wina_core.model_info.gguf_header import read_gguf_header
from wina_core.model_info.model_checks import read_config
from wina_core.model_info.resolve import files_of, gguf_file
from wina_core.model_info.safetensors_header import FLOATS, TensorEntry, read_safetensors_header
from wina_core.specs import SYNTHETIC, DType, ModelSource

WORKING = 1.5
"""Memory of a model at work over the size of its weights: activations, copies while rotating."""
BY_LAYER = 3.0
"""Memory of a pass over layers that are read from their files, over the size of the largest: it, the next, copies."""
_WIDENED_SHARE = 0.75
"""Share of the machine's memory for a model at work that is opened in more bits than it is stored in.

The total counts, not what is free at the moment: else a model's runs would differ with what else is open.
"""
_LAYER = re.compile(r"\.(\d+)\.")
"""Number of a layer in the name of a tensor; those of experts follow it."""
_OF_AN_EXPERT = re.compile(r"\.experts\.\d+\.")
"""Part of the name of a tensor that transformers stacks with those of the other experts."""
ELEMENT_BYTES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}
STORED_DTYPES = {"F64": "float64", "F32": "float32", "BF16": "bfloat16", "F16": "float16"}
"""Data types of weights by their names in safetensors files."""
_SHORT = ("bfloat16", "float16")


def suited(source: ModelSource, folder: Path) -> ModelSource:
    """Return a source with the data type that its model in `folder` is loaded in; "auto" for the stored one.

    "auto" comes to float32 for 16-bit weights on a processor without units for bfloat16, if memory allows.
    """
    if source.dtype != "auto" or has_bf16_units() is not False or not on_processor(source):
        return source
    weights = [entry for entry in _headers(folder).values() if entry.dtype in FLOATS]
    size = WORKING * sum(ELEMENT_BYTES["float32"] * entry.elements for entry in weights)
    limit = memory_limit()
    if not weights or size > (_WIDENED_SHARE * machine_memory()[1] if limit is None else limit):
        return source
    return source.model_copy(update={"dtype": "float32"}) if stored_dtype(folder, weights) in _SHORT else source


def suited_remark(source: ModelSource, folder: Path) -> str:
    """Return why a model is not loaded in the data type of its files, in a sentence; empty where it is."""
    if suited(source, folder).dtype == source.dtype:
        return ""
    stored = stored_dtype(folder, _headers(folder).values())
    return (
        f"Its weights are stored in {stored} and opened in float32, since this processor has no units for bfloat16; "
        f"choose the data type {stored} for half of the memory."
    )


def stored_dtype(folder: Path, weights: Iterable[TensorEntry]) -> str:
    """Return the data type that "auto" means to transformers: that of config.json, or else of most weights."""
    config = read_config(folder)
    most = Counter(STORED_DTYPES[entry.dtype] for entry in weights if entry.dtype in FLOATS).most_common(1)
    return str(config.get("dtype") or config.get("torch_dtype") or most[0][0])


def on_processor(source: ModelSource) -> bool:
    # The driver is slow, and asked only for "auto".
    return source.device == "cpu" or (source.device == "auto" and not visible_devices())


def loaded_bytes(weights: Mapping[str, TensorEntry], dtype: DType) -> int:
    return sum(_bytes(entry, dtype) for entry in weights.values())


def weights_bytes(source: ModelSource) -> float:
    """Return the size of a model's weights as loaded; infinity if unknown, as for one that is not downloaded."""
    if source.location == SYNTHETIC:
        return 0.0
    return float(loaded_bytes(*_weights(source))) or math.inf


def has_short_weights(source: ModelSource) -> bool:
    """Return whether a model's weights are loaded in 16 bits; False if unknown."""
    weights, dtype = _weights(source)
    return dtype in _SHORT or (dtype == "auto" and any(STORED_DTYPES.get(e.dtype) in _SHORT for e in weights.values()))


def converted_bytes(source: ModelSource) -> tuple[float, float]:
    """Return the sizes of weights that loading converts: experts to be stacked, and others to another data type.

    0 if unknown.
    """
    stacked = cast = 0
    weights, dtype = _weights(source)
    for name, entry in weights.items():
        size = _bytes(entry, dtype)
        if _OF_AN_EXPERT.search(name):
            stacked += size
        elif size != entry.bytes:
            cast += size
    return float(stacked), float(cast)


def largest_layer_bytes(source: ModelSource) -> float:
    """Return the size of the largest layer's weights as loaded; 0 if unknown."""
    layers: dict[str, int] = {}
    weights, dtype = _weights(source)
    for name, entry in weights.items():
        if match := _LAYER.search(name):
            layers[match[1]] = layers.get(match[1], 0) + _bytes(entry, dtype)
    return float(max(layers.values(), default=0))


def _weights(source: ModelSource) -> tuple[dict[str, TensorEntry], DType]:
    """Return the tensors of a model's files, and the data type that they are loaded in; none if they cannot be read.

    Those of a GGUF file count as dequantized.
    """
    try:
        if (file := gguf_file(source)) is not None:
            return {
                name: TensorEntry(dtype="F32", shape=tensor.shape, data_offsets=(0, 4 * tensor.elements))
                for name, tensor in read_gguf_header(file).tensors.items()
            }, source.dtype
        folder = files_of(source)
        return _headers(folder), suited(source, folder).dtype
    except (OSError, WinaError):  # the job itself reports it better
        return {}, source.dtype


def _headers(folder: Path) -> dict[str, TensorEntry]:
    files = sorted(folder.glob("*.safetensors"))
    return {name: entry for file in files for name, entry in read_safetensors_header(file).tensors.items()}


def _bytes(entry: TensorEntry, dtype: DType) -> int:
    return entry.elements * ELEMENT_BYTES[dtype] if dtype != "auto" and entry.dtype in FLOATS else entry.bytes


def fits_memory(size: float) -> bool:
    return WORKING * size <= free_memory()
