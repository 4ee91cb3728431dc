"""Selections of inputs by their scores: the k highest, or all above a calibrated threshold."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor
from wina_kernels.selection import deviation_scores, mass_scores, threshold_mask, top_k_mask

from wina_core.specs import Selection

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
        """Return whether all n inputs are kept."""
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

    def keeps_all(self, inputs: int) -> bool:  # noqa: ARG002 - whatever their number
        """Return whether all n inputs are kept."""
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
