"""Results of queries: plain, immutable rows. Those of metrics are in `wina_core.store.metric_rows`, those
of timings in `wina_core.store.timings`."""

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
class RunLayerMap:
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
