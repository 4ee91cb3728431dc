"""The synthetic study: gate rules on random networks (paper, section 3.4 and its table of approximation errors).

The paper names Kaiming initialization, SiLU, column-orthogonal weights, 20 seeds and the l2 deviation of the output,
but no sizes, scales, or R-Sparse's split. A search found what reproduces the table:

- every matrix W [m, n] is drawn from U(-1, 1) / sqrt(n), linear layers' default, then replaced by W V with V from its
  singular value decomposition, so that W^T W is diagonal; the input is N(0, I); float64; K = n - floor(s n + 1/2);
- the lemma's network is one matrix, `size` x `size`, with `size` 1024;
- the theorem's network is `size` -> `size` / 2 -> `size` with SiLU between, each matrix gated from the gated network's
  input. The first matrix thus has as many zero columns as non-zero ones;
- TEAL and CATS keep the largest |x_i|, WINA the largest |x_i| ||W[:, i]||, R-Sparse the largest |x_i| with rho = 0.98
  (as released it scores with column norms too, and its errors come close to WINA's).

With 20 seeds every cell of both rows lies inside the paper's error bar. The theorem's widths fit the numbers but need
not be the authors' own. Equal widths miss WINA's errors by more than 3 error bars, whatever the number of layers, place
of SiLU, distributions and variances: their ratio to TEAL's rises from 0.41 at 25 % to 0.67 at 65 %, the paper's from
0.52 to 0.58. R-Sparse fits for rho from 0.98 to 0.99, and not at 0.95.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import functional
from wina_kernels.selection import kept_inputs, scores, top_k_mask

from wina_core.compute import pausable_clock
from wina_core.compute.reporter import Reporter
from wina_core.errors import WinaError
from wina_core.records import MetricRecord, UnitRecord
from wina_core.specs import SYNTHETIC, MethodSpec, NetworkName, RunSpec
from wina_core.specs.methods import get_method
from wina_core.specs.methods.published import affordable_rank, masked_fraction
from wina_core.specs.plans import UniformSparsity

# ---- output errors of gate rules on random networks ------------------------------------------------------------------


Rule = Callable[[Tensor, Tensor], tuple[Tensor, int, int]]
"""(W [m, n], x [n]) -> the gated product [m], the weights that it reads, and the column norms that its scores read."""


def masked(sparsity: float, weighted: bool) -> Rule:
    """Return the rule y = W (m * x) that keeps the K largest |x_i| (TEAL, CATS) or, `weighted`, |x_i| ||W[:, i]||
    (WINA)."""

    def rule(weight: Tensor, x: Tensor) -> tuple[Tensor, int, int]:
        keep = kept_inputs(len(x), sparsity)
        mask = top_k_mask(scores(x, weight.norm(dim=0) if weighted else None), keep)
        return weight @ (mask * x), keep * weight.shape[0], len(x) if weighted else 0

    return rule


def masked_with_low_rank(sparsity: float, rho: float) -> Rule:
    """Return R-Sparse's rule y = W (m * x) + U_r S_r V_r^T ((1 - m) * x), with the share rho of the kept budget for the
    mask.

    The rank r is what the rest of the budget buys in the matrix's real shape. W has orthogonal columns, so its best
    approximation of rank r keeps its r longest columns.
    """

    def rule(weight: Tensor, x: Tensor) -> tuple[Tensor, int, int]:
        outputs, inputs = weight.shape
        keep = kept_inputs(inputs, masked_fraction(sparsity, rho))
        mask = top_k_mask(scores(x, None), keep)
        rank = affordable_rank((outputs, inputs), sparsity, rho)
        compensated = torch.zeros(inputs, dtype=torch.bool)
        compensated[weight.norm(dim=0).topk(rank).indices] = True
        return weight @ ((mask | compensated) * x), keep * outputs + rank * (outputs + inputs), 0

    return rule


@dataclass(frozen=True)
class NetworkErrors:
    """One network under one rule."""

    error: float
    """||y - gated y||_2."""
    read: int
    """Weights read, those of the low-rank part included."""
    norms: int
    """Column norms read."""
    weights: int


def network_errors(network: Network, rule: Rule) -> NetworkErrors:
    """Run the network dense and gated; each gated matrix reads the output of the gated ones before it."""
    dense = gated = network.x
    read = norms = 0
    for index, weight in enumerate(network.matrices):
        if index > 0:
            dense, gated = functional.silu(dense), functional.silu(gated)
        dense = weight @ dense
        gated, read_here, norms_here = rule(weight, gated)
        read += read_here
        norms += norms_here
    weights = sum(weight.numel() for weight in network.matrices)
    return NetworkErrors(float((dense - gated).norm()), read, norms, weights)


_METHODS = ("teal", "cats", "rsparse", "wina")


def measure_synthetic(run: RunSpec, reporter: Reporter) -> UnitRecord:
    """Return errors of a run's method, under the networks' names as tasks.

    - error: mean over seeds of ||y - gated y||_2, with its standard error;
    - error_deviation: the standard deviation over seeds, as in the paper's error bars.

    Raises WinaError for a method, selection or plan that the random networks do not have; Cancelled between seeds.
    """
    spec = run.evaluation.synthetic
    assert spec is not None  # else SYNTHETIC is none of its units
    start = pausable_clock.now()
    rule = rule_of(run)
    metrics: list[MetricRecord] = []
    outcomes: list[NetworkErrors] = []
    for network in spec.networks:
        errors = []
        for seed in range(spec.seeds):
            reporter.check()
            outcomes.append(network_errors(draw(network, spec.size, seed), rule))
            errors.append(outcomes[-1].error)
            reporter.progress(len(outcomes), len(spec.networks) * spec.seeds, "networks", network)
        metrics += _records(network, errors)
    read = sum(outcome.read for outcome in outcomes)
    weights = sum(outcome.weights for outcome in outcomes)
    sparsity = 1.0 - read / weights
    return UnitRecord(
        run=run.content_hash(),
        unit=SYNTHETIC,
        metrics=tuple(metrics),
        gated_sparsity=sparsity,
        net_sparsity=sparsity - sum(outcome.norms for outcome in outcomes) / weights,
        seconds=pausable_clock.now() - start,
    )


def rule_of(run: RunSpec) -> Rule:
    """Return the gate rule of a run; raise WinaError for options that the random networks do not have."""
    method = run.method
    if method.name not in _METHODS:
        raise WinaError(f'The synthetic study has no method "{method.name}"; choose one of {", ".join(_METHODS)}.')
    rule = get_method(method)
    bare = MethodSpec(name=method.name, rho=method.rho)
    if method != bare or not run.rotation.is_identity or not isinstance(run.plan, UniformSparsity):
        raise WinaError(
            "The synthetic study gates as the papers do, by top-k with separate masks, one sparsity and no rotation; "
            "leave variant, selection, masks, correction, rotation and allocator at their defaults."
        )
    sparsity = run.plan.sparsity
    if rule.default_rho is None:
        return masked(sparsity, rule.scores_by_norms)
    if method.rho is None:
        raise WinaError("R-Sparse needs its rho here; the paper's numbers come out at rho = 0.98.")
    return masked_with_low_rank(sparsity, method.rho)


def _records(network: str, errors: list[float]) -> tuple[MetricRecord, MetricRecord]:
    seeds = len(errors)
    deviation = statistics.stdev(errors) if seeds > 1 else 0.0
    mean = MetricRecord(
        task=network,
        metric="error",
        value=statistics.fmean(errors),
        stderr=deviation / math.sqrt(seeds) if seeds > 1 else None,
        n=seeds,
        higher_is_better=False,
    )
    return mean, MetricRecord(task=network, metric="error_deviation", value=deviation, n=seeds)


_CACHED_NETWORKS = 40
"""Cached networks: both of 20 seeds, 340 MB at size 1024."""


@dataclass(frozen=True, eq=False)
class Network:
    """Matrices applied one after the other, with SiLU between them, and one input; all float64."""

    x: Tensor
    """[n]."""
    matrices: tuple[Tensor, ...]
    """Each [m, n] with W^T W diagonal."""


@lru_cache(maxsize=_CACHED_NETWORKS)
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
