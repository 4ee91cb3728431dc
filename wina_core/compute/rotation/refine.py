"""Refinement of bases by descent on the calibrated error of gating."""

from collections.abc import Sequence

import torch
from torch import Tensor
from wina_kernels.selection import kept_inputs, top_k_mask

from wina_core.compute.reporter import Reporter
from wina_core.compute.rotation.descent import descend
from wina_core.compute.rotation.sites import Site

SPARSITIES = (0.5, 0.65)
"""Sparsities that alternate while refining, so that the result serves a range."""
_TOKENS = 512
"""Tokens drawn from each site's sample at every step."""
_REPORTED = 10
"""Steps between two reports of the error."""


def dropped_part(x: Tensor, basis: Tensor, gram: Tensor, sparsity: float) -> Tensor:
    """Return B ((1 - m) * B^T x), the part of x [..., n] that WINA drops at that sparsity in the basis B [n, n].

    The mask m keeps the largest |B^T x|_i ||W B_i||, with norms from W's Gram matrix [n, n]. Differentiable in B and x
    with the mask fixed; its changes move the error only where scores are equal.
    """
    rotated = x @ basis
    with torch.no_grad():
        norms = ((gram @ basis) * basis).sum(0).clamp(min=0).sqrt()
        mask = top_k_mask((rotated * norms).abs(), kept_inputs(x.shape[-1], sparsity))
    return (rotated * ~mask) @ basis.mT


def gating_error(x: Tensor, basis: Tensor, gram: Tensor, sensitivity: Tensor, sparsity: float) -> Tensor:
    """Return the mean over tokens of e^T F e / 2, e the dropped part of x [tokens, n].

    That is the expected KL divergence, in nats, of gating this input alone, to second order.
    """
    error = dropped_part(x, basis, gram, sparsity)
    return ((error @ sensitivity) * error).sum(-1).mean() / 2


def refined_basis(start: Tensor, sites: Sequence[Site], steps: int, reporter: Reporter, what: str) -> Tensor:
    """Turn the basis [n, n] that `sites` share, or heads [kv_heads, hd, hd], for the least sum of gating errors;
    float64."""
    generator = torch.Generator().manual_seed(0)

    def loss(bases: Sequence[Tensor], step: int) -> Tensor:
        basis, sparsity = bases[0], SPARSITIES[step % len(SPARSITIES)]
        total = torch.zeros((), device=basis.device)
        for site in sites:
            drawn = torch.randint(len(site.inputs), (_TOKENS,), generator=generator).to(site.inputs.device)
            whole = basis if basis.ndim == 2 else of_all_heads(basis, len(site.gram))
            total = total + gating_error(site.inputs[drawn], whole, site.gram, site.sensitivity, sparsity)
        reporter.check()
        if step % _REPORTED == 0:
            reporter.progress(step, steps, "steps", f"{what}: expected KL {float(total.detach()):.3g}")
        return total

    return descend([start], loss, steps)[0]


def of_all_heads(heads: Tensor, size: int) -> Tensor:
    """Return the block-diagonal basis [size, size] of o's input: each key-value head's for every query head it
    serves."""
    groups = size // (heads.shape[0] * heads.shape[1])
    return torch.block_diag(*heads.repeat_interleave(groups, 0))
