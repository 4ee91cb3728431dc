"""Estimated bits of matrices in planes of 2 bits, for weights and scores with normal distributions.

The kernels read another plane of an input from the score on at which it lowers the squared error as much as the first
plane does at the threshold (`wina_kernels.planes`).
"""

from functools import cache, lru_cache
from statistics import NormalDist

import numpy as np

from wina_core.model_info.cost.bits import NUMBER_BITS, SCALE_BITS
from wina_core.model_info.cost.matrices import Table
from wina_core.specs.quantization import PLANES_BITS

_PLANE_BITS, _MOST_BITS = PLANES_BITS[-1], PLANES_BITS[0]
_MOST = _MOST_BITS // _PLANE_BITS
_NORMAL = NormalDist()
_QUANTILES = 4_096
"""Quantiles that represent a normal distribution."""
_LARGEST = 4.0
"""Largest weight of an input in standard deviations; estimates for the demo model are within a tenth of its gates'."""


def code_bits(bits: Table, outputs: Table, inputs: Table, together: Table, *, shared: bool) -> Table:
    """Return the bits of codes by energy, where `bits` hold scales and numbers of planes too.

    `together` are the outputs of the linear layer that is quantized as one; `shared` bits are the mean over the model.
    """
    beside: Table = (SCALE_BITS + NUMBER_BITS) / together
    if shared:
        beside = np.full_like(beside, np.average(beside, weights=outputs * inputs))
    return np.clip(bits - beside, _PLANE_BITS, _MOST_BITS)


def bits_read(codes: Table, outputs: Table, inputs: Table, kept: Table, together: Table, *, numbered: bool) -> Table:
    """Return the bits read of W [outputs, inputs] of which gates keep `kept` inputs, and all if they keep every input.

    `codes` are the mean bits of the codes, and `numbered` matrices have a number of planes for each input.
    """
    planes, read = codes / _PLANE_BITS, np.zeros_like(codes)
    for plane, share in enumerate(_shares(kept / inputs)):
        read += np.clip(planes - plane, 0.0, 1.0) * share
    beside = SCALE_BITS * kept + (NUMBER_BITS * inputs if numbered else 0.0)
    return outputs * (_PLANE_BITS * inputs * read + beside / together)


def _shares(kept: Table) -> list[Table]:
    """Return for each plane the share of inputs of which gates read it, if all have it."""
    found: list[Table] = np.vectorize(_shares_of, otypes=[float] * _MOST)(kept)
    return found


@lru_cache(maxsize=4_096)
def _shares_of(kept: float) -> tuple[float, ...]:
    if not 0 < kept < 1:
        return (float(kept > 0),) * _MOST
    threshold = _NORMAL.inv_cdf(1 - kept / 2)
    return (kept, *(2 * _NORMAL.cdf(-threshold * factor) for factor in _ladder()))


@cache
def _ladder() -> tuple[float, ...]:
    """Return the score from which the second, third, ... plane is read, over that from which an input is kept."""
    weights = np.array([_NORMAL.inv_cdf((place + 0.5) / _QUANTILES) for place in range(_QUANTILES)])
    errors = [1.0]
    for plane in range(1, _MOST + 1):
        step = 2 * _LARGEST / 4**plane
        errors.append(float(((weights - (np.floor(weights / step) + 0.5) * step) ** 2).mean()))
    gains = -np.diff(errors)
    return tuple(np.sqrt(gains[0] / gains[1:]).tolist())
