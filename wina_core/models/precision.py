"""Norms that compute in float64 when the model does."""

from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn


def compute_norms_in_float64(model: nn.Module) -> None:
    """Give every RMSNorm of a float64 model a float64 forward, in place.

    transformers' norms compute in float32 whatever the model's dtype, which would limit two equivalent float64
    models to an agreement of about 1e-7. Applied to all norms, those of queries and keys included.
    """
    for module in model.modules():
        if type(module).__name__.endswith("RMSNorm"):
            module.forward = MethodType(_rms_norm, module)


def _rms_norm(self: Any, hidden_states: Tensor) -> Tensor:
    variance = hidden_states.pow(2).mean(-1, keepdim=True)
    return self.weight * (hidden_states * torch.rsqrt(variance + self.variance_epsilon))
