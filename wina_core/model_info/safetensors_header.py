"""Headers of safetensors files, checked before any library maps the file.

The format: 8 bytes with the header's length, the header in JSON, and the tensors one after the other without gaps
(https://huggingface.co/docs/safetensors).
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from wina_core.errors import WinaError, explain
from wina_core.files.user_file import open_file

_LONGEST = 32 * 2**20
"""Bytes of the longest header: a few hundred thousand tensors."""
_BITS = {"C64": 64, "F64": 64, "I64": 64, "U64": 64, "F32": 32, "I32": 32, "U32": 32}
_BITS |= dict.fromkeys(("F16", "BF16", "I16", "U16"), 16)
_BITS |= dict.fromkeys(("BOOL", "I8", "U8", "F8_E4M3", "F8_E5M2", "F8_E8M0"), 8)
FLOATS = frozenset({"F64", "F32", "F16", "BF16"})
"""Dtypes that weights, shortcuts and matrices may have."""
_Count = Annotated[int, Field(ge=0, strict=True)]


class TensorEntry(BaseModel):
    """A tensor's position in the file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dtype: str
    shape: tuple[_Count, ...]
    data_offsets: tuple[_Count, _Count]
    """First byte and end, counted from the end of the header."""

    @property
    def bytes(self) -> int:
        return self.data_offsets[1] - self.data_offsets[0]

    @property
    def elements(self) -> int:
        return math.prod(self.shape)


class SafetensorsHeader(BaseModel):
    """The tensors of a file by name, in the order of the file."""

    model_config = ConfigDict(frozen=True)

    tensors: Mapping[str, TensorEntry]
    start: int
    """First byte of the tensors."""
    text: bytes
    """The header's JSON."""


_ENTRIES = TypeAdapter(dict[str, TensorEntry])


def read_safetensors_header(path: Path, kind: str = "weight file") -> SafetensorsHeader:
    """Return the tensors of a safetensors file.

    Raises WinaError for a file that is damaged, cut off, or no regular file, and for tensors that overlap, leave gaps,
    or are larger or smaller than their shapes.
    """
    damaged = f"The {kind} {path} is damaged or was not copied to the end; download or copy it again."
    with open_file(path, kind) as file:
        size = file.seek(0, 2)
        file.seek(0)
        length = int.from_bytes(file.read(8), "little")
        # Checked before reading: a damaged length may be any number of 64 bits.
        if size < 8 or length > min(size - 8, _LONGEST):
            raise WinaError(damaged)
        text = file.read(length)
    try:
        content = json.loads(text.decode("utf-8"), object_pairs_hook=_without_repeats)
        content.pop("__metadata__", None)
        tensors = _ENTRIES.validate_python(content)
        end = _end(tensors)
    except ValidationError as error:
        raise WinaError(f"{damaged[:-1]} ({explain(error).rstrip('.')}).") from error
    except (ValueError, RecursionError, AttributeError, TypeError) as error:
        raise WinaError(f"{damaged[:-1]} ({_first_line(error)}).") from error
    if not tensors:
        raise WinaError(f"The {kind} {path} holds no tensors; download or copy it again.")
    if size != 8 + length + end:
        raise WinaError(f"{damaged[:-1]} ({size:,} bytes instead of {8 + length + end:,}).")
    return SafetensorsHeader(tensors=tensors, start=8 + length, text=text)


def _end(tensors: Mapping[str, TensorEntry]) -> int:
    """Return the end of the last tensor; raise ValueError for tensors that are not one after the other."""
    reached = 0
    for name, entry in sorted(tensors.items(), key=lambda item: item[1].data_offsets):
        bits = _BITS.get(entry.dtype)
        if bits is None:
            raise ValueError(f"{name!r} has the dtype {entry.dtype!r}, which is not supported")
        if entry.data_offsets[0] != reached:
            raise ValueError(f"{name!r} begins at byte {entry.data_offsets[0]:,} instead of {reached:,}")
        if 8 * entry.bytes != bits * entry.elements:
            raise ValueError(f"{name!r} has {entry.bytes:,} bytes, which do not fit its shape {list(entry.shape)}")
        reached = entry.data_offsets[1]
    return reached


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # Of two equal keys, json would keep the last one without an error.
    entries = dict(pairs)
    if len(entries) != len(pairs):
        raise ValueError("its header names a tensor twice")
    return entries


def _first_line(error: Exception) -> str:
    return "it is nested too deeply" if isinstance(error, RecursionError) else (str(error).splitlines() or ["?"])[0]
