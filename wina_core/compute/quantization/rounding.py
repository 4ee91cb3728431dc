"""Quantizers that round every weight to nearest: with optimized ranges, and half-quadratic."""

import torch
from torch import Tensor

from wina_core.compute.quantization.codes import LARGEST_ZERO, SCALES, Codes, encode, grouped, grouped_weights
from wina_core.compute.quantization.ranges import best_ranges, extremes

_EXPONENT = 0.7
_STRENGTH, _GROWTH = 10.0, 1.01
_STEPS = 20
"""The half-quadratic solver's p, beta, kappa and number of steps, as its authors chose them."""


def round_to_nearest(weight_t: Tensor, bits: int, group: int, importance: Tensor | None = None) -> Codes:
    """Quantize W^T [n, m], float32, with ranges of the least squared error, weighted by `importance` [n] if given."""
    n = len(weight_t)
    weights = grouped(weight_t, group)
    importance = torch.ones(n, device=weight_t.device) if importance is None else importance
    scale, zero = best_ranges(weights, grouped_weights(importance, group), bits)
    return as_codes(encode(weights, scale, zero, bits).flatten(0, 1)[:n], scale, zero, group, bits)


def half_quadratic(weight_t: Tensor, bits: int, group: int) -> Codes:
    """Quantize W^T [n, m], float32, with zeros that minimize the sum of |error|^0.7 (HQQ).

    Badri and Shaji, "Half-Quadratic Quantization of Large Machine Learning Models", 2023: with e the error, shrunk
    towards 0 by the proximal operator of |e|^p, the zero is the mean of q - (w - e) / scale. Symmetric codes, which
    have no zero, are rounded with optimized ranges.
    """
    rounded = round_to_nearest(weight_t, bits, group)
    if rounded.zero is None:
        return rounded
    weights = grouped(weight_t, group)
    least, most = extremes(weights)
    scale = ((most - least) / (2**bits - 1)).clamp(min=2.0**-24).to(SCALES).float()
    zero = -least / scale
    strength, lowest = _STRENGTH, torch.inf
    best = zero
    for _ in range(_STEPS):
        codes = encode(weights, scale, zero, bits)
        residual = weights - (codes - zero[:, None]) * scale[:, None]
        error = float(residual.abs().mean())
        if error >= lowest:
            break
        best, lowest = zero, error
        shrunk = residual.abs() - residual.abs().clamp(min=1e-8).pow(_EXPONENT - 1) / strength
        errors = residual.sign() * shrunk.clamp(min=0)
        zero = (codes - (weights - errors) / scale[:, None]).mean(1)
        strength *= _GROWTH
    zero = best.clamp(-LARGEST_ZERO, LARGEST_ZERO).to(SCALES).float()
    return as_codes(encode(weights, scale, zero, bits).flatten(0, 1)[: len(weight_t)], scale, zero, group, bits)


def as_codes(codes: Tensor, scale: Tensor, zero: Tensor | None, group: int, bits: int) -> Codes:
    """Return codes [n, m] and ranges [groups, m] in the dtypes in which they are kept."""
    kept = codes.to(torch.int8 if zero is None else torch.uint8)
    return Codes(kept, scale.to(SCALES), None if zero is None else zero.to(SCALES), group, bits)
