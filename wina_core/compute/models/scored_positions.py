"""Positions of rows of text that statistics take: all but that of BOS."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from wina_core.compute.models.experts import Expert
from wina_core.compute.models.view import ModelView


@dataclass(frozen=True)
class ScoredPositions:
    """The positions from `first` on of rows of `sequence` tokens."""

    first: int
    sequence: int

    @classmethod
    def of(cls, view: ModelView, tokens: Tensor) -> "ScoredPositions":
        """Return those of a model's rows of text, ids [rows, sequence]."""
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
            places = module.places
            assert places is not None  # it is being called
        else:
            places = torch.arange(values[..., 0].numel(), device=values.device)
        return (places % self.sequence >= self.first).to(values.device)
