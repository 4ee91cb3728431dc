"""Residual shortcuts: d x d matrices that carry the residual from one rotated basis into the next.

SliceGPT's shortcut Q_in^T Q_out, needed where a decoder layer's sites are rotated differently.
"""

from collections.abc import Mapping
from types import MethodType
from typing import Any, Literal

import torch
from torch import Tensor, nn

from wina_core.errors import WinaError
from wina_core.models.view import ModelView

Branch = Literal["attention", "mlp"]
"""The residual that passes by the attention, or by the MLP."""
_BRANCHES: tuple[Branch, ...] = ("attention", "mlp")
_SUFFIX = "_shortcut"


def set_shortcut(layer: nn.Module, branch: Branch, matrix: Tensor) -> None:
    """Multiply the residual past a decoder layer's attention or MLP by `matrix` [d, d], from the right.

    The matrix becomes a buffer of the layer, so that it moves and is stored with it.
    """
    layer.register_buffer(branch + _SUFFIX, matrix)
    layer.forward = MethodType(_forward, layer)


def shortcuts(view: ModelView) -> dict[str, Tensor]:
    """All shortcut matrices by name, for example "layers.3.attention"."""
    return {
        f"layers.{layer.index}.{branch}": matrix
        for layer in view.layers
        for branch in _BRANCHES
        if (matrix := getattr(layer.module, branch + _SUFFIX, None)) is not None
    }


def set_shortcuts(view: ModelView, matrices: Mapping[str, Tensor]) -> None:
    """Attach matrices named as by `shortcuts`; raises WinaError when they do not fit the model."""
    modules = {
        f"layers.{layer.index}.{branch}": (layer.module, branch) for layer in view.layers for branch in _BRANCHES
    }
    weight = view.embedding.weight
    for name, matrix in matrices.items():
        if name not in modules or matrix.shape != (view.hidden_size, view.hidden_size):
            raise WinaError(f"The residual shortcut {name} does not fit this model; export the rotated model again.")
        set_shortcut(*modules[name], matrix.to(weight.device, weight.dtype))


def shortcut_parameters(model: nn.Module) -> int:
    """Shortcut weights that the model reads for every token beside its own; 0 where there are no shortcuts."""
    return sum(buffer.numel() for name, buffer in model.named_buffers() if is_shortcut(name))


def is_shortcut(name: str) -> bool:
    """Whether a state dict's key is a residual shortcut."""
    return name.rpartition(".")[2] in {branch + _SUFFIX for branch in _BRANCHES}


def _forward(self: Any, hidden_states: Tensor, **kwargs: Any) -> Tensor:
    """A pre-norm decoder layer, as all supported families have it under the same names, with shortcuts."""
    attended, _ = self.self_attn(hidden_states=self.input_layernorm(hidden_states), **kwargs)
    hidden_states = _carry(self, "attention", hidden_states) + attended
    return _carry(self, "mlp", hidden_states) + self.mlp(self.post_attention_layernorm(hidden_states))


def _carry(layer: nn.Module, branch: Branch, residual: Tensor) -> Tensor:
    matrix = getattr(layer, branch + _SUFFIX, None)
    return residual if matrix is None else torch.matmul(residual, matrix)
