"""Inspections of a gate: the methods to compare, and their decisions on the tokens of a prompt.

Arrays are exact and compact in text, for the engine's wire.
"""

import base64
import zlib
from math import prod
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from wina_core.records.base import Record
from wina_core.specs import MethodSpec

if TYPE_CHECKING:
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


Scored = Literal["input", "distance", "activation"]
"""The magnitude that c_i weighs: |x_i|, |x_i - mode_i| or |act(W_gate x)_i|."""


class GateTarget(Record):
    """A method and its target in one cell."""

    method: MethodSpec
    target: float = Field(ge=0.0, lt=1.0)
    """The fraction of the cell's weights to skip, as in a plan."""
    rho: float | None = Field(default=None, gt=0.0, le=1.0)
    """The plan's share of the mask in this cell; None where the method's own applies."""


class GateDecision(Record):
    """The inputs of one matrix that one method keeps on each of some tokens."""

    asked: GateTarget
    scored: Scored
    magnitudes: PackedArray | None
    """The magnitudes before the weights c, [tokens, n]; None for |x| itself."""
    scale: PackedArray | None
    """The weights c, [n]; None for ones."""
    quantiles: PackedArray | None
    """The calibrated thresholds (`wina_core.specs.gates`), float32; None for any selection but threshold."""
    mask: PackedArray
    """True at kept inputs, [tokens, n]."""
    rank: int
    """Rank of the low-rank part that replaces dropped inputs; 0 for none."""
    output_error: float
    """||y - W x||_F / ||W x||_F over the tokens, y being the gated matrix's output of the same x."""
    kept_energy: float
    """The kept inputs' share of the sum of (|x_i| ||W[:, i]||_2)^2 over the tokens."""


class GateRecord(Record):
    """The inputs of one matrix of the dense model on the tokens of a prompt, and the inputs that methods keep."""

    layer: int
    projection: str
    tokens: tuple[str, ...]
    """The text of each."""
    prompt_tokens: int
    """Tokens of the whole prompt, which may exceed `tokens`."""
    inputs: PackedArray
    """|x| [tokens, n]."""
    norms: PackedArray
    """||W[:, i]||_2 of the matrix itself, [n]."""
    folded: bool = False
    """Whether x carries the column norms of all matrices that read it (`RotationSpec.fold_norms`)."""
    gates: tuple[GateDecision, ...]
    seconds: float
