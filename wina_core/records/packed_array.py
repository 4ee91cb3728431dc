"""Exact, compact arrays in text for the engine's wire."""

import base64
import zlib
from math import prod
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:  # numpy takes as long to import as the whole protocol, and few messages have arrays
    import numpy.typing as npt

_LEVEL = 1
"""zlib's fastest, which removes the zeros of 16-bit numbers in 32 bits, and most other redundancy."""


class PackedArray(BaseModel):
    """The bits of an array: base64 of zlib's stream in C order, the lowest byte first; booleans eight to the byte."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    shape: tuple[int, ...]
    dtype: Literal["float32", "float64", "bool"]
    data: str

    @classmethod
    def of(cls, array: "npt.NDArray[Any]") -> Self:
        """Pack an array of one of the three dtypes."""
        import numpy as np

        plain = np.packbits(array) if array.dtype == np.bool_ else array.astype(array.dtype.newbyteorder("<"))
        packed = base64.b64encode(zlib.compress(plain.tobytes(), _LEVEL)).decode()
        return cls.model_validate({"shape": array.shape, "dtype": array.dtype.name, "data": packed})

    def array(self) -> "npt.NDArray[Any]":
        """Return the array, read-only."""
        import numpy as np

        content = zlib.decompress(base64.b64decode(self.data))
        if self.dtype == "bool":
            bits = np.unpackbits(np.frombuffer(content, np.uint8), count=prod(self.shape))
            return bits.view(np.bool_).reshape(self.shape)
        return np.frombuffer(content, np.dtype(self.dtype).newbyteorder("<")).reshape(self.shape)
