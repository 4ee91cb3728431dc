"""Refinement of bases by descent on the calibrated error of gating."""

from collections.abc import Sequence

import torch
from torch import Tensor
from wina_kernels.selection import kept_inputs, top_k_mask

from wina_core.compute.rotation.descent import descend
from wina_core.compute.rotation.search import Search
from wina_core.compute.rotation.sites import Site
from wina_core.compute.rotation.turns import turned, turned_back, turned_diagonal
from wina_core.model_info.cost.refinement import DRAWN_TOKENS, sites_per_graph, sites_per_step
from wina_core.records import RefinementStep

SPARSITIES = (0.5, 0.65)
"""Sparsities that alternate while refining, so that the result serves a range."""
_REPORTED = 10
"""Steps between two reports of the loss."""


def dropped_part(x: Tensor, basis: Tensor, gram: Tensor, sparsity: float) -> Tensor:
    """Return B ((1 - m) * B^T x), the part of x [..., n] that WINA drops at that sparsity in the basis B (`turns`).

    The mask m keeps the largest |B^T x|_i ||W B_i||, with norms from W's Gram matrix [n, n]. Differentiable in B and x
    with the mask fixed; its changes move the error only where scores are equal.
    """
    with torch.no_grad():
        norms = turned_diagonal(gram, basis).clamp(min=0).sqrt()
    return dropped_by_norms(x, basis, norms, sparsity)


def dropped_by_norms(x: Tensor, basis: Tensor, norms: Tensor, sparsity: float) -> Tensor:
    """Return `dropped_part` for the norms [n] of the columns of W B."""
    rotated = turned(x, basis)
    with torch.no_grad():
        mask = top_k_mask((rotated * norms).abs(), kept_inputs(x.shape[-1], sparsity))
    return turned_back(rotated * ~mask, basis)


def gating_error(x: Tensor, basis: Tensor, gram: Tensor, sensitivity: Tensor, sparsity: float) -> Tensor:
    """Return the mean over tokens of e^T F e / 2, e the dropped part of x [tokens, n].

    That is the expected KL divergence, in nats, of gating this input alone, to second order.
    """
    error = dropped_part(x, basis, gram, sparsity)
    return ((error @ sensitivity) * error).sum(-1).mean() / 2


def refined_basis(
    start: Tensor,
    sites: Sequence[Site],
    steps: int,
    search: Search,
    label: str,
    place: int = 0,
    places: int = 1,
    noise_bits: int = 16,
) -> Tensor:
    """Turn the basis [n, n] that `sites` share, or heads [kv_heads, hd, hd], for the least sum of gating errors;
    float64.

    Each step adds up the gradients of `sites_per_step`, `drawn_sites` if these are not all, in graphs of
    `sites_per_graph`. `label` is the site of the reported steps (`RefinementStep`), `place` that of the basis among all
    `places`. With fewer than 16 `noise_bits`, the error of rounding the weights to so many is added.
    """
    generator = torch.Generator().manual_seed(0)
    n, count = len(sites[0].gram), len(sites)
    read, together = sites_per_step(n, count), sites_per_graph(n, count)
    search.reporter.stage("refinement")

    def error(basis: Tensor, site: Site, sparsity: float) -> Tensor:
        drawn = torch.randint(len(site.inputs), (DRAWN_TOKENS,), generator=generator).to(site.inputs.device)
        x = site.inputs[drawn]
        found = gating_error(x, basis, site.gram, site.sensitivity, sparsity)
        if noise_bits < 16:
            found = found + rounding_error(x, basis, site.gram, site.sensitivity, noise_bits)
        return found

    def loss(bases: Sequence[Tensor], step: int) -> Tensor:
        sparsity = SPARSITIES[step % len(SPARSITIES)]
        chosen = sites if read == count else [sites[index] for index in drawn_sites(count, read, step)]
        total = torch.zeros((), device=bases[0].device)
        for group in (chosen[first : first + together] for first in range(0, read, together)):
            value = torch.zeros_like(total)
            for site in group:
                value = value + error(bases[0], site, sparsity)
            value = value * (count / read)
            value.backward()
            total += value.detach()
            for site in group:
                site.give_back()
            search.reporter.check()
        if is_reported(step, steps):
            known = float(total)
            text = f"basis {place + 1} of {places}: expected KL {known:.3g}"
            search.reporter.progress(place * steps + step, places * steps, "steps", text)
            search.add(
                RefinementStep(
                    site=label, objective="error", sparsity=sparsity, step=step, steps=steps, loss=max(known, 0.0)
                )
            )
        return total

    return descend([start], loss, steps, generator=generator, search=search, site=label)[0]


def drawn_sites(count: int, read: int, step: int) -> list[int]:
    """Return the numbers of the sites, `read` of `count`, that a step reads: none twice in count // read steps.

    The demo model's KL with all 16 sites of the stream and with 4 (global and per head, 300 steps, WINA at 50 and 65 %,
    4,096 held-out tokens): 0.0053 and 0.0210, 0.0055 and 0.0217; with sites drawn at each step by itself, 0.0056 and
    0.0233; eigenvectors 0.0068 and 0.0292.
    """
    rounds = count // read
    order = torch.randperm(count, generator=torch.Generator().manual_seed(step // rounds))
    found: list[int] = order[step % rounds * read :][:read].tolist()
    return found


def is_reported(step: int, steps: int) -> bool:
    """Return whether the loss of a step is kept: for every sparsity every few steps, and at the end."""
    return step % _REPORTED < len(SPARSITIES) or step >= steps - len(SPARSITIES)


# Expected effect of rounding the weights that read an input, as a differentiable function of its basis.

_GROUP = 64
"""Inputs with a common scale and zero, as quantizers take them by default."""
_RANGE = 4.7
"""Expected range of 64 normal numbers, in standard deviations."""


def rounding_error(x: Tensor, basis: Tensor, gram: Tensor, sensitivity: Tensor, bits: int) -> Tensor:
    """Return the expected KL divergence, in nats, of rounding what reads x [tokens, n] in a basis B (`turns`).

    A group's weights of one output are taken for normal numbers. They are rounded in steps of r / (2^bits - 1), with r
    their expected range; the error of each is uniform, of variance step^2 / 12, and independent of all others. With the
    weights' Gram matrix G and the Fisher information F of x, the errors of the outputs weigh f = tr F / tr G each, so
    the sum over groups of f mean(step^2) / 12 * sum(E[(B^T x)_i^2]) / 2 is expected.
    """
    weights = turned_diagonal(gram, basis)
    energies = turned(x, basis).square().mean(0)
    rounding = _RANGE**2 / (2**bits - 1) ** 2 / 12
    groups = zip(weights.split(_GROUP), energies.split(_GROUP), strict=True)
    errors = torch.stack([own.mean() * energy.sum() for own, energy in groups])
    return rounding * sensitivity.trace() / gram.trace() * errors.sum() / 2
