"""Replacements of dropped inputs: the mode of each or of all, and the mean of each over the tokens that drop it."""

import numpy as np
import torch
from torch import Tensor

_BANDWIDTH = 0.5
"""Bandwidth of the density estimate, in robust standard deviations: a thousand tokens find a bell's peak to a twentieth
of its width, and the two sides of a skewed one stay apart."""
_STEPS = 25
_BINS, _HALF_SCOTT = 2000, 0.5
"""Bins and bandwidth of the density of all numbers of a matrix's input."""


def modes(x: Tensor) -> Tensor:
    """Return the mode of each input, float32 [n], from a sample x [tokens, n].

    Mean shift with a Gaussian kernel (Cheng 1995): uphill on the kernel density estimate, from the input's median.
    """
    values = x.detach().float()
    mode = values.median(dim=0).values
    # 1.4826 times the median absolute deviation is the standard deviation of a normal distribution.
    width = _BANDWIDTH * 1.4826 * (values - mode).abs().median(dim=0).values
    width = width.clamp(min=torch.finfo(torch.float32).tiny)
    for _ in range(_STEPS):
        # Below -80 the exponential is no normal number, with which processors are slow.
        weights = ((values - mode) / width).square_().mul_(-0.5).clamp_(min=-80.0).exp_()
        mode = (weights * values).sum(0) / weights.sum(0).clamp(min=torch.finfo(torch.float32).tiny)
    return mode


def density_peak(x: Tensor) -> Tensor:
    """Return the one mode of all numbers of a sample x [tokens, n], float32 [1]: the peak of their density.

    A Gaussian kernel density estimate with half of Scott's bandwidth, at the centres of 2,000 bins over the range of
    the numbers, as in SCAP's code (IntelLabs/SCAP, calibrate.py), which takes the best of three samples' peaks.
    """
    values = x.detach().double().flatten()
    low, high = values.aminmax()
    width = (high - low) / _BINS
    bandwidth = values.std() * _HALF_SCOTT * values.numel() ** -0.2
    if not width > 0 or not bandwidth > 0:
        return values.mean().float()[None]
    counts = torch.histc(values, _BINS, float(low), float(high)).cpu()
    distances = torch.arange(1 - _BINS, _BINS, dtype=torch.float64) * float(width / bandwidth)
    kernel = distances.square().mul_(-0.5).exp_()
    density = np.convolve(kernel.numpy(), counts.numpy(), "valid")  # torch takes 80 times as long
    return (low + (int(density.argmax()) + 0.5) * width).float()[None]


def dropped_means(x: Tensor, mask: Tensor | None) -> Tensor:
    """Return each input's mean over the tokens that drop it, float32 [n]; 0 if none does. x, mask: [tokens, n]."""
    if mask is None:
        return torch.zeros(x.shape[-1], device=x.device)
    dropped = ~mask
    return torch.where(dropped, x, 0).float().sum(0) / dropped.sum(0).clamp(min=1)
