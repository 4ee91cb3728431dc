"""Expected effect of rounding the weights that read an input, as a differentiable function of its basis."""

import torch
from torch import Tensor

from wina_core.compute.rotation.turns import turned, turned_diagonal

_GROUP = 64
"""Inputs with a common scale and zero, as quantizers take them by default."""
_RANGE = 4.7
"""Expected range of 64 normal numbers, in standard deviations."""


def rounding_error(x: Tensor, basis: Tensor, gram: Tensor, sensitivity: Tensor, bits: int) -> Tensor:
    """Return the expected KL divergence, in nats, of rounding what reads x [tokens, n] in a basis B (`turns`).

    A group's weights of one output are taken for normal numbers. They are rounded in steps of r / (2^bits - 1), with r
    their expected range; the error of each is uniform, of variance step^2 / 12, and independent of all others. With the
    weights' Gram matrix G and the Fisher information F of x, the errors of the outputs weigh f = tr F / tr G each, so
    the sum over groups of f mean(step^2) / 12 * sum(E[(B^T x)_i^2]) / 2 is expected.
    """
    weights = turned_diagonal(gram, basis)
    energies = turned(x, basis).square().mean(0)
    rounding = _RANGE**2 / (2**bits - 1) ** 2 / 12
    groups = zip(weights.split(_GROUP), energies.split(_GROUP), strict=True)
    errors = torch.stack([own.mean() * energy.sum() for own, energy in groups])
    return rounding * sensitivity.trace() / gram.trace() * errors.sum() / 2
