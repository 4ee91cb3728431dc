"""R-Sparse's gate rule."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from tests.released.recomputed.decoder import ATTENTION, Cell, Output
from tests.released.recomputed.gate import Gate
from tests.released.recomputed.selections import kept_paper
from tests.released.recomputed.wina import column_norms


def rsparse_rank(outputs: int, inputs: int, sparsity: float, rho: float) -> int:
    """Return the paper's rank, floor(m n (1 - s)(1 - rho) / (m + n)), by the true shape [m, n]."""
    return math.floor(outputs * inputs * (1 - sparsity) * (1 - rho) / (outputs + inputs) + 1e-9)


def rsparse_released_rank(outputs: int, inputs: int, sparsity: float, rho: float, *, searched: bool = False) -> int:
    """Return the released rank of a matrix [m, n]; the caller passes hidden x hidden for q, k, v and o.

    Source: VITA-Group/R-Sparse utils/setup.py `set_threshold_r_sparse`. With `searched` shares at least one input and
    one rank are kept.
    """
    channels = max(int(inputs * (1 - sparsity) * rho), int(searched))
    budget = inputs * outputs * (1 - sparsity) - channels * outputs
    return max(int(budget / (inputs + outputs)), int(searched))


@dataclass
class RSparse(Gate):
    """R-Sparse's rule: y = W (m * x) + U_r S_r V_r^T ((1 - m) * x) + b.

    Paper: the mask keeps (1 - s) rho of the inputs by |x|. As released (VITA-Group/R-Sparse models/modeling_llama.py
    `R_Sparse_Linear`, utils/setup.py): by |x_i| * ||W[:, i]||, or by |x_i| without a low-rank part where rho is 1; and
    the rank takes q, k, v and o for hidden x hidden.

    Attributes
    ----------
    rho
        Share of the kept budget that goes to the mask: one for all cells, or one for each cell.
    searched
        True where the shares come from a searched file: as released each matrix then keeps one input and one rank.
    """

    rho: float | Mapping[Cell, float] = 1.0
    searched: bool = False

    def share(self, layer: int, name: str) -> float:
        """Return rho of a cell."""
        return self.rho if isinstance(self.rho, float) else self.rho[layer, name]

    def score(self, layer: int, name: str, x: Tensor) -> Tensor:
        """Return |x|, times the column norms as released with rho below 1."""
        scaled = self.released and self.share(layer, name) != 1
        return x.abs() * column_norms(self.weights, layer, (name,)) if scaled else x.abs()

    def masked_fraction(self, layer: int, name: str) -> float:
        """Return 1 - (1 - s) rho, the fraction of inputs that the mask drops."""
        return 1 - (1 - self.targets[layer, name]) * self.share(layer, name)

    def kept(self, layer: int, name: str, n: int) -> int:
        """Return the number of inputs of the mask; as released the `channels` of utils/setup.py."""
        if not self.released:
            return kept_paper(n, self.masked_fraction(layer, name))
        return max(int(n * (1 - self.targets[layer, name]) * self.share(layer, name)), int(self.searched))

    def rank(self, layer: int, name: str) -> int:
        """Return the rank of the low-rank part."""
        outputs, inputs = self.weights.layers[layer].matrices[name].weight.shape
        sparsity, rho = self.targets[layer, name], self.share(layer, name)
        if not self.released:
            return rsparse_rank(outputs, inputs, sparsity, rho)
        if rho == 1:
            return 0
        if name in ATTENTION:
            outputs = inputs = self.weights.embedding.shape[1]
        return rsparse_released_rank(outputs, inputs, sparsity, rho, searched=self.searched)

    def replaced(self, layer: int, name: str, x: Tensor, mask: Tensor) -> Tensor | Output:
        """Add the low-rank part of the dropped inputs."""
        weight, rank = self.weights.layers[layer].matrices[name].weight, self.rank(layer, name)
        u, s, vt = torch.linalg.svd(weight, full_matrices=False)
        rest = ((x * ~mask) @ vt[:rank].T * s[:rank]) @ u[:, :rank].T
        return Output((x * mask) @ weight.T + rest)
