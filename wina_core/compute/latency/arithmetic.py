"""Bytes of a product: reads, memory, and the number of copies that keep weights out of the cache."""

import math

from wina_core.methods.rsparse import RSparse, affordable_rank, masked_fraction
from wina_core.specs.latency import LatencyPoint

BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
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
    column norms (float32) if scored by, and x."""
    weights = kept * point.outputs + rank(point) * (point.outputs + point.inputs)
    norms = _NORM_BYTES * point.inputs if point.method == "wina" else 0
    return (weights + point.batch * point.inputs) * BYTES[point.dtype] + norms


def copies(point: LatencyPoint, cache_bytes: int) -> int:
    """Return the copies of W to rotate over, so that the dense product reads twice the cache's size between two reads
    of one."""
    return 1 + math.ceil(2 * cache_bytes / (point.outputs * point.inputs * BYTES[point.dtype]))


def weight_bytes(point: LatencyPoint, copies: int) -> int:
    """Return the memory of the copies of W, each in both layouts."""
    return 2 * copies * point.outputs * point.inputs * BYTES[point.dtype]


def further_bytes(point: LatencyPoint, copies: int) -> int:
    """Return the point's other memory: copies of its low-rank part, x and y, and working space."""
    sides = point.outputs + point.inputs
    held = copies * rank(point) * sides + 2 * INPUTS * point.batch * sides
    return held * BYTES[point.dtype] + _WORKING_BYTES * point.outputs * point.inputs


def _has_low_rank(point: LatencyPoint) -> bool:
    return point.method == RSparse.name and point.sparsity > 0


def _rho() -> float:
    assert RSparse.default_rho is not None
    return RSparse.default_rho
