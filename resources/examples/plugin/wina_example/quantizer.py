"""A quantizer: round to nearest between the extremes of each group."""

import torch
from torch.nn import functional


def quantize(weight_t, bits, group):
    """Return codes [n, m], scale and zero [ceil(n / group), m] of W^T [n, m], float32."""
    n = len(weight_t)
    rows = functional.pad(weight_t, (0, 0, 0, -n % group)).unflatten(0, (-1, group))
    if bits == 8:  # symmetric around 0, without a zero
        scale, zero = (rows.abs().amax(1) / 127).clamp(min=2**-14), None
        codes = (rows / scale[:, None]).round()
    else:
        low, high = rows.amin(1).clamp(max=0), rows.amax(1).clamp(min=0)
        scale = ((high - low) / (2**bits - 1)).clamp(min=2**-14)
        zero = (-low / scale).round()
        codes = torch.clamp((rows / scale[:, None]).round() + zero[:, None], 0, 2**bits - 1)
    return codes.flatten(0, 1)[:n], scale, zero
