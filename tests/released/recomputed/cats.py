"""CATS' gate rule."""

import torch
from torch import Tensor

from tests.released.recomputed.decoder import Output
from tests.released.recomputed.gate import Gate


class Cats(Gate):
    """CATS's rule: the mask by |SiLU(gate x)| selects rows of up and columns of down.

    Source: ScalingIntelligence/CATS experiments/models/sparse_silu/ugly_utils.py `MistralSparseSiluMLP.forward`. The
    targets and thresholds of `down` apply.
    """

    def __call__(self, layer: int, name: str, x: Tensor) -> Tensor | Output:
        """Compute the mask at the gate matrix and apply it at the input of down."""
        if not self.targets.get((layer, "down")):
            return x
        if name == "gate":
            z = self.weights.layers[layer].matrices["gate"](x)
            self.masks[layer, "up"] = self.mask(layer, "down", (z * torch.sigmoid(z)).abs())
        return x * self.masks[layer, "down"] if name == "down" else x
