"""Conversions between stored numbers and float32 in compiled loops. numba has no 16-bit floats, so bfloat16 is uint16
and float16 is int16."""

from typing import Any

import numpy as np
import torch
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from torch import Tensor

Array = np.ndarray[Any, np.dtype[Any]]
_SEEN_AS = {torch.bfloat16: torch.uint16, torch.float16: torch.int16}
_FLOAT, _WORD, _HALF_WORD = ir.FloatType(), ir.IntType(32), ir.IntType(16)


def array_of(tensor: Tensor) -> Array:
    """Return the tensor's memory for compiled loops."""
    array: Array = tensor.view(_SEEN_AS.get(tensor.dtype, tensor.dtype)).numpy()
    return array


@intrinsic
def to_float32(_context: Any, stored: Any) -> Any:
    """Return one stored number, or a code of 8 bits, as float32; each way vectorizes."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        (value,) = arguments
        if stored == types.uint16:  # bfloat16 is the upper half of a float32
            wide = builder.zext(value, _WORD)
            return builder.bitcast(builder.shl(wide, ir.Constant(_WORD, 16)), _FLOAT)
        if stored == types.int16:
            return builder.fpext(builder.bitcast(value, ir.HalfType()), _FLOAT)
        if stored == types.int8:
            return builder.sitofp(value, _FLOAT)
        return builder.uitofp(value, _FLOAT) if stored == types.uint8 else value

    known = stored in (types.uint16, types.int16, types.int8, types.uint8, types.float32)
    return (types.float32(stored), generate) if known else None


@intrinsic
def rounded(_context: Any, value: Any, like: Any) -> Any:
    """Round a float32 to the format of `like`, to nearest, halves to even."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        exact, _ = arguments
        if like == types.float32:
            return exact
        if like == types.int16:
            return builder.bitcast(builder.fptrunc(exact, ir.HalfType()), _HALF_WORD)
        bits = builder.bitcast(exact, _WORD)
        upper = builder.lshr(bits, ir.Constant(_WORD, 16))
        odd = builder.and_(upper, ir.Constant(_WORD, 1))
        nearest = builder.lshr(builder.add(builder.add(bits, ir.Constant(_WORD, 0x7FFF)), odd), ir.Constant(_WORD, 16))
        quiet_nan = builder.or_(upper, ir.Constant(_WORD, 0x40))  # rounding could carry a NaN into infinity
        is_nan = builder.fcmp_unordered("uno", exact, exact)
        return builder.trunc(builder.select(is_nan, quiet_nan, nearest), _HALF_WORD)

    known = value == types.float32 and like in (types.float32, types.int16, types.uint16)
    return (like(value, like), generate) if known else None
