"""SCAP's gate rule and modes."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from tests.released.recomputed.decoder import MLP, Cell, Output
from tests.released.recomputed.gate import Gate


@dataclass
class Scap(Gate):
    """SCAP's rule: y = W (m * (x - mode)) + W mode + b with a mask by |x - mode|.

    Source: IntelLabs/SCAP calibrate.py `SCAPCalibrationHook`. Paper: one scalar mode for each matrix of the MLP. As
    released for Llama-2 and Mistral: modes of 0.

    Attributes
    ----------
    modes
        The mode of every gated cell: a scalar, or a vector [n] for a mode of each input.
    names
        Matrices that the method gates.
    """

    modes: Mapping[Cell, Tensor | float] = field(default_factory=dict)
    names: tuple[str, ...] = MLP

    def gates(self, name: str) -> bool:
        """Return whether the method gates the matrices of that name."""
        return name in self.names

    def _mode(self, layer: int, name: str) -> Tensor | float:
        return self.modes.get((layer, name), 0.0)

    def score(self, layer: int, name: str, x: Tensor) -> Tensor:
        """Return the distance from the mode."""
        return (x - self._mode(layer, name)).abs()

    def replaced(self, layer: int, name: str, x: Tensor, mask: Tensor) -> Tensor | Output:
        """Return the output with dropped inputs at the mode."""
        weight, mode = self.weights.layers[layer].matrices[name].weight, self._mode(layer, name)
        constant = weight @ (torch.zeros(x.shape[-1], dtype=torch.float64) + mode)
        return Output(((x - mode) * mask) @ weight.T + constant)


def density_estimate(values: Tensor, at: Tensor, adjust: float = 0.5) -> Tensor:
    """Return a Gaussian kernel density estimate of `values` at the points `at`.

    The bandwidth is `adjust` times Scott's rule, std * N^(-1/5), as IntelLabs/SCAP calibrate.py sets it for seaborn.
    """
    values = values.flatten()
    width = adjust * values.std() * len(values) ** -0.2
    total = sum(torch.exp(-0.5 * ((at[:, None] - part) / width) ** 2).sum(dim=1) for part in values.split(4096))
    return total / (len(values) * width * math.sqrt(2 * math.pi))


def density_peak(values: Tensor, points: int = 2000, adjust: float = 0.5) -> tuple[float, float]:
    """Return (mode, density there): the highest of `points` equidistant points between the extreme values."""
    grid = torch.linspace(float(values.min()), float(values.max()), points, dtype=torch.float64)
    density = density_estimate(values, grid, adjust)
    return float(grid[density.argmax()]), float(density.max())
