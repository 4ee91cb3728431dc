"""Norms that compute in float64 if the model does."""

from types import MethodType

from torch import Tensor, nn

from wina_core.compute.models.norms import norm_gain, normalized


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
