"""Headers of GGUF files, checked before any library maps the file.

The format: a magic number and counts, the metadata, the offsets of the tensors, and the tensors one after the other,
each aligned (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md).
"""

import math
import os
import re
import struct
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from wina_core.errors import WinaError
from wina_core.files.user_file import open_file
from wina_core.model_info.families import FAMILIES, Family
from wina_core.model_info.model_checks import fault_of_limits

_LONGEST = 64 * 2**20
"""Bytes of the longest header: ten times that of the largest published vocabulary."""
_MAX_FIELDS = 10_000
_MAX_TENSORS = 100_000
_MAX_ELEMENTS = 2**22
"""Elements of all arrays together: five times the tokens, scores, types and merges of the largest vocabulary. gguf's
reader makes objects of each."""
_MAX_NAME = 256
"""Bytes of a key or a tensor's name; the format has 64 for a tensor's."""
_MAX_SIZE = 2**48
"""Elements of a tensor: far beyond any, and far from an overflow."""
_VERSIONS = (2, 3)
_ALIGNMENT = 32
_MAX_ALIGNMENT = 65_536
_FORMATS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
"""struct's formats of the numbers among the metadata's types."""
_STRING, _ARRAY = 8, 9
_DEQUANTIZED = (
    "F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ1_S",
    "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ4_NL", "IQ4_XS", "TQ1_0", "TQ2_0", "MXFP4",
)  # fmt: skip
"""Types of tensors that gguf can dequantize."""
_PLAIN = ("F32", "F16", "BF16")
FOUR_BITS = ("Q4_0", "Q4_1", "Q4_K", "IQ4_NL", "IQ4_XS", "MXFP4")
"""Types that hold a weight in about 4 bits."""
_SPLIT_NAME = re.compile(r"-\d{5}-of-\d{5}\.gguf", re.IGNORECASE)
GGUF_FAMILIES: Mapping[str, str] = {
    "llama": "llama",
    "qwen2": "qwen2",
    "qwen3": "qwen3",
    "qwen3moe": "qwen3_moe",
    "phi3": "phi3",
    "gemma2": "gemma2",
    "gemma3": "gemma3_text",
}
"""{architecture in GGUF files: family} of those that FAMILIES has and that transformers reads whole from a GGUF file.

It knows qwen2moe, stablelm and starcoder2, too, but not all sizes of the first, nor the rotary positions of the others.
"""
GGUF_SIZES: Mapping[str, str] = {
    "block_count": "num_hidden_layers",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "vocab_size": "vocab_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.sliding_window": "sliding_window",
    "expert_count": "num_experts",
    "expert_used_count": "num_experts_per_tok",
    "expert_feed_forward_length": "moe_intermediate_size",
}
"""{field of the metadata, without the architecture before it: its name in config.json} of a model's sizes."""


class ArrayLength(int):
    """The number of elements of an array in the metadata."""

    def __repr__(self) -> str:
        return f"an array of {int(self):,}"


@dataclass(frozen=True)
class GgufTensor:
    """A tensor's type and position in the file."""

    type: str
    shape: tuple[int, ...]
    """In torch's order: rows first."""
    start: int
    """First byte in the file."""
    bytes: int

    @property
    def elements(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class GgufHeader:
    """The metadata of a file, and its tensors by name in the order of the file."""

    metadata: Mapping[str, object]
    """Numbers and texts; of an array, its `ArrayLength`."""
    tensors: Mapping[str, GgufTensor]
    length: int
    """Bytes before the tensors."""

    @property
    def architecture(self) -> str:
        return str(self.metadata["general.architecture"])

    @property
    def family(self) -> Family:
        return FAMILIES[GGUF_FAMILIES[self.architecture]]

    @property
    def elements(self) -> int:
        return sum(tensor.elements for tensor in self.tensors.values())

    @property
    def types(self) -> str:
        """Return the tensors' types with their counts, such as "Q4_1 x 210, F32 x 61, Q8_0 x 1"."""
        counts = Counter(tensor.type for tensor in self.tensors.values())
        return ", ".join(f"{name} x {count}" for name, count in counts.most_common())

    @property
    def remark(self) -> str:
        """Return a sentence or two on the earlier quantization of the weights."""
        weights: Counter[str] = Counter()
        for tensor in self.tensors.values():
            weights[tensor.type] += tensor.elements
        quantized = {name: count for name, count in weights.items() if name not in _PLAIN}
        if not quantized:
            return f"Its weights come from a GGUF file, unquantized ({self.types})."
        text = f"Its weights were quantized before, in a GGUF file ({self.types}), and are dequantized here."
        if 2 * sum(quantized.get(name, 0) for name in FOUR_BITS) < sum(quantized.values()):
            return text
        return (
            f"{text} They lie on a grid of about 4 bits, which formats of about 4 bits find again: comparisons of bits "
            "on it mean something at 3.5 bits and below, or after our rotation on both sides."
        )


def read_gguf_header(path: Path) -> GgufHeader:
    """Return the metadata and the tensors of a GGUF file of a supported architecture.

    Raises WinaError for a file that is damaged, cut off, split or no regular file, for impossible lengths, for tensors
    that overlap or lie outside of the file, for architectures and types of tensors that cannot be opened, and for
    sizes that cannot be a model's.
    """
    with open_file(path, "weight file") as file:
        status = os.fstat(file.fileno())
    # The state of the file is part of the cache's key: a changed file is read again.
    return _read(path, (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns))


@lru_cache(maxsize=8)
def _read(path: Path, _version: tuple[int, ...]) -> GgufHeader:
    # Cached: each opening reads the header several times, which takes tenths of a second.
    if _SPLIT_NAME.search(path.name):
        raise WinaError(_split(path))
    with open_file(path, "weight file") as file:
        size = file.seek(0, 2)
        file.seek(0)
        reader = _HeaderReader(file.read(min(size, _LONGEST)))
    try:
        header = _header(path, reader, size)
    except (struct.error, UnicodeDecodeError, _DamageError) as error:
        reason = str(error) if isinstance(error, _DamageError) else "a text is not UTF-8"
        reason = "its header is cut off or longer than 64 MiB" if isinstance(error, struct.error) else reason
        raise WinaError(
            f"The GGUF file {path} is damaged or was not copied to the end ({reason}); download or copy it again."
        ) from error
    _check_supported(path, header)
    _check_sizes(path, header.metadata)
    return header


def _check_supported(path: Path, header: GgufHeader) -> None:
    """Raise WinaError for an architecture, or a variant of one, that transformers does not read from GGUF files."""
    architecture, metadata = header.architecture, header.metadata
    scaling = metadata.get(f"{architecture}.rope.scaling.type", "none")
    if architecture not in GGUF_FAMILIES:
        reason = f"a model of the architecture {architecture[:60]!r}, but only {', '.join(GGUF_FAMILIES)} are"
    elif architecture == "llama" and metadata.get("llama.expert_count"):
        reason = "a Mixture of Experts in the layout of llama, whose experts are not"
    elif scaling != "none":
        reason = f"a model with scaled rotary positions ({str(scaling)[:60]!r}), whose scaling is not"
    else:
        return
    raise WinaError(f"{path} holds {reason} read from GGUF files; open the model's safetensors folder instead.")


def _check_sizes(path: Path, metadata: Mapping[str, object]) -> None:
    """Raise WinaError for sizes beyond those of models."""
    # transformers reads these fields of any architecture, and makes lists as long as they say.
    sizes: dict[str, dict[str, object]] = {}
    for key, value in metadata.items():
        architecture, _, field = key.partition(".")
        if field in GGUF_SIZES and not (field.startswith("expert_") and value == 0):  # some write that they have none
            sizes.setdefault(architecture, {})[GGUF_SIZES[field]] = value
    for stated in sizes.values():
        if fault := fault_of_limits(stated):
            raise no_model(path, fault)


def no_model(path: Path, fault: str) -> WinaError:
    """Return the error of a GGUF file whose metadata describes no model, for the reason in a clause."""
    return WinaError(
        f"The GGUF file {path} describes no model ({fault}); download it again, or open the model's safetensors folder "
        "instead."
    )


class _DamageError(ValueError):
    """A fault of a header, as a clause."""


class _HeaderReader:
    """A position in the header's bytes; struct.error past their end."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.position = 0
        self._elements = 0

    def number(self, kind: str) -> int:
        (value,) = struct.unpack_from(kind, self._content, self.position)
        self.position += struct.calcsize(kind)
        return value

    def text(self, longest: int = _LONGEST) -> str:
        length = self.number("<Q")
        if length > longest:
            raise _DamageError(f"a text has {length:,} bytes")
        self._need(length)
        self.position += length
        return self._content[self.position - length : self.position].decode("utf-8")

    def value(self, kind: int) -> object:
        """Return the next value of the metadata; of an array, its `ArrayLength`."""
        if kind in _FORMATS:
            return self.number(_FORMATS[kind])
        if kind == _STRING:
            return self.text()
        if kind != _ARRAY:
            raise _DamageError(f"its metadata has the type {kind}")
        of, count = self.number("<I"), self.number("<Q")
        self._elements += count
        if self._elements > _MAX_ELEMENTS:
            raise _DamageError(f"its metadata has arrays of {self._elements:,} elements")
        if of in _FORMATS:
            length = count * struct.calcsize(_FORMATS[of])
            self._need(length)
            self.position += length
        elif of == _STRING:
            for _ in range(count):
                length = self.number("<Q")
                self._need(length)
                self.position += length
        else:
            raise _DamageError(f"its metadata has an array of the type {of}")
        return ArrayLength(count)

    def _need(self, length: int) -> None:
        if length > len(self._content) - self.position:
            raise struct.error


def _header(path: Path, reader: _HeaderReader, size: int) -> GgufHeader:
    magic, version = reader.number("<I"), reader.number("<I")
    if magic != int.from_bytes(b"GGUF", "little"):
        raise WinaError(f"{path} is no GGUF file; choose a file that begins with the letters GGUF.")
    if version not in _VERSIONS:
        raise WinaError(f"{path} has version {version} of the GGUF format, but only 2 and 3 are read; convert it anew.")
    tensors, fields = reader.number("<Q"), reader.number("<Q")
    if fields > _MAX_FIELDS or tensors > _MAX_TENSORS:
        raise _DamageError(f"it announces {fields:,} fields and {tensors:,} tensors")
    metadata: dict[str, object] = {}
    for _ in range(fields):
        key = _name(reader)
        if key in metadata:
            raise _DamageError(f"its metadata has {key!r} twice")
        metadata[key] = reader.value(reader.number("<I"))
    if not isinstance(metadata.get("general.architecture"), str):
        raise _DamageError("it names no architecture")
    if metadata.get("split.count", 0) not in (0, 1):
        raise WinaError(_split(path))
    alignment = metadata.get("general.alignment", _ALIGNMENT)
    if type(alignment) is not int or not 1 <= alignment <= _MAX_ALIGNMENT or alignment & (alignment - 1):
        raise _DamageError(f"its alignment is {alignment!r}")
    locations = {}
    for _ in range(tensors):
        name = _name(reader)
        if name in locations:
            raise _DamageError(f"its header names the tensor {name!r} twice")
        locations[name] = _location(path, name, reader)
    start = -(-reader.position // alignment) * alignment
    entries, reached = {}, start
    for name, (kind, shape, offset, length) in locations.items():
        if start + offset != reached:
            raise _DamageError(f"the tensor {name!r} begins at byte {start + offset:,} instead of {reached:,}")
        if reached + length > size:
            raise _DamageError(f"the tensor {name!r} ends at byte {reached + length:,} of {size:,}")
        entries[name] = GgufTensor(kind, shape, reached, length)
        # Every tensor begins at a multiple of the alignment.
        reached += -(-length // alignment) * alignment
    if not entries:
        raise WinaError(f"{path} holds no tensors; choose the GGUF file with the model's weights.")
    return GgufHeader(metadata, entries, start)


def _location(path: Path, name: str, reader: _HeaderReader) -> tuple[str, tuple[int, ...], int, int]:
    """Return the next tensor's type, shape, offset and bytes."""
    from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType  # late: few models are GGUF files

    count = reader.number("<I")
    if not 1 <= count <= 4:
        raise _DamageError(f"the tensor {name!r} has {count:,} dimensions")
    dimensions = [reader.number("<Q") for _ in range(count)]
    number, offset = reader.number("<I"), reader.number("<Q")
    known = next((kind for kind in GGMLQuantizationType if kind == number), None)
    if known is None or known.name not in _DEQUANTIZED:
        raise WinaError(
            f"The tensor {name!r} in {path} has the type {number}, which gguf cannot dequantize; open a file of "
            "another quantization, such as Q4_K_M or Q8_0."
        )
    kind, (block, bytes_) = known.name, GGML_QUANT_SIZES[known]
    elements = math.prod(dimensions)
    if not 0 < elements <= _MAX_SIZE or dimensions[0] % block:
        raise _DamageError(f"the tensor {name!r} of the type {kind} has the shape {dimensions[::-1]}")
    return kind, tuple(reversed(dimensions)), offset, elements // block * bytes_


def _name(reader: _HeaderReader) -> str:
    name = reader.text(_MAX_NAME)
    if not name or not name.isprintable():
        raise _DamageError(f"it has the name {name!r}")
    return name


def _split(path: Path) -> str:
    return (
        f"{path} is one of several parts of a model; join them first by llama.cpp's llama-gguf-split --merge, and open "
        "the whole file."
    )
