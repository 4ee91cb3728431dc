"""LaRoSA's gate rule and rotation."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tests.released.recomputed.decoder import Output, Shape, Weights, dense_inputs
from tests.released.recomputed.gate import Gate
from tests.released.recomputed.selections import kept_released, top_k_with_ties


@dataclass
class Larosa(Gate):
    """LaRoSA's rule: top k of the rotated inputs, x -> Q (m * (Q^T x)), with one Q for each decoder layer.

    Source: alibaba/EfficientAI larosa/inference/modeling_llama_larosa.py. Q rotates the inputs of q, k, v, gate and
    up; o and down are gated as they are. The level is 0.8 s before and 1.2 s for o and down. All inputs that reach the
    k-th highest are kept. With `folded` the norm's gain belongs to the matrices, as a rotation merged into the weights
    needs it; the released code rotates the input with its gain.

    Attributes
    ----------
    bases
        Q [d, d] of every layer, columns are basis vectors.
    """

    bases: Sequence[Tensor] = ()
    folded: bool = True

    def level(self, layer: int, name: str) -> float:
        """Return the sparsity of a matrix."""
        return self.targets[layer, name] * (1.2 if name in ("o", "down") else 0.8)

    def mask(self, layer: int, name: str, score: Tensor) -> Tensor:
        """Return the mask of a score, ties included."""
        mask = top_k_with_ties(score, kept_released(score.shape[-1], self.level(layer, name)))
        mask[:, : self.prefix(score.shape[1])] = True
        self.masks[layer, name] = mask
        return mask

    def __call__(self, layer: int, name: str, x: Tensor) -> Tensor | Output:
        """Gate the input of one matrix."""
        if not self.targets.get((layer, name)):
            return x
        if name in ("o", "down"):
            return x * self.mask(layer, name, x.abs())
        each = self.weights.layers[layer]
        gain = each.mlp_gain if name in ("gate", "up") else each.attention_gain
        gain = gain if self.folded else torch.ones_like(gain)
        rotated = (x / gain) @ self.bases[layer]
        return (rotated * self.mask(layer, name, rotated.abs())) @ self.bases[layer].T * gain


def larosa_bases(weights: Weights, shape: Shape, ids: Tensor, *, folded: bool = True) -> list[Tensor]:
    """Return Q of every layer: the eigenvectors of the second moment of the attention input in the dense model.

    Source: alibaba/EfficientAI larosa/gen_act/grab_acts_rotate_diff_Q_llama.py. Its damping of the diagonal leaves
    eigenvectors as they are.
    """
    inputs, bases = dense_inputs(weights, shape, ids), []
    for index, layer in enumerate(weights.layers):
        x = inputs[index, "q"].flatten(0, 1)
        x = x / layer.attention_gain if folded else x
        bases.append(torch.linalg.eigh(x.T @ x).eigenvectors)
    return bases
