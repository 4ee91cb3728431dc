"""A histogram of non-negative scores of fixed size and fixed relative resolution, for any range."""

from collections.abc import Sequence

import torch
from torch import Tensor

_BINS = 1 << 15
_INFINITE = 0x7F80
"""First bin of infinities and NaNs."""


class ScoreHistogram:
    """Counts of scores by the leading 16 bits of their float32 form: the exponent and 7 bits of mantissa.

    Neighbouring bins differ by at most 1/128 of their value over the whole range of float32. So constants, heavy tails
    and mixtures are resolved alike in 256 KiB for any number of scores.
    """

    def __init__(self, device: torch.device) -> None:
        self._counts = torch.zeros(_BINS, dtype=torch.int64, device=device)
        self._only_edges = True
        """Whether every score was a bfloat16 number, which lies on the lower edge of its bin."""

    def add(self, scores: Tensor) -> None:
        """Count non-negative scores of any shape and floating dtype."""
        bits = scores.detach().float().contiguous().view(torch.int32)
        self._counts += torch.bincount((bits >> 16).flatten(), minlength=_BINS)
        self._only_edges &= scores.dtype == torch.bfloat16

    @classmethod
    def merged(cls, histograms: Sequence["ScoreHistogram"]) -> "ScoreHistogram":
        """Return the histogram of the scores of all, at least one."""
        first = histograms[0]
        found = cls(first._counts.device)
        for each in histograms:
            found._counts += each._counts.to(found._counts.device)
            found._only_edges &= each._only_edges
        return found

    @property
    def total(self) -> int:
        """Number of scores."""
        return int(self._counts.sum())

    @property
    def non_finite(self) -> Tensor:
        """Number of infinities and NaNs, int64 scalar on the device."""
        return self._counts[_INFINITE:].sum()

    def quantiles(self, fractions: Tensor) -> Tensor:
        """Return thresholds t, float32, such that about the given fractions (in [0, 1]) of the scores are at most t.

        Linear within a bin; the nearer edge if only bin edges occurred. Fraction 0 gives -1, below every score. A
        fraction among the zeros gives 0, because dropping a zero changes no output.
        """
        counts = self._counts.cpu()
        cumulative = counts.cumsum(0)
        ranks = fractions.to(torch.float64) * int(cumulative[-1])
        bins = torch.searchsorted(cumulative.to(torch.float64), ranks).clamp(max=_BINS - 1)
        inside = (ranks - (cumulative[bins] - counts[bins])) / counts[bins].clamp(min=1)
        if self._only_edges:
            thresholds = _lower_edge((bins - (inside < 0.5).long()).clamp(min=0))
        else:
            lower, upper = _lower_edge(bins), _lower_edge(bins + 1)
            thresholds = lower + (inside * (upper - lower)).float()
        return thresholds.masked_fill(bins == 0, 0.0).masked_fill(fractions <= 0, -1.0)


def _lower_edge(bins: Tensor) -> Tensor:
    return (bins << 16).to(torch.int32).view(torch.float32)
