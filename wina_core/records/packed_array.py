"""Arrays as text, exactly and compactly: how measured numbers by the hundred thousand travel over the engine's wire."""

import base64
import zlib
from math import prod
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:  # numpy takes as long to import as all of the protocol, and few messages have arrays
    import numpy.typing as npt

_LEVEL = 1
"""zlib's fastest: it finds the zeros that a 16-bit number leaves in 32 bits, and most of what there is to find."""


class PackedArray(BaseModel):
    """The numbers of an array, bit for bit: base64 of zlib's stream of them in C order, the lowest byte first; truth
    values eight to the byte."""

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
        """The array, not to be written to."""
        import numpy as np

        content = zlib.decompress(base64.b64decode(self.data))
        if self.dtype == "bool":
            bits = np.unpackbits(np.frombuffer(content, np.uint8), count=prod(self.shape))
            return bits.view(np.bool_).reshape(self.shape)
        return np.frombuffer(content, np.dtype(self.dtype).newbyteorder("<")).reshape(self.shape)
