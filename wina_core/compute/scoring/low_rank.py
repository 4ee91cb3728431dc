"""R-Sparse's low-rank part for dropped inputs: the largest singular triples of a matrix, computed once."""

from __future__ import annotations

import weakref
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from wina_core.compute.models.view import ModelView, Projection
from wina_core.errors import WinaError
from wina_core.specs import MethodSpec
from wina_core.specs.methods import get_method
from wina_core.specs.plans import SparsityPlan
from wina_core.specs.targets import cell_rho

_EXACT = 1024
"""Largest shorter side that is decomposed in full; 1024 x 4096 takes about a second."""
_ITERATIONS = 6
_MARGIN = 16
"""Extra triples computed: they sharpen the last ones and serve later plans of slightly more rank."""


@dataclass(frozen=True, eq=False)
class LowRank:
    """U_r S_r V_r^T of a matrix W [m, n], with S_r folded into one factor."""

    right: Tensor
    """V_r^T, or S_r V_r^T, [r, n]."""
    left: Tensor
    """U_r S_r, or U_r, [m, r]."""

    @property
    def weights(self) -> int:
        """r (m + n), the weights read for every token."""
        return self.right.numel() + self.left.numel()

    def __call__(self, x: Tensor) -> Tensor:
        """Return U_r S_r V_r^T x, [..., m], for x [..., n]."""
        return functional.linear(functional.linear(x, self.right), self.left)

    def first(self, rank: int) -> LowRank:
        """Return the part of the `rank` largest singular values."""
        return LowRank(self.right[:rank], self.left[:, :rank])


def low_rank(weight: Tensor, rank: int) -> LowRank:
    """Return the best approximation of W [m, n] of that rank, in W's dtype; raise WinaError if the rank is too high.

    Exact to rounding if the shorter side has up to 1024 rows or columns. Otherwise by subspace iteration (Halko,
    Martinsson and Tropp 2011, algorithm 4.4) on twice the rank, in at least float32: even for a random matrix's flat
    spectrum the residual's norm is within 1 % of the optimum's. That takes seconds for 4096 x 11008, where a full
    decomposition takes minutes.
    """
    m, n = weight.shape
    if rank > min(m, n):
        raise WinaError(
            f"A low-rank part of rank {rank} does not fit a matrix of {m} x {n}, whose rank is {min(m, n)} at most; "
            "raise rho."
        )
    left, right = _exact(weight.detach(), rank) if min(m, n) <= _EXACT else _iterated(weight.detach(), rank)
    return LowRank(right.to(weight.dtype).contiguous(), left.to(weight.dtype).contiguous())


def _exact(weight: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """Return (left, right), float64: W V_r V_r^T or U_r U_r^T W.

    V or U come from the smaller of the Gram matrices W^T W and W W^T, several times faster than by an SVD.
    """
    exact = weight.double()
    if len(weight) < weight.shape[1]:
        u = torch.linalg.eigh(exact @ exact.T).eigenvectors.flip(1)[:, :rank]
        return u, u.T @ exact
    v = torch.linalg.eigh(exact.T @ exact).eigenvectors.flip(1)[:, :rank]
    return exact @ v, v.T


def _iterated(weight: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """Return (left, right), in at least float32, by subspace iteration."""
    exact = weight.to(torch.promote_types(weight.dtype, torch.float32))
    with torch.random.fork_rng(devices=[weight.device] if weight.device.type == "cuda" else []):
        torch.manual_seed(0)
        u, s, v = torch.svd_lowrank(exact, q=min(2 * rank + _MARGIN, *weight.shape), niter=_ITERATIONS)
    return (u * s)[:, :rank], v.T[:rank]


_Key = tuple[str, int]
_KEPT: weakref.WeakKeyDictionary[nn.Linear, dict[_Key, LowRank]] = weakref.WeakKeyDictionary()


def kept_low_rank(projection: Projection, rank: int) -> LowRank:
    """Return a projection's `low_rank`, cached until its weights are written to."""
    found = _KEPT.setdefault(projection.linear, {})
    key = projection.name, projection.linear.weight._version
    if key not in found or len(found[key].right) < rank:
        for old in [other for other in found if other[0] == projection.name]:
            del found[old]
        found[key] = low_rank(projection.weight, max(rank, min(rank + _MARGIN, *projection.shape)))
    return found[key].first(rank)


def low_ranks(view: ModelView, method: MethodSpec, plan: SparsityPlan) -> list[dict[str, LowRank]]:
    """Return the low-rank parts of each of the view's parts by canonical name, for a resolved plan."""
    rule = get_method(method)
    table: list[dict[str, LowRank]] = []
    for layer in view.parts:
        row = {}
        for name, projection in layer.projections.items():
            column = plan.layout.projections.index(name)
            target, rho = plan.sparsity[layer.index][column], cell_rho(plan, layer.index, column)
            if rank := rule.rank(name, projection.shape, target, rho):
                row[name] = kept_low_rank(projection, rank)
        table.append(row)
    return table
