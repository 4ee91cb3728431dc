"""Verdicts on timed decoding: whether gating pays, by how much, with its noise, and up to which batch."""

import math
from collections.abc import Mapping
from typing import Literal, NamedTuple

Status = Literal["pays", "does not pay", "within the noise"]


class Speed(NamedTuple):
    """Tokens per second, with the tenth and ninetieth percentile of the repetitions."""

    median: float
    low: float
    high: float


class Gain(NamedTuple):
    """The ratio of two speeds, from the least favourable percentiles to the most favourable ones."""

    ratio: float
    low: float
    high: float

    @property
    def status(self) -> Status:
        """Return whether the whole range lies above 1, below 1, or on both sides."""
        if self.low > 1:
            return "pays"
        return "does not pay" if self.high < 1 else "within the noise"

    @property
    def text(self) -> str:
        """Return for example "1.62 times (1.51 to 1.73)"."""
        return f"{self.ratio:.2f} times ({self.low:.2f} to {self.high:.2f})"


def gain(own: Speed, other: Speed) -> Gain:
    """Return own / other: p10 over p90, the medians, and p90 over p10."""
    return Gain(own.median / other.median, own.low / other.high, own.high / other.low)


class BatchLimit(NamedTuple):
    """The batches up to which gating pays."""

    most: int
    """Largest measured batch up to which every measured one pays; 0 if not even one sequence does."""
    following: int | None
    """The next measured batch; None if every measured one pays."""
    even: float | None
    """Batch of equal speed, interpolated between the two; None where the next one is not slower beyond its noise."""

    @property
    def text(self) -> str:
        """Return for example "4 (equal at about 5.7)" or "at least 8"."""
        if self.following is None:
            return f"at least {self.most}"
        start = str(self.most) if self.most else "none"
        if self.even is not None:
            return f"{start} (equal at about {self.even:.1f})" if self.most else start
        return f"{start} (within the noise at {self.following})"


def batch_limit(gains: Mapping[int, Gain]) -> BatchLimit | None:
    """Return the limit from the gains by batch; None where one sequence was not measured.

    Ratio and batch are interpolated on logarithmic scales: speed falls by a power of the batch once the union of its
    masks fills up.
    """
    batches = sorted(gains)
    if not batches or batches[0] != 1:
        return None
    most = 0
    for batch in batches:
        if gains[batch].status != "pays":
            even = _even(most, batch, gains) if gains[batch].status == "does not pay" else None
            return BatchLimit(most, batch, even)
        most = batch
    return BatchLimit(most, None, None)


def _even(most: int, following: int, gains: Mapping[int, Gain]) -> float:
    if most == 0:
        return 1.0
    above, below = math.log(gains[most].ratio), math.log(gains[following].ratio)
    share = above / (above - below)
    return float(math.exp(math.log(most) + share * (math.log(following) - math.log(most))))


class Rival(NamedTuple):
    """A configuration that a user could choose instead, by name, and the gain over it."""

    name: str
    gain: Gain


class Verdict(NamedTuple):
    """The judgement on one configuration."""

    status: Status
    text: str


_RANK: dict[Status, int] = {"pays": 0, "within the noise": 1, "does not pay": 2}


def verdict(dense: Rival, peer: Rival | None) -> Verdict:
    """Return the judgement against the fastest dense decoding, and the fastest peer where one is known.

    The worse of both counts: it does not pay to gate what another tool decodes faster at the same bits.
    """
    worse = dense if peer is None or _RANK[dense.gain.status] >= _RANK[peer.gain.status] else peer
    better = [rival for rival in (dense, peer) if rival is not None and rival is not worse]
    texts = [f"{worse.gain.text} {worse.name}", *(f"{rival.gain.ratio:.2f} times {rival.name}" for rival in better)]
    return Verdict(worse.gain.status, f"{worse.gain.status}: {'; '.join(texts)}")
