"""Output errors of gate rules on random networks."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional
from wina_kernels.selection import kept_inputs, scores, top_k_mask

from wina_core.compute.synthetic.networks import Network
from wina_core.specs.methods.rsparse import affordable_rank, masked_fraction


@dataclass(frozen=True)
class GatedProduct:
    """The output of one gated matrix, and its cost."""

    y: Tensor
    """[m]."""
    kept_weights: int
    """Weights read through the mask."""
    added_weights: int = 0
    """Weights of the low-rank part."""
    norms: int = 0
    """Column norms that the scores read."""


Rule = Callable[[Tensor, Tensor], GatedProduct]
"""(W [m, n], x [n]) -> the gated product."""


def masked(sparsity: float, weighted: bool) -> Rule:
    """Return the rule y = W (m * x) that keeps the K largest |x_i| (TEAL, CATS) or, `weighted`, |x_i| ||W[:, i]||
    (WINA)."""

    def rule(weight: Tensor, x: Tensor) -> GatedProduct:
        keep = kept_inputs(len(x), sparsity)
        mask = top_k_mask(scores(x, weight.norm(dim=0) if weighted else None), keep)
        return GatedProduct(weight @ (mask * x), keep * weight.shape[0], norms=len(x) if weighted else 0)

    return rule


def masked_with_low_rank(sparsity: float, rho: float) -> Rule:
    """Return R-Sparse's rule y = W (m * x) + U_r S_r V_r^T ((1 - m) * x), with the share rho of the kept budget for the
    mask.

    The rank r is what the rest of the budget buys in the matrix's real shape. W has orthogonal columns, so its best
    approximation of rank r keeps its r longest columns.
    """

    def rule(weight: Tensor, x: Tensor) -> GatedProduct:
        outputs, inputs = weight.shape
        keep = kept_inputs(inputs, masked_fraction(sparsity, rho))
        mask = top_k_mask(scores(x, None), keep)
        rank = affordable_rank((outputs, inputs), sparsity, rho)
        compensated = torch.zeros(inputs, dtype=torch.bool)
        compensated[weight.norm(dim=0).topk(rank).indices] = True
        return GatedProduct(weight @ ((mask | compensated) * x), keep * outputs, rank * (outputs + inputs))

    return rule


@dataclass(frozen=True)
class Outcome:
    """One network under one rule."""

    error: float
    """||y - gated y||_2."""
    kept_weights: int
    added_weights: int
    norms: int
    weights: int


def outcome(network: Network, rule: Rule) -> Outcome:
    """Run the network dense and gated; each gated matrix reads the output of the gated ones before it."""
    dense = gated = network.x
    kept = added = norms = 0
    for index, weight in enumerate(network.matrices):
        if index > 0:
            dense, gated = functional.silu(dense), functional.silu(gated)
        dense, result = weight @ dense, rule(weight, gated)
        gated, kept, added = result.y, kept + result.kept_weights, added + result.added_weights
        norms += result.norms
    weights = sum(weight.numel() for weight in network.matrices)
    return Outcome(float((dense - gated).norm()), kept, added, norms, weights)
