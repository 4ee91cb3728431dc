"""Random networks whose matrices have orthogonal columns."""

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import torch
from torch import Tensor

from wina_core.specs import NetworkName

_KEPT = 40
"""Cached networks: both of 20 seeds, 340 MB at size 1024."""


@dataclass(frozen=True, eq=False)
class Network:
    """Matrices applied one after the other, with SiLU between them, and one input; all float64."""

    x: Tensor
    """[n]."""
    matrices: tuple[Tensor, ...]
    """Each [m, n] with W^T W diagonal."""


@lru_cache(maxsize=_KEPT)
def draw(name: NetworkName, size: int, seed: int) -> Network:
    """Draw the network of that seed: one [size, size] matrix, or size -> size / 2 -> size."""
    generator = torch.Generator().manual_seed(seed)
    widths = (size, size) if name == "lemma" else (size, size // 2, size)
    x = torch.randn(size, generator=generator, dtype=torch.float64)
    matrices = tuple(
        orthogonalize_columns(kaiming_uniform(outputs, inputs, generator)) for inputs, outputs in pairwise(widths)
    )
    return Network(x, matrices)


def kaiming_uniform(outputs: int, inputs: int, generator: torch.Generator) -> Tensor:
    """Draw [outputs, inputs] uniform over +-1/sqrt(inputs), the default initialization of linear layers."""
    draws = torch.rand(outputs, inputs, generator=generator, dtype=torch.float64)
    return (2.0 * draws - 1.0) / math.sqrt(inputs)


def orthogonalize_columns(weight: Tensor) -> Tensor:
    """Return W V of W [m, n] = U S V^T, columns from the longest to the shortest; V as the eigenbasis of W^T W."""
    _, basis = torch.linalg.eigh(weight.T @ weight)
    return weight @ basis.flip(1)
