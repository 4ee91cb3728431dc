"""Bytes of a product: what must be read, what must be held, and how many copies keep weights out of the cache."""

import math

from wina_core.methods.rsparse import RSparse, affordable_rank, masked_fraction
from wina_core.specs.latency import LatencyPoint

BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
INPUTS = 8
"""Inputs that turns rotate over, so that no branch predictor learns a mask."""
_NORM_BYTES = 4
_WORKING_BYTES = 8
"""For each weight, beside its copies: the reference works on float32 copies of the matrix and of the rows it keeps."""


def mask_sparsity(point: LatencyPoint) -> float:
    """The fraction of inputs that the mask drops: for R-Sparse more, since its low-rank part costs weights too."""
    return masked_fraction(point.sparsity, _rho()) if _has_low_rank(point) else point.sparsity


def rank(point: LatencyPoint) -> int:
    """Of the low-rank part; 0 where there is none."""
    return affordable_rank((point.outputs, point.inputs), point.sparsity, _rho()) if _has_low_rank(point) else 0


def read_bytes(point: LatencyPoint, kept: float) -> float:
    """What must be read where `kept` of the n inputs are kept by any row of the batch: their weights, those of the
    low-rank part, column norms (float32) where they score, and x."""
    weights = kept * point.outputs + rank(point) * (point.outputs + point.inputs)
    norms = _NORM_BYTES * point.inputs if point.method == "wina" else 0
    return (weights + point.batch * point.inputs) * BYTES[point.dtype] + norms


def copies(point: LatencyPoint, cache_bytes: int) -> int:
    """Copies of W to rotate over so that, from one reading of a copy to the next, the dense product alone reads twice
    the cache's size of others."""
    return 1 + math.ceil(2 * cache_bytes / (point.outputs * point.inputs * BYTES[point.dtype]))


def weight_bytes(point: LatencyPoint, copies: int) -> int:
    """Memory that the copies of W take, each in both layouts."""
    return 2 * copies * point.outputs * point.inputs * BYTES[point.dtype]


def further_bytes(point: LatencyPoint, copies: int) -> int:
    """Memory that the point takes beside them: copies of its low-rank part, x and y, and working space."""
    sides = point.outputs + point.inputs
    held = copies * rank(point) * sides + 2 * INPUTS * point.batch * sides
    return held * BYTES[point.dtype] + _WORKING_BYTES * point.outputs * point.inputs


def _has_low_rank(point: LatencyPoint) -> bool:
    return point.method == RSparse.name and point.sparsity > 0


def _rho() -> float:
    assert RSparse.default_rho is not None
    return RSparse.default_rho
