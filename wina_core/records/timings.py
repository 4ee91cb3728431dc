"""How fast products and models were, and on what."""

import hashlib
import json

from wina_core.records.base import Record
from wina_core.specs.latency import DecodePoint, LatencyPoint


class Environment(Record):
    """What the numbers were computed on."""

    device: str
    hardware: str
    versions: dict[str, str]

    @property
    def key(self) -> str:
        """16 hex digits over all of it, its name in the store."""
        return hashlib.sha256(json.dumps(self.model_dump(), sort_keys=True).encode()).hexdigest()[:16]


class LatencyRecord(Record):
    """How fast one product was, against PyTorch's dense call taken turn by turn with it."""

    point: LatencyPoint
    """With the backend that "auto" came to."""
    op: str
    """What reads such a matrix, as the sweep named it."""
    environment: Environment
    measured_sparsity: float
    """Dropped fraction of the inputs, counted from the masks over all rows of the batch."""
    read_bytes: float
    """What must be read (`wina_core.compute.latency.arithmetic.read_bytes`)."""
    median_ms: float
    p10_ms: float
    p90_ms: float
    dense_ms: float
    """Median of the dense call."""
    speedup: float
    """Median over the turns of the dense call's time over this one's."""
    bandwidth: float
    """GB/s (1e9 bytes) that this machine moved when the sweep began."""

    @property
    def gigabytes_per_second(self) -> float:
        """Of the bytes that must be read, in the median time."""
        return self.read_bytes / self.median_ms / 1e6

    @property
    def roofline(self) -> float:
        """Fraction of the speed that the bandwidth allows."""
        return self.gigabytes_per_second / self.bandwidth


class DecodeRecord(Record):
    """How fast a gated model decoded, against the dense one without a rotation."""

    point: DecodePoint
    environment: Environment
    measured_sparsity: float
    """Dropped fraction of the gated weights, as the method counts it."""
    tokens_per_second: float
    """Median over the repetitions, as the next two."""
    p10: float
    p90: float
    dense_tokens_per_second: float

    @property
    def speedup(self) -> float:
        """Over the dense model."""
        return self.tokens_per_second / self.dense_tokens_per_second


class SweepReport(Record):
    """What became of a sweep's points."""

    environment: Environment
    measured: int
    stored: int
    """Points that were measured on this environment before, and therefore not again."""
    points: tuple[str, ...] = ()
    """Hashes of all that were asked for, with the backend that "auto" came to."""
    skipped: tuple[str, ...] = ()
    """Why points were left out, a sentence for each reason."""
    bandwidth: float | None = None
    """GB/s at the start; None where no product was timed."""
