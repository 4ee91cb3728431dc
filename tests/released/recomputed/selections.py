"""Kept inputs, thresholds and dense prefixes, from the papers and from released code."""

import math

import torch
from torch import Tensor


def kept_paper(n: int, sparsity: float) -> int:
    """Return K = n - floor(s n + 1/2), at least 1: the number of inputs that the papers keep."""
    return max(1, n - math.floor(sparsity * n + 0.5))


def kept_released(n: int, sparsity: float) -> int:
    """Return int(n (1 - s)) in double precision, as the released code of WINA and of LaRoSA counts.

    Sources: microsoft/wina utils/utils.py `SparsifyFn.forward`; alibaba/EfficientAI
    larosa/inference/modeling_llama_larosa.py `top_k_new`. The result may be 0.
    """
    return int(n * (1 - sparsity))


def top_k(score: Tensor, k: int) -> Tensor:
    """Return the mask of the k highest scores along the last axis; among equals the lower index is kept."""
    order = score.argsort(dim=-1, descending=True, stable=True)
    return torch.zeros(score.shape, dtype=torch.bool).scatter(-1, order[..., :k], True)


def top_k_with_ties(score: Tensor, k: int) -> Tensor:
    """Return the mask of all scores that reach the k-th highest, as `top_k_new` of LaRoSA's released code."""
    if k < 1:
        return torch.zeros(score.shape, dtype=torch.bool)
    return score >= score.sort(dim=-1, descending=True).values[..., k - 1 : k]


def inverse_cdf(values: Tensor, fraction: float) -> float:
    """Return the interpolated inverse of the empirical distribution function.

    The k-th smallest of N values has the fraction k / N; between two values the result is linear. This is `icdf` in
    utils/utils.py of microsoft/wina, whose histogram has one bin for each distinct value. Below a fraction of 1 / N the
    smallest value is returned, above 1 the largest.
    """
    ordered = values.flatten().sort().values
    position = fraction * len(ordered) - 1
    lower = math.floor(position)
    if lower < 0:
        return float(ordered[0])
    if lower >= len(ordered) - 1:
        return float(ordered[-1])
    return float(ordered[lower] + (position - lower) * (ordered[lower + 1] - ordered[lower]))


def teal_threshold(values: Tensor, sparsity: float) -> float:
    """Return TEAL's released threshold: the inverse CDF of the signed values at (1 + s) / 2, and 0 where s is 0.

    Source: FasterDecoding/TEAL utils/utils.py `SparsifyFn.set_threshold`, with exact values instead of its histogram.
    """
    return inverse_cdf(values, 0.5 + sparsity / 2) if sparsity != 0 else 0.0


def teal_histogram_threshold(values: Tensor, sparsity: float, bins: int = 10_000) -> float:
    """Return TEAL's released threshold from a histogram like its own.

    Source: FasterDecoding/TEAL utils/utils.py `ActivationModule.find_histogram` and `Distribution.icdf`. The two outer
    bins hold 1 % of the values each. A sparsity of 1 and more gives the centre of the last bin, which the largest
    values exceed.
    """
    if sparsity == 0:
        return 0.0
    ordered = values.double().flatten().sort().values
    tail = int(0.01 * len(ordered))
    inner = torch.linspace(float(ordered[tail]), float(ordered[-tail]), bins - 1, dtype=torch.float64)
    edges = torch.cat((ordered[:1], inner, ordered[-1:]))
    counts, _ = torch.histogram(ordered, bins=edges)
    centres, reached = (edges[:-1] + edges[1:]) / 2, counts.cumsum(dim=0)
    wanted = (0.5 + sparsity / 2) * len(ordered)
    index = int(torch.searchsorted(reached, wanted))
    if index == 0:
        return float(centres[0])
    if index == len(centres):
        return float(centres[-1])
    share = (wanted - reached[index - 1]) / (reached[index] - reached[index - 1])
    return float(centres[index - 1] + share * (centres[index] - centres[index - 1]))


def score_threshold(scores: Tensor, sparsity: float) -> float:
    """Return WINA's released threshold: the inverse CDF of the scores' absolute values at s, and 0 where s is 0.

    Source: microsoft/wina utils/utils.py `SparsifyFn.set_threshold`.
    """
    return inverse_cdf(scores.abs(), sparsity) if sparsity != 0 else 0.0


def no_prefix(tokens: int) -> int:  # noqa: ARG001 - has the signature of the others
    """Return 0: every token is gated."""
    return 0


def wina_prefix(tokens: int) -> int:
    """Return T - int(0.99 T), the number of dense first tokens (microsoft/wina utils/utils.py `SparsifyFn.forward`).

    A single token is gated, because `x[:, -0:]` is all of x.
    """
    gated = int(0.99 * tokens)
    return tokens - gated if gated else 0


def teal_prefix(tokens: int) -> int:
    """Return T - T // 2, the number of dense first tokens (FasterDecoding/TEAL utils/utils.py `SparsifyFn.forward`)."""
    return tokens - tokens // 2 if tokens > 1 else 0


def rsparse_prefix(tokens: int) -> int:
    """Return int(T (1 - 0.1)), the number of dense first tokens.

    Source: VITA-Group/R-Sparse models/modeling_llama.py `R_Sparse_Linear.forward` with evaluation.py's default
    `prefill_ratio`.
    """
    return int(tokens * (1 - 0.1))
