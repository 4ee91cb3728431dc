"""Results of queries: plain, immutable rows. Those of metrics are in `wina_core.store.metric_rows`."""

from dataclasses import dataclass
from typing import NamedTuple

from wina_core.records import RotationReport
from wina_core.specs import RotationSpec


class DeletedRow(NamedTuple):
    """A run that was deleted and can be restored."""

    run: str
    model: str
    configuration: str
    plan: str
    target_sparsity: float
    deleted: float
    """Time of the deletion, seconds since the epoch."""


class RunRow(NamedTuple):
    """One run and its progress."""

    run: str
    model: str
    configuration: str
    """`Configuration.label`: method and rotation."""
    selection: str
    plan: str
    target_sparsity: float
    settings: str
    status: str
    units_done: int
    units_total: int
    error: str
    created: float
    started: float | None
    finished: float | None
    device: str | None
    hardware: str | None


class UnitRow(NamedTuple):
    """One finished unit of a run and what it was computed on."""

    run: str
    unit: str
    seconds: float
    finished: float
    """Seconds since the epoch."""
    gated_sparsity: float | None
    net_sparsity: float | None
    device: str | None
    hardware: str | None
    versions: dict[str, str]
    """Versions of the libraries."""


class StudyRow(NamedTuple):
    """One launched study; its runs may be shared with others."""

    study: str
    """Content hash of the StudySpec."""
    name: str
    saved: float
    runs_done: int
    runs_total: int


class PlanRow(NamedTuple):
    """One named plan."""

    name: str
    provenance: str
    budget: float
    saved: float


class RotationRow(NamedTuple):
    """A rotation that was computed before."""

    rotation: RotationSpec
    report: RotationReport
    recorded: float


@dataclass(frozen=True)
class MetricFilter:
    """Filter of metrics; an empty field lets everything pass."""

    study: str = ""
    """Content hash of a StudySpec."""
    runs: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    """Content hashes of ModelSources."""
    rotations: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    selections: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ()


@dataclass(frozen=True)
class LayerMap:
    """One metric over decoder layers x projections; `values[layer][projection]` is NaN where nothing is stored."""

    unit: str
    """The unit of the run during which it was measured."""
    projections: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]


class CellStat(NamedTuple):
    """One number about one projection of one decoder layer, of a calibration or a rotation."""

    metric: str
    layer: int
    projection: str
    x: float | None
    """The sparsity, where the metric is a curve over it."""
    value: float


class PlannedRun(NamedTuple):
    """A run by what it was planned to drop."""

    run: str
    configuration: str
    """`Configuration.label`: method and rotation."""
    plan: str
    target_sparsity: float


class LatencyRow(NamedTuple):
    """One timed product."""

    op: str
    outputs: int
    inputs: int
    batch: int
    dtype: str
    method: str
    selection: str
    sparsity: float
    backend: str
    repetitions: int
    measured_sparsity: float
    read_bytes: float
    median_ms: float
    p10_ms: float
    p90_ms: float
    dense_ms: float
    speedup: float
    gigabytes_per_second: float
    bandwidth: float
    roofline: float
    recorded: float
    device: str
    hardware: str
    point: str
    """Content hash of the LatencyPoint."""
    best_dense: str = ""
    """Backend of the fastest dense product of the same work and environment; empty where PyTorch's alone was timed."""
    best_dense_ms: float | None = None
    best_speedup: float | None = None
    """Speed-up over that product; None where it is unknown."""
    spread: float = 1.0
    """p90 / p10."""
    drift: float = 1.0
    """The dense median beside this point over the middle of those beside all points of the same work, or its inverse:
    the larger."""
    stable: bool = True
    """Whether spread and drift are at most `specs.latency.STEADY`."""

    @property
    def dense_spread(self) -> float:
        """Return p90 / p10 of the dense product: 1, since it is not stored."""
        return 1.0


class DecodeRow(NamedTuple):
    """One timed model."""

    model: str
    """The model's short name."""
    rotation: str
    method: str
    selection: str
    sparsity: float
    measured_sparsity: float
    prompt_tokens: int
    new_tokens: int
    repetitions: int
    tokens_per_second: float
    p10: float
    p90: float
    dense_tokens_per_second: float
    speedup: float
    batch: int
    dense_p10: float | None
    """None where an older version timed it, as all that follows up to the peak."""
    dense_p90: float | None
    prefill_tokens_per_second: float | None
    prefill_p10: float | None
    prefill_p90: float | None
    dense_prefill_tokens_per_second: float | None
    dense_prefill_p10: float | None
    dense_prefill_p90: float | None
    held_bytes: int | None
    dense_held_bytes: int | None
    peak_bytes: int | None
    decoder: str | None
    """As DecodeRecord's, as the next two."""
    turns: int | None
    timed_tokens: int | None
    recorded: float
    device: str
    hardware: str
    point: str
    """Content hash of the DecodePoint."""
    best_speedup: float | None = None
    """Speed-up over the fastest dense decoding, our kernels at 0 % included; None where those were not timed."""
    spread: float = 1.0
    """p90 / p10."""
    dense_spread: float = 1.0
    """The same of the dense model; 1 where an older version did not store it."""
    drift: float = 1.0
    """As LatencyRow's."""
    stable: bool = True
    """Whether both spreads and the drift are at most `specs.latency.STEADY`."""

    @property
    def counted_turns(self) -> int:
        """Return the repetitions behind the medians."""
        return self.repetitions if self.turns is None else self.turns

    @property
    def counted_tokens(self) -> int:
        """Return the new tokens of a repetition."""
        return self.new_tokens if self.timed_tokens is None else self.timed_tokens
