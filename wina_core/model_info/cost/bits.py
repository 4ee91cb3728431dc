"""Bits that quantized weights take beside their codes."""

RUN_BITS = (16, 8, 6, 4, 3, 2)
"""Bits of a run's codes, falling."""
ORDER_BITS = 32
"""Bits of an input's place in the order of a matrix whose inputs are ordered by energy."""
SCALE_BITS = 16
"""Bits of a group's scale, and of its zero."""
NUMBER_BITS = 8
"""Bits of an input's number of planes, where inputs have different numbers."""


def group_scale_bits(bits: float) -> int:
    """Return the bits of the scale and the zero of one group and output: none for floats, no zero for 8 bits."""
    return {16: 0, 8: SCALE_BITS}.get(int(bits), 2 * SCALE_BITS)
