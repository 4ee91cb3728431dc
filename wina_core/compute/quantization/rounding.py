"""Quantizers of a matrix: every weight rounded to nearest, with optimized ranges or half-quadratic, or each input's
error made up for in the inputs that follow it (GPTQ).

Optimized ranges: each of several clipped ranges is the start of least-squares steps. For fixed codes q, the best affine
map w = a q + b has a closed form; for a fixed map, the best codes are the nearest. The best of all is kept.

GPTQ: Frantar, Ashkboos, Hoefler and Alistarh, "GPTQ: Accurate post-training quantization for generative pre-trained
transformers", 2022. With H = E[x x^T] = R R^T, R upper triangular, and U = R^-1, the rows of W^T are rounded one after
another; the error of row i, over U[i, i], is taken off the rows j > i, times U[i, j]. What remains is exactly the
sum of R[i, i]^2 times the squared rounding error of each row. R[i, i]^2 is the variance of x_i given the inputs that
follow. Ranges are chosen with these weights when the first row of their group is reached.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional
from wina_kernels.weights import QuantizedWeight

_EXPONENT = 0.7
_STRENGTH, _GROWTH = 10.0, 1.01
_STEPS = 20
"""The half-quadratic solver's p, beta, kappa and number of steps, as its authors chose them."""


def round_to_nearest(weight_t: Tensor, bits: int, group: int, importance: Tensor | None = None) -> QuantizedWeight:
    """Quantize W^T [n, m], float32, with ranges of the least squared error, weighted by `importance` [n] if given."""
    n = len(weight_t)
    weights = grouped(weight_t, group)
    importance = torch.ones(n, device=weight_t.device) if importance is None else importance
    scale, zero = best_ranges(weights, grouped_weights(importance, group), bits)
    return packed(encode(weights, scale, zero, bits).flatten(0, 1)[:n], scale, zero, group, bits)


def half_quadratic(weight_t: Tensor, bits: int, group: int) -> QuantizedWeight:
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
    scale = ((most - least) / (2**bits - 1)).clamp(min=_SMALLEST).to(SCALES).float()
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
        # Clamped, since 0 to a negative power is infinite.
        shrunk = residual.abs() - residual.abs().clamp(min=1e-8).pow(_EXPONENT - 1) / strength
        errors = residual.sign() * shrunk.clamp(min=0)
        zero = (codes - (weights - errors) / scale[:, None]).mean(1)
        strength *= _GROWTH
    zero = best.clamp(-LARGEST_ZERO, LARGEST_ZERO).to(SCALES).float()
    return packed(encode(weights, scale, zero, bits).flatten(0, 1)[: len(weight_t)], scale, zero, group, bits)


def packed(codes: Tensor, scale: Tensor, zero: Tensor | None, group: int, bits: int) -> QuantizedWeight:
    """Return the weight of codes [n, m] and ranges [groups, m], in the dtypes in which they are kept."""
    whole = codes.to(torch.int8 if zero is None else torch.uint8)
    return QuantizedWeight.of(whole, scale.to(SCALES), None if zero is None else zero.to(SCALES), group, bits)


DAMPING = 0.01
"""Fraction of the mean of H's diagonal that is added to it."""


def reverse_cholesky(moments: Tensor, damping: float = DAMPING) -> Tensor:
    """Return the upper triangular R, float64 [n, n], with R R^T = H + damping * mean(diag H) * I; H is the moments.

    Inputs that are always 0 get a variance of 1: their weights change nothing.
    """
    damped = moments.double().clone()
    diagonal = damped.diagonal()
    diagonal += damping * diagonal.mean()
    diagonal.masked_fill_(diagonal <= 0, 1.0)
    # With P the reversal and P H P = L L^T, R = P L P is upper triangular and R R^T = H.
    return torch.linalg.cholesky(damped.flip(0, 1)).flip(0, 1)


def error_compensated(
    weight_t: Tensor, factor: Tensor, runs: Sequence[tuple[int, int]], group: int
) -> list[QuantizedWeight | Tensor]:
    """Quantize W^T [n, m], float32, in `runs` of (inputs, bits); `factor` is R of the moments of its inputs.

    A run of 16 bits gives its rows, which have taken up the errors of the rows before.
    """
    inverse = torch.linalg.solve_triangular(factor, torch.eye(len(factor)).to(factor), upper=True).float()
    importance = factor.diagonal().square().float()
    rows, start = weight_t.clone(), 0
    quantized_runs: list[QuantizedWeight | Tensor] = []
    for inputs, bits in runs:
        stop = start + inputs
        if bits == 16:
            quantized_runs.append(rows[start:stop])
        else:
            groups = [
                _group(rows, inverse, importance, first, min(first + group, stop), bits)
                for first in range(start, stop, group)
            ]
            codes, scales, zeros = zip(*groups, strict=True)
            zero = None if zeros[0] is None else torch.stack(zeros)
            quantized_runs.append(packed(torch.cat(codes), torch.stack(scales), zero, group, bits))
        start = stop
    return quantized_runs


def _group(
    rows: Tensor, inverse: Tensor, importance: Tensor, start: int, stop: int, bits: int
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Quantize rows [start, stop), and change those that follow; return codes, scale [m] and zero."""
    block = rows[start:stop]
    scale, zero = best_ranges(block[None], importance[start:stop].view(1, -1, 1), bits)
    codes, errors = torch.empty_like(block), torch.empty_like(block)
    for row in range(stop - start):
        at = start + row
        codes[row] = encode(block[None, row : row + 1], scale, zero, bits)[0, 0]
        value = (codes[row] if zero is None else codes[row] - zero[0]) * scale[0]
        errors[row] = (block[row] - value) / inverse[at, at]
        block[row + 1 :] -= inverse[at, at + 1 : stop, None] * errors[row]
    # Later groups get the errors of this one in a single product, as in the batches of GPTQ.
    rows[stop:] -= inverse[start:stop, stop:].T @ errors
    return codes, scale[0], None if zero is None else zero[0]


_CLIPS = (1.0, 0.93, 0.86, 0.79, 0.72)
_COARSE_CLIPS = (1.0, 0.88, 0.76, 0.64, 0.52)
"""Ranges to start from, as fractions of the full one; for 3 bits and fewer, more is clipped."""
_RANGE_STEPS = 2
_NARROW = 64
_SMALLEST = 2.0**-24
"""Smallest positive scale, in 16 bits."""


def best_ranges(weight_t: Tensor, importance: Tensor, bits: int) -> tuple[Tensor, Tensor | None]:
    """Return scale and zero [groups, m], float32 with values of 16 bits, of grouped weights [groups, group, m].

    They minimize the sum of importance * error^2 over each group; `importance` [groups, group, 1] or as the weights is
    not negative. The zero is None for symmetric codes.
    """
    best: tuple[Tensor, Tensor | None] | None = None
    lowest = torch.empty(0)
    for clip in _CLIPS if bits > 3 else _COARSE_CLIPS:
        # Rounded before codes are chosen, which then are the best for the ranges that are stored.
        scale, zero = _rounded(*_full_range(weight_t, clip, bits))
        for step in range(_RANGE_STEPS + 1):
            codes = encode(weight_t, scale, zero, bits)
            error = _error(weight_t, codes, importance, scale, zero)
            if best is None:
                best, lowest = (scale, zero), error
            else:
                better = error < lowest
                lowest = torch.where(better, error, lowest)
                best_scale, best_zero = best
                best = (
                    torch.where(better, scale, best_scale),
                    None if zero is None or best_zero is None else torch.where(better, zero, best_zero),
                )
            if step < _RANGE_STEPS:
                scale, zero = _rounded(*_least_squares(weight_t, codes, importance, scale, zero))
    assert best is not None  # there is a first clip
    return best


def _full_range(weight_t: Tensor, clip: float, bits: int) -> tuple[Tensor, Tensor | None]:
    low, high = levels(bits)
    if is_symmetric(bits):
        return weight_t.abs().amax(1) * clip / high, None
    least, most = extremes(weight_t)
    scale = ((most - least) * clip / (high - low)).clamp(min=_SMALLEST)
    return scale, -least * clip / scale


def extremes(weight_t: Tensor) -> tuple[Tensor, Tensor]:
    """Return the ends of each group's range, [groups, m], with 0 in the range of nearly equal weights.

    Far from 0 a narrow range would have a zero of more digits than 16 bits hold.
    """
    least, most = weight_t.amin(1), weight_t.amax(1)
    narrow = (most - least) * _NARROW < torch.maximum(least.abs(), most.abs())
    return torch.where(narrow, least.clamp(max=0), least), torch.where(narrow, most.clamp(min=0), most)


def _least_squares(
    weight_t: Tensor, codes: Tensor, importance: Tensor, scale: Tensor, zero: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """Return the map of these codes with the least error; the given one where the codes are all equal."""
    if zero is None:
        square, product = (importance * codes * codes).sum(1), (importance * codes * weight_t).sum(1)
        return torch.where((square > 0) & (product > 0), product / square, scale), None
    total = importance.expand_as(codes).sum(1).clamp(min=torch.finfo(torch.float32).tiny)
    code_mean, weight_mean = (importance * codes).sum(1) / total, (importance * weight_t).sum(1) / total
    apart = codes - code_mean[:, None]
    square, product = (importance * apart * apart).sum(1), (importance * apart * weight_t).sum(1)
    fits = (square > 0) & (product > 0)
    slope = torch.where(fits, product / square, scale).clamp(min=_SMALLEST)
    return slope, torch.where(fits, code_mean - weight_mean / slope, zero)


def _rounded(scale: Tensor, zero: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Return scale and zero as 16 bits hold them; no scale is 0, no zero infinite."""
    scale = scale.clamp(_SMALLEST, LARGEST_ZERO).to(SCALES).float()
    return scale, None if zero is None else zero.clamp(-LARGEST_ZERO, LARGEST_ZERO).to(SCALES).float()


def _error(weight_t: Tensor, codes: Tensor, importance: Tensor, scale: Tensor, zero: Tensor | None) -> Tensor:
    """Return the weighted squared error of each group and output, [groups, m]."""
    values = codes if zero is None else codes - zero[:, None]
    return (importance * (values * scale[:, None] - weight_t).square()).sum(1)


SCALES = torch.float16
"""Dtype of scales and zeros."""
LARGEST_ZERO = float(torch.finfo(SCALES).max)


def levels(bits: int) -> tuple[int, int]:
    """Return the lowest and the highest code: symmetric around 0 for 8 bits, else from 0."""
    return (-127, 127) if is_symmetric(bits) else (0, 2**bits - 1)


def is_symmetric(bits: int) -> bool:
    return bits == 8  # with 8 bits, a zero point saves less than it takes


def grouped(rows: Tensor, group: int) -> Tensor:
    """Return rows [n, m] as [ceil(n / group), group, m], the last group filled with copies of the last row."""
    missing = -len(rows) % group
    if missing:
        # Copies leave the ranges of the last group as they are; zeros could widen them.
        rows = torch.cat((rows, rows[-1:].expand(missing, -1)))
    return rows.unflatten(0, (-1, group))


def grouped_weights(importance: Tensor, group: int) -> Tensor:
    """Return the importance [n] of inputs as [ceil(n / group), group, 1], 0 for copies in the last group."""
    return functional.pad(importance, (0, -len(importance) % group)).view(-1, group, 1)


def encode(weight_t: Tensor, scale: Tensor, zero: Tensor | None, bits: int) -> Tensor:
    """Return the nearest codes of grouped weights [groups, group, m] as float32, for scale and zero [groups, m]."""
    low, high = levels(bits)
    codes = weight_t / scale[:, None]
    if zero is not None:
        codes = codes + zero[:, None]
    return codes.round_().clamp_(low, high)
