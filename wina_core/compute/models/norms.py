"""Norms of a residual stream: they normalize, multiply by a gain, and some add a bias; in float64 if the model does."""

from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn

_GAIN_ABOVE_ONE = ("GemmaRMSNorm", "Gemma2RMSNorm", "Gemma3RMSNorm")
"""Classes whose weight is the gain minus 1."""


def centres(norm: nn.Module) -> bool:
    """Return whether the norm subtracts the mean (LayerNorm), unlike RMSNorm."""
    return isinstance(norm, nn.LayerNorm)


def normalized(norm: nn.Module, x: Tensor) -> Tensor:
    """Normalize x [..., d] as the norm does before its gain and bias, in x's dtype."""
    module: Any = norm
    if centres(norm):
        x = x - x.mean(-1, keepdim=True)
    epsilon = module.eps if hasattr(module, "eps") else module.variance_epsilon
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + epsilon)


def norm_gain(norm: nn.Module) -> Tensor:
    """Return the gain g [d], float64; ones without one."""
    module: Any = norm
    if module.weight is None:
        return torch.ones(module.normalized_shape, dtype=torch.float64)
    gain: Tensor = module.weight.double()
    return 1.0 + gain if type(norm).__name__ in _GAIN_ABOVE_ONE else gain


def set_norm_gain(norm: nn.Module, gain: Tensor) -> None:
    """Write the gain g [d] of a norm that has one."""
    module: Any = norm
    module.weight.copy_(gain - 1.0 if type(norm).__name__ in _GAIN_ABOVE_ONE else gain)


def norm_bias(norm: nn.Module) -> Tensor | None:
    """Return the bias b [d], float64, or None."""
    bias: Tensor | None = getattr(norm, "bias", None)
    return bias.double() if bias is not None and bias.any() else None


def compute_norms_in_float64(model: nn.Module) -> None:
    """Give every RMSNorm of a float64 model a float64 forward, in place.

    transformers' own compute in float32 whatever the model's dtype, which would limit two equivalent float64 models
    to an agreement of about 1e-7. Applied to all of them, those of queries and keys included; LayerNorm needs none of
    this, it computes in the dtype of its input.
    """
    for module in model.modules():
        if type(module).__name__.endswith("RMSNorm"):
            module.forward = MethodType(_rms_norm, module)


def _rms_norm(self: nn.Module, hidden_states: Tensor) -> Tensor:
    return norm_gain(self) * normalized(self, hidden_states)
