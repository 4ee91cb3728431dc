"""Bits that quantized weights take beside their codes."""

RUN_BITS = (16, 8, 6, 4, 3, 2)
"""Bits of a run's codes, falling."""
ORDER_BITS = 32
"""Bits of an input's place in the order of a matrix whose inputs are ordered by energy."""


_SCALE, _ZERO = 16, 16


def group_scale_bits(bits: float) -> int:
    """Return the bits of the scale and the zero of one group and output: none for floats, no zero for 8 bits."""
    return {16: 0, 8: _SCALE}.get(int(bits), _SCALE + _ZERO)
