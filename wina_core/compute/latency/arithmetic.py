"""Bytes of a product: reads, memory, and the number of copies that keep weights out of the cache."""

import math

from wina_core.compute.latency.timing import WARM_UP
from wina_core.specs.latency import DTYPE_BYTES, QUANTIZED_BITS, LatencyPoint
from wina_core.specs.methods.rsparse import RSparse, affordable_rank, masked_fraction

INT4_GROUP = 64
"""Inputs that share a scale and a zero in the INT4 product."""
_SCALE_BYTES = 4
INPUTS = 8
"""Inputs that turns rotate over, so that no branch predictor learns a mask."""
_NORM_BYTES = 4
_WORKING_BYTES = 8
"""Working bytes for each weight: the reference uses float32 copies of the matrix and of the kept rows."""


def mask_sparsity(point: LatencyPoint) -> float:
    """Return the fraction of inputs that the mask drops: for R-Sparse more, since its low-rank part costs weights
    too."""
    return masked_fraction(point.sparsity, _rho()) if _has_low_rank(point) else point.sparsity


def rank(point: LatencyPoint) -> int:
    """Return the rank of the low-rank part; 0 without one."""
    return affordable_rank((point.outputs, point.inputs), point.sparsity, _rho()) if _has_low_rank(point) else 0


def read_bytes(point: LatencyPoint, kept: float) -> float:
    """Return the bytes read if any row of the batch keeps `kept` of the n inputs: their weights, the low-rank part,
    column norms (float32) if scored by, and x. Quantized weights are read in full, with their scales."""
    x = point.batch * point.inputs * DTYPE_BYTES[point.dtype]
    if point.backend in QUANTIZED_BITS:
        return quantized_bytes(point) + x
    weights = kept * point.outputs + rank(point) * (point.outputs + point.inputs)
    norms = _NORM_BYTES * point.inputs if point.method == "wina" else 0
    return weights * DTYPE_BYTES[point.dtype] + x + norms


def quantized_bytes(point: LatencyPoint) -> int:
    """Return the memory of one quantized W: codes, and float32 scales (and zeros) of each row or group."""
    bits = QUANTIZED_BITS[point.backend]
    scales = point.outputs * (2 * math.ceil(point.inputs / INT4_GROUP) if bits == 4 else 1)
    return math.ceil(point.outputs * bits / 8) * point.inputs + _SCALE_BYTES * scales


def copies(point: LatencyPoint, cache_bytes: int) -> int:
    """Return the copies of W to rotate over, so that the dense product reads twice the cache's size between two reads
    of one."""
    return 1 + math.ceil(2 * cache_bytes / (point.outputs * point.inputs * DTYPE_BYTES[point.dtype]))


def quantized_copies(point: LatencyPoint, cache_bytes: int) -> int:
    """Return the same for a quantized W, at most one for each turn."""
    return min(1 + math.ceil(2 * cache_bytes / quantized_bytes(point)), WARM_UP + point.repetitions)


def weight_bytes(point: LatencyPoint, copies: int) -> int:
    """Return the memory of the copies of W, each in both layouts."""
    return 2 * copies * point.outputs * point.inputs * DTYPE_BYTES[point.dtype]


def further_bytes(point: LatencyPoint, copies: int, cache_bytes: int) -> int:
    """Return the point's other memory: copies of its low-rank part or its quantized W, x and y, and working space."""
    sides = point.outputs + point.inputs
    held = copies * rank(point) * sides + 2 * INPUTS * point.batch * sides
    quantized = 0
    if point.backend in QUANTIZED_BITS:
        quantized = quantized_copies(point, cache_bytes) * quantized_bytes(point)
    return held * DTYPE_BYTES[point.dtype] + quantized + _WORKING_BYTES * point.outputs * point.inputs


def _has_low_rank(point: LatencyPoint) -> bool:
    return point.method == RSparse.name and point.sparsity > 0


def _rho() -> float:
    assert RSparse.default_rho is not None
    return RSparse.default_rho
