"""The output of an MLP's activation function, which CATS masks by."""

import threading
from typing import Any

from torch import Tensor, nn

from wina_core.compute.models.uncompiled import uncompiled
from wina_core.compute.models.view import LayerView
from wina_core.errors import WinaError

_NAMES = ("act_fn", "activation_fn", "act")


class _Call(threading.local):
    """The call in progress in a thread."""

    value: Tensor | None = None


class GateActivation:
    """Hook that catches z = act(W_gate x) of one layer while the model runs."""

    def __init__(self, layer: LayerView) -> None:
        found = [getattr(module, name) for module in layer.mlp for name in _NAMES if hasattr(module, name)]
        if not found or not isinstance(found[0], nn.Module):
            raise WinaError(f"The MLP of layer {layer.index} has no activation that CATS could mask by; choose teal.")
        self._call = _Call()
        self._hook = found[0].register_forward_hook(self._catch)

    def take(self) -> Tensor:
        """Return z [..., tokens, n] of the call in progress, once."""
        value, self._call.value = self._call.value, None
        if value is None:
            raise RuntimeError("the MLP's activation has not run")
        return value

    def remove(self) -> None:
        """Stop catching."""
        self._hook.remove()
        self._call.value = None

    @uncompiled
    def _catch(self, _module: nn.Module, _inputs: Any, output: Tensor) -> None:
        self._call.value = output
