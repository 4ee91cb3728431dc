"""Scores of inputs, selections by score, and low-rank parts for what a mask drops: shared by calibration and gating.

Selections keep the k highest scores, or all above a calibrated threshold. The factors c that weigh the scores |x_i| c_i
of a layer's inputs come from a method and the column norms; CATS masks by the output of an MLP's activation function.
R-Sparse's low-rank part for dropped inputs is the largest singular triples of a matrix, computed once.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from wina_kernels.selection import deviation_scores, mass_scores, threshold_mask, top_k_mask

from wina_core.compute.models.folded_norms import folded_norms, unfolded_column_norms, unfolded_weight
from wina_core.compute.models.quantized_linear import uncompiled
from wina_core.compute.models.view import LayerView, ModelView, Projection
from wina_core.errors import WinaError
from wina_core.model_info.folding import reads_norms
from wina_core.specs import MethodSpec, Selection
from wina_core.specs.methods import METHOD_PLUGINS, get_method
from wina_core.specs.methods.base import BLOCKS, Method
from wina_core.specs.plans import SparsityPlan, cell_rho

TRANSFORMS: dict[Selection, Callable[[Tensor], Tensor]] = {
    "topk": lambda scores: scores,
    "threshold": lambda scores: scores,
    "statistical": deviation_scores,
    "top_p": mass_scores,
    "mixed": lambda scores: scores,
}
"""Transforms of a token's scores [..., n] that make one calibrated threshold fit all tokens, by selection."""


@dataclass(frozen=True)
class TopKSelection:
    """The `keep` inputs of highest score of each token, the lower index first among equals.

    With `ties`, also all inputs that score like the last of them.
    """

    keep: int
    ties: bool = False

    def keeps_all(self, inputs: int) -> bool:
        return self.keep == inputs

    def mask(self, score: Tensor) -> Tensor | None:
        """Return True where the input is kept, bool like score [..., n]; None if nothing is dropped."""
        if self.keeps_all(score.shape[-1]):
            return None
        if self.ties:
            return score >= score.topk(self.keep, dim=-1).values[..., -1:]
        return top_k_mask(score, self.keep)

    def boundary(self, score: Tensor) -> Tensor:
        """Return the lowest kept score of each token, [..., 1]."""
        return score.topk(self.keep, dim=-1).values[..., -1:]


@dataclass(frozen=True)
class ThresholdSelection:
    """The inputs whose transformed score exceeds a calibrated threshold; an equal one is dropped.

    A token with fewer than `fewest` of them keeps that many of highest score, the lower index first among equals.
    """

    selection: Selection
    threshold: float
    fewest: int = 0

    def keeps_all(self, inputs: int) -> bool:  # noqa: ARG002 - signature of `TopKSelection`
        # Scores are never negative: a threshold below 0 is that of the fraction 0.
        return self.threshold < 0

    def mask(self, score: Tensor) -> Tensor | None:
        """Return True where the input is kept, bool like score [..., n]; None if nothing is dropped."""
        if self.keeps_all(score.shape[-1]):
            return None
        return threshold_mask(TRANSFORMS[self.selection](score), self.threshold, self.fewest)

    def boundary(self, score: Tensor) -> Tensor:
        """Return the score from which inputs are kept, [..., 1]: the threshold, or the lowest kept score of a token."""
        if self.selection == "threshold":
            threshold = score.new_full((*score.shape[:-1], 1), self.threshold)
            if not self.fewest or self.threshold < 0:
                return threshold
            return threshold.minimum(score.topk(self.fewest, dim=-1).values[..., -1:])
        mask = self.mask(score)
        return (score if mask is None else score.masked_fill(~mask, float("inf"))).amin(-1, keepdim=True)


InputSelection = TopKSelection | ThresholdSelection


Scales = dict[str, Tensor | None]


def check_experts(view: ModelView, method: MethodSpec) -> None:
    """Raise WinaError for a method with calibrated values of each input, on a Mixture of Experts."""
    if view.has_experts and (get_method(method).centring != "none" or method.correction == "mean"):
        raise WinaError(
            f"{method.label} replaces dropped inputs by calibrated values, which are not kept for each expert of this "
            "model; choose wina or teal without a correction."
        )


def scales_of(method: Method, layer: LayerView, rho: Mapping[str, float] | None = None) -> Scales:
    """Return c [n], at least float32, of each gated projection of a layer by canonical name; None is c = 1.

    Shared masks sum c_i^2 over the gated matrices that read the same input. Projections with the same input and the
    same object here share one mask wherever their targets agree. `rho` are the plan's shares of the mask by name.

    An input that carries its norms (`folded_norms`) gets the factors for the input without them, so that every method
    keeps its masks: None for the norms of all that read it, 1 / c for magnitude alone.

    Raises WinaError for a model without a projection that the method reads.
    """
    method.check_projections(layer.names)
    scales: Scales = {}
    for block_names in BLOCKS:
        block = tuple(name for name in block_names if name in layer.projections)
        linears = {id(layer.projections[name].linear) for name in block}
        fused = len(block) > len(linears)
        carried = folded_norms(layer, block[0]) if block else None
        by_norms = {
            name: method.norms_of(name, block, fused=fused, rho=None if rho is None else rho[name])
            for name in block
            if method.gates(name)
        }
        if method.masks == "shared":
            by_norms = dict.fromkeys(by_norms, tuple(dict.fromkeys(chain.from_iterable(by_norms.values()))))
        made: dict[tuple[str, ...], Tensor | None] = {}
        # One tensor for each set of norms: gates compare scales by identity to find equal masks.
        for norms in set(by_norms.values()):
            if not reads_norms(method, block, norms, folded=carried is not None):
                made[norms] = None
            elif norms:
                made[norms] = _root_sum([_column_weights(method, layer, name) for name in norms])
            elif carried is not None:
                made[norms] = 1 / carried
        scales |= {name: made[norms] for name, norms in by_norms.items()}
    return scales


def _column_weights(method: Method, layer: LayerView, name: str) -> Tensor:
    """Return the method's own weights of a projection's columns, or else their norms."""
    if not method.has_column_weights:
        return unfolded_column_norms(layer, name)
    weight = unfolded_weight(layer, name)
    with METHOD_PLUGINS.blamed(method.name):
        column_weights: Tensor = method.column_weights(weight)
        if column_weights.shape != weight.shape[1:] or not bool(
            (column_weights >= 0).all() & column_weights.isfinite().all()
        ):
            raise ValueError(f"its column weights of {name} are not {weight.shape[1]} finite numbers of at least 0")
    return column_weights.to(weight.device, torch.promote_types(weight.dtype, torch.float32))


def _root_sum(norms: Sequence[Tensor]) -> Tensor:
    """Return the root of the sum of the squares of `norms` [n]."""
    if len(norms) == 1:
        return norms[0]
    squares = norms[0].square()
    for scale in norms[1:]:
        squares = squares + scale.square()
    return squares.sqrt()


_NAMES = ("act_fn", "activation_fn", "act")


class _ActivationCall(threading.local):
    """The call in progress in a thread."""

    value: Tensor | None = None


class GateActivation:
    """Hook that catches z = act(W_gate x) of one layer while the model runs."""

    def __init__(self, layer: LayerView) -> None:
        activations = [getattr(module, name) for module in layer.mlp for name in _NAMES if hasattr(module, name)]
        if not activations or not isinstance(activations[0], nn.Module):
            raise WinaError(f"The MLP of layer {layer.index} has no activation that CATS could mask by; choose teal.")
        self._call = _ActivationCall()
        self._hook = activations[0].register_forward_hook(self._catch)

    def pop(self) -> Tensor:
        """Return z [..., tokens, n] of the call in progress, once."""
        value, self._call.value = self._call.value, None
        if value is None:
            raise RuntimeError("the MLP's activation has not run")
        return value

    def remove(self) -> None:
        self._hook.remove()
        self._call.value = None

    @uncompiled
    def _catch(self, _module: nn.Module, _inputs: Any, output: Tensor) -> None:
        self._call.value = output


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
    # Equal factors in every process, without a change of the random numbers of the caller.
    with torch.random.fork_rng(devices=[weight.device] if weight.device.type == "cuda" else []):
        torch.manual_seed(0)
        u, s, v = torch.svd_lowrank(exact, q=min(2 * rank + _MARGIN, *weight.shape), niter=_ITERATIONS)
    return (u * s)[:, :rank], v.T[:rank]


_Key = tuple[str, int]
_CACHE: weakref.WeakKeyDictionary[nn.Linear, dict[_Key, LowRank]] = weakref.WeakKeyDictionary()


def kept_low_rank(projection: Projection, rank: int) -> LowRank:
    """Return a projection's `low_rank`, cached until its weights are written to."""
    cached = _CACHE.setdefault(projection.linear, {})
    key = projection.name, projection.linear.weight._version
    if key not in cached or len(cached[key].right) < rank:
        for outdated in [cached_key for cached_key in cached if cached_key[0] == projection.name]:
            del cached[outdated]
        cached[key] = low_rank(projection.weight, max(rank, min(rank + _MARGIN, *projection.shape)))
    return cached[key].first(rank)


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
