"""A model's logits on a text, the positions of rows that statistics take, and distances between two models' logits.

Positions are all but that of BOS.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from wina_core.compute.models.experts import Expert
from wina_core.compute.models.passage import Passage
from wina_core.compute.models.view import ModelView
from wina_core.compute.reporter import NullReporter


def log_probabilities(logits: Tensor) -> Tensor:
    """Return log softmax over the vocabulary, in float32 at least."""
    # 16 bits would round small divergences away.
    return logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)


def scored_log_probabilities(view: ModelView, rows: Tensor) -> Tensor:
    """Return the model's log probabilities at the scored positions of `rows` [rows, sequence], [rows, scored,
    vocabulary]."""
    logits = view.model(rows.to(view.embedding.weight.device), use_cache=False).logits
    return log_probabilities(logits[:, view.first_scored :])


def divergences(log_dense: Tensor, log_gated: Tensor) -> Tensor:
    """Return KL(dense || gated) of each token, in nats, from log probabilities [..., vocabulary]."""
    return (log_dense.exp() * (log_dense - log_gated)).sum(-1)


def mean_divergence(before: Tensor, after: Tensor) -> float:
    """Return the mean over tokens of KL(before || after), in nats, from logits [rows, tokens, vocabulary]."""
    total = 0.0
    for row_before, row_after in zip(before, after, strict=True):  # a row at a time: wide logits are large in 32 bits
        total += float(divergences(log_probabilities(row_before), log_probabilities(row_after)).double().mean())
    return total / len(before)


@torch.no_grad()
def probe_logits(view: ModelView, tokens: Tensor) -> Tensor:
    """Return logits on [rows, sequence] tokens, on the CPU, in the model's dtype."""
    model: Any = view.model
    rows = tokens.to(view.embedding.weight.device).split(1)
    passage = Passage(view, rows)
    passage.run(NullReporter())
    with passage.arriving():
        return torch.cat([model(row, use_cache=False).logits.cpu() for row in rows])


def relative_deviation(logits: Tensor, dense: Tensor) -> float:
    """Return ||logits - dense||_F / ||dense||_F, in float64."""
    return float(torch.linalg.vector_norm(logits.double() - dense.double()) / torch.linalg.vector_norm(dense.double()))


@dataclass(frozen=True)
class ScoredPositions:
    """The positions from `first` on of rows of `sequence` tokens."""

    first: int
    sequence: int

    @classmethod
    def of(cls, view: ModelView, tokens: Tensor) -> "ScoredPositions":
        return cls(view.first_scored, tokens.shape[1])

    def count(self, tokens: Tensor) -> int:
        """Return how many positions of ids [rows, sequence] are taken."""
        return len(tokens) * (self.sequence - self.first)

    def rows(self, values: Tensor, module: Any = None) -> Tensor:
        """Return the taken rows, [tokens, n], of values [rows, sequence, n] or [rows * sequence, n].

        Values of an `Expert`, the `module`, are [tokens, n] of the tokens that its call in progress reads.
        """
        flat = values.flatten(0, -2)
        keep = self.mask(values, module)
        return flat if keep is None else flat[keep]

    def mask(self, values: Tensor, module: Any = None) -> Tensor | None:
        """Return True for the taken rows, bool [tokens], of the values that `rows` takes; None if all are taken."""
        if self.first == 0:
            return None
        if isinstance(module, Expert):
            positions = module.positions
            assert positions is not None  # it is being called
        else:
            positions = torch.arange(values[..., 0].numel(), device=values.device)
        return (positions % self.sequence >= self.first).to(values.device)
