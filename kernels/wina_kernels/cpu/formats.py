"""How stored numbers become float32 inside compiled loops. numba knows no 16-bit floats, so they travel as integers:
bfloat16 as int16, float16 as uint16."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

_FLOAT = ir.FloatType()


@intrinsic
def to_float32(_context: Any, stored: Any) -> Any:
    """One stored weight, or a code of 8 bits, as float32; each way vectorizes."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        (value,) = arguments
        if stored == types.int16:  # bfloat16 is the upper half of a float32
            wide = builder.zext(value, ir.IntType(32))
            return builder.bitcast(builder.shl(wide, ir.Constant(wide.type, 16)), _FLOAT)
        if stored == types.uint16:
            return builder.fpext(builder.bitcast(value, ir.HalfType()), _FLOAT)
        if stored == types.int8:
            return builder.sitofp(value, _FLOAT)
        return builder.uitofp(value, _FLOAT) if stored == types.uint8 else value

    known = stored in (types.int16, types.uint16, types.int8, types.uint8, types.float32)
    return (types.float32(stored), generate) if known else None
