"""Scales and zeros of groups that minimize the squared error of rounding to nearest.

Each of several clipped ranges is the start of least-squares steps: for fixed codes q, the best affine map
w = a q + b has a closed form; for a fixed map, the best codes are the nearest. The best of all is kept.
"""

import torch
from torch import Tensor

from wina_core.compute.quantization.codes import LARGEST_ZERO, SCALES, encode, is_symmetric, levels

_CLIPS = (1.0, 0.93, 0.86, 0.79, 0.72)
_COARSE_CLIPS = (1.0, 0.88, 0.76, 0.64, 0.52)
"""Ranges to start from, as fractions of the full one; for 3 bits and fewer, more is clipped."""
_STEPS = 2
_NARROW = 64
_SMALLEST = 2.0**-24
"""Smallest positive scale, in 16 bits."""


def best_ranges(weight_t: Tensor, importance: Tensor, bits: int) -> tuple[Tensor, Tensor | None]:
    """Return scale and zero [groups, m], float32 with values of 16 bits, of grouped weights [groups, group, m].

    They minimize the sum of importance * error^2 over each group; `importance` [groups, group, 1] or as the weights is
    not negative. The zero is None for symmetric codes.
    """
    found: tuple[Tensor, Tensor | None] | None = None
    lowest = torch.empty(0)
    for clip in _CLIPS if bits > 3 else _COARSE_CLIPS:
        scale, zero = _rounded(*_full_range(weight_t, clip, bits))
        for step in range(_STEPS + 1):
            codes = encode(weight_t, scale, zero, bits)
            error = _error(weight_t, codes, importance, scale, zero)
            if found is None:
                found, lowest = (scale, zero), error
            else:
                better = error < lowest
                lowest = torch.where(better, error, lowest)
                known, known_zero = found
                found = (
                    torch.where(better, scale, known),
                    None if zero is None or known_zero is None else torch.where(better, zero, known_zero),
                )
            if step < _STEPS:
                scale, zero = _rounded(*_least_squares(weight_t, codes, importance, scale, zero))
    assert found is not None  # there is a first clip
    return found


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
