"""The model's log-loss on a text, in bits."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy


@torch.inference_mode()
def total_bits(model: torch.nn.Module, tokens: Tensor, length: int, overlap: int = 0, batch: int = 8) -> float:
    """Return -log2 p(tokens[1:] | tokens[0]) for `tokens` [n], read in windows of `length`.

    Each window after the first repeats the last `overlap` tokens of the previous one as context only, so no token is
    scored twice, and each has at least `overlap` predecessors.
    """
    if not 0 <= overlap < length:
        raise ValueError(f"overlap must be in [0, {length}), not {overlap}")
    targets = len(tokens) - 1
    starts = [0, *range(length - overlap, max(targets - overlap, 1), length - overlap)]
    nats = 0.0
    for first in range(0, len(starts), batch):
        group = starts[first : first + batch]
        inputs = torch.zeros(len(group), length, dtype=torch.long)
        labels = torch.full((len(group), length), -100)
        for row, start in enumerate(group):
            size = min(length, targets - start)
            scored_from = overlap if start else 0
            inputs[row, :size] = tokens[start : start + size]
            labels[row, scored_from:size] = tokens[start + 1 + scored_from : start + 1 + size]
        logits = model(inputs, use_cache=False).logits
        nats += cross_entropy(logits.float().flatten(0, 1), labels.flatten(), reduction="sum").item()
    return nats / math.log(2)
