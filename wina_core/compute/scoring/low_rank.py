"""R-Sparse's stand-in for dropped inputs: the largest singular triples of a matrix, found once and kept."""

from __future__ import annotations

import weakref
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from wina_core.compute.models.view import ModelView, Projection
from wina_core.errors import WinaError
from wina_core.masks.targets import cell_rho
from wina_core.methods import get_method
from wina_core.specs import MethodSpec
from wina_core.specs.plans import SparsityPlan

_EXACT = 1024
"""Shorter side up to which a matrix is decomposed in full; one of 1024 x 4096 takes about a second."""
_ITERATIONS = 6
_MARGIN = 16
"""Triples computed beyond those asked for: they sharpen the last ones, and serve a later plan of a little more rank."""


@dataclass(frozen=True, eq=False)
class LowRank:
    """U_r S_r V_r^T of a matrix W [m, n], S_r folded into one of the others."""

    right: Tensor
    """V_r^T, or S_r V_r^T, [r, n]."""
    left: Tensor
    """U_r S_r, or U_r, [m, r]."""

    @property
    def weights(self) -> int:
        """r (m + n): what is read for every token."""
        return self.right.numel() + self.left.numel()

    def __call__(self, x: Tensor) -> Tensor:
        """U_r S_r V_r^T x for x [..., n], [..., m]."""
        return functional.linear(functional.linear(x, self.right), self.left)

    def first(self, rank: int) -> LowRank:
        """That of the `rank` largest singular values."""
        return LowRank(self.right[:rank], self.left[:, :rank])


def low_rank(weight: Tensor, rank: int) -> LowRank:
    """The best approximation of W [m, n] of that rank, in W's dtype; WinaError when W has no such rank.

    Exact to rounding where the shorter side has up to 1024 rows or columns. Beyond that by subspace iteration (Halko,
    Martinsson and Tropp 2011, algorithm 4.4) on twice the rank, in at least float32: for a spectrum as flat as a random
    matrix's, the residual's norm is within 1 % of the optimum's, and exact where twice the rank covers the matrix. A
    full decomposition of a 4096 x 11008 matrix would take minutes; this takes seconds.
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
    """(left, right), float64: W V_r V_r^T or U_r U_r^T W, from the smaller of the Gram matrices W^T W and W W^T, whose
    eigenvectors are V and U: several times faster than a singular value decomposition."""
    exact = weight.double()
    if len(weight) < weight.shape[1]:
        u = torch.linalg.eigh(exact @ exact.T).eigenvectors.flip(1)[:, :rank]
        return u, u.T @ exact
    v = torch.linalg.eigh(exact.T @ exact).eigenvectors.flip(1)[:, :rank]
    return exact @ v, v.T


def _iterated(weight: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """(left, right), in at least float32, by subspace iteration."""
    exact = weight.to(torch.promote_types(weight.dtype, torch.float32))
    with torch.random.fork_rng(devices=[weight.device] if weight.device.type == "cuda" else []):
        torch.manual_seed(0)
        u, s, v = torch.svd_lowrank(exact, q=min(2 * rank + _MARGIN, *weight.shape), niter=_ITERATIONS)
    return (u * s)[:, :rank], v.T[:rank]


_Key = tuple[str, int]
_KEPT: weakref.WeakKeyDictionary[nn.Linear, dict[_Key, LowRank]] = weakref.WeakKeyDictionary()


def kept_low_rank(projection: Projection, rank: int) -> LowRank:
    """`low_rank` of a projection, remembered while its linear layer lives and its weights are not written to."""
    found = _KEPT.setdefault(projection.linear, {})
    key = projection.name, projection.linear.weight._version
    if key not in found or len(found[key].right) < rank:
        for old in [other for other in found if other[0] == projection.name]:
            del found[old]
        found[key] = low_rank(projection.weight, max(rank, min(rank + _MARGIN, *projection.shape)))
    return found[key].first(rank)


def low_ranks(view: ModelView, method: MethodSpec, plan: SparsityPlan) -> list[dict[str, LowRank]]:
    """What the method adds for dropped inputs, by canonical name, a dict for each layer; for a resolved plan."""
    rule = get_method(method)
    table: list[dict[str, LowRank]] = []
    for layer in view.layers:
        row = {}
        for column, (name, projection) in enumerate(layer.projections.items()):
            target, rho = plan.sparsity[layer.index][column], cell_rho(plan, layer.index, column)
            if rank := rule.rank(name, projection.shape, target, rho):
                row[name] = kept_low_rank(projection, rank)
        table.append(row)
    return table
