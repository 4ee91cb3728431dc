"""Timings of products and models, and the environment of the measurements."""

import hashlib
import json

from wina_core.records.base import Record
from wina_core.specs.latency import DecodePoint, LatencyPoint


class Environment(Record):
    """The device, hardware and library versions of a measurement."""

    device: str
    hardware: str
    versions: dict[str, str]

    @property
    def key(self) -> str:
        """Return 16 hex digits over all of it, its name in the store."""
        return hashlib.sha256(json.dumps(self.model_dump(), sort_keys=True).encode()).hexdigest()[:16]


class LatencyRecord(Record):
    """The timing of one product, alternating with PyTorch's dense call."""

    point: LatencyPoint
    """With the backend that "auto" chose."""
    op: str
    """Operations with such a matrix, named by the sweep."""
    environment: Environment
    measured_sparsity: float
    """Dropped fraction of the inputs, counted from the masks over all rows of the batch."""
    read_bytes: float
    """Bytes that must be read (`wina_core.compute.latency.products.read_bytes`)."""
    median_ms: float
    p10_ms: float
    p90_ms: float
    dense_ms: float
    """Median of the dense call."""
    speedup: float
    """Median over the turns of the dense call's time / this one's."""
    bandwidth: float
    """Memory bandwidth of the machine when the sweep began, GB/s (1e9 bytes)."""

    @property
    def gigabytes_per_second(self) -> float:
        return self.read_bytes / self.median_ms / 1e6

    @property
    def roofline(self) -> float:
        """Return the fraction of the speed that the bandwidth allows."""
        return self.gigabytes_per_second / self.bandwidth

    @property
    def spread(self) -> float:
        return self.p90_ms / self.p10_ms

    @property
    def dense_spread(self) -> float:
        return 1.0  # the percentiles of the dense call are not recorded


COMPILED = "compiled"
"""The decoder that reads a token by one call of the native library."""
FUSED = "CUDA graph, fused"
"""The decoder that reads a token by few launches on a GPU."""


class DecodeRecord(Record):
    """The decoding speed of a gated model, against the dense one without a rotation."""

    point: DecodePoint
    environment: Environment
    measured_sparsity: float
    """Dropped fraction of the gated weights, as the method counts it."""
    tokens_per_second: float
    """New tokens of all sequences; median over the repetitions, as the next two."""
    p10: float
    p90: float
    dense_tokens_per_second: float
    dense_p10: float
    dense_p90: float
    prefill_tokens_per_second: float
    """Tokens of all prompts, until the first new token; median over the repetitions, as the next two."""
    prefill_p10: float
    prefill_p90: float
    dense_prefill_tokens_per_second: float
    dense_prefill_p10: float
    dense_prefill_p90: float
    held_bytes: int
    """Bytes of the gated model's weights, norms and low-rank parts."""
    dense_held_bytes: int
    peak_bytes: int | None
    """Largest memory while the gated model decoded: PyTorch's on a GPU, else the resident memory of the process, which
    also holds the libraries, and the dense model if it is one of its own. None where it cannot be measured."""
    decoder: str
    """COMPILED, FUSED, or what else decoded the gated model and why. The dense model is decoded by transformers, on a
    GPU by the same decoder or the one that follows "; dense: "."""
    turns: int
    """Repetitions behind each median, the fewer of both models: less than the point's where its time budget ended."""
    timed_tokens: int
    """New tokens of a repetition, the fewest."""

    @property
    def speedup(self) -> float:
        return self.tokens_per_second / self.dense_tokens_per_second

    @property
    def spread(self) -> float:
        return self.p90 / self.p10

    @property
    def dense_spread(self) -> float:
        return self.dense_p90 / self.dense_p10


class SweepReport(Record):
    """The outcome of a sweep."""

    environment: Environment
    measured: int
    stored: int
    """Points already measured on this environment."""
    points: tuple[str, ...] = ()
    """Hashes of all requested points, with the backend that "auto" chose."""
    skipped: tuple[str, ...] = ()
    """The reasons for skipped points, a sentence each."""
    bandwidth: float | None = None
    """GB/s at the start; None where no product was timed."""
