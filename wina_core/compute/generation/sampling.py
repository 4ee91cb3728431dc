"""Sampling of the next token, with noise that depends on the position and not on the model."""

import torch
from torch import Tensor

from wina_core.specs.generation import SamplingSpec

_POSITIONS = 2**20
"""Positions of one seed; longer than any context."""


def choose(log_probabilities: Tensor, sampling: SamplingSpec, position: int) -> int:
    """Return the next token's id, from log probabilities [vocabulary].

    Gumbel-max sampling: argmax_i(log p_i / T + g_i) has the distribution softmax(log p / T). The noise g comes from the
    seed and the position, so models that agree on a distribution choose the same token.
    """
    if sampling.temperature == 0.0:
        return int(log_probabilities.argmax())
    tempered = (log_probabilities.to("cpu", torch.float64) / sampling.temperature).log_softmax(-1)
    generator = torch.Generator().manual_seed(sampling.seed * _POSITIONS + position)
    uniform = torch.rand(len(tempered), generator=generator, dtype=torch.float64)
    gumbel = -(-uniform.clamp_min(torch.finfo(torch.float64).tiny).log()).log()
    return int((_nucleus(tempered, sampling.top_p) + gumbel).argmax())


def _nucleus(log_probabilities: Tensor, top_p: float) -> Tensor:
    """Set log probabilities outside the smallest set of tokens with mass `top_p` to -inf."""
    if top_p == 1.0:
        return log_probabilities
    ordered, order = log_probabilities.sort(descending=True, stable=True)
    before = ordered.exp().cumsum(-1) - ordered.exp()
    return log_probabilities.index_fill(-1, order[before >= top_p], -torch.inf)
