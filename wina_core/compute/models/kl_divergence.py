"""The KL divergence between next-token distributions."""

import torch
from torch import Tensor


def log_probabilities(logits: Tensor) -> Tensor:
    """log softmax over the vocabulary, in float32 at least: 16 bits would round the small divergences away."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)


def divergences(log_dense: Tensor, log_gated: Tensor) -> Tensor:
    """KL(dense || gated) of each token, in nats, from log probabilities [..., vocabulary]."""
    return (log_dense.exp() * (log_dense - log_gated)).sum(-1)
