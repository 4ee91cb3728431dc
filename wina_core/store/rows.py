"""Results of queries: plain, immutable rows. Those of timings are in `wina_core.store.timings`."""

from dataclasses import dataclass
from typing import NamedTuple

from wina_core.model_info.cost.warning import metric_warning
from wina_core.records import RotationReport
from wina_core.specs import RotationSpec


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
    deleted: float | None
    """Time of its deletion, seconds since the epoch; None for a run in the lists."""


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


@dataclass(frozen=True)
class RunLayerMap:
    """One metric over decoder layers x projections; `values[layer][projection]` is NaN if nothing is stored."""

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
    """Sparsity, if the metric is a curve over it; the expert's number of an expert's metric."""
    value: float


# ---- metrics, and what lists show of their runs ----------------------------------------------------------------------


class MetricRow(NamedTuple):
    """One metric of one run."""

    run: str
    """Content hash of the RunSpec."""
    model: str
    """The model's short name."""
    rotation: str
    """`RotationSpec.label`."""
    method: str
    """`MethodSpec.label`."""
    selection: str
    plan: str
    """The plan's provenance: "uniform", "edited", ..."""
    target_sparsity: float
    """The uniform target, or the plan's budget."""
    gated_sparsity: float | None
    """As measured while this metric's unit ran; None if nothing was gated."""
    net_sparsity: float | None
    task: str
    metric: str
    value: float
    stderr: float | None
    n: int | None
    higher_is_better: bool | None
    version: str | None
    """Version of the task's definition."""
    num_fewshot: int | None
    prompt_hash: str | None
    """Equal for runs with the same prompts."""
    truncated: int | None
    """Prompts whose beginning was cut off."""
    settings: str
    """Evaluation settings that differ from the defaults, for example "limit 100"; empty when none does."""
    status: str
    """The run's status, one of `records.RunStatus`."""
    finished: float
    """Time at which the unit was finished, seconds since the epoch."""
    model_hash: str
    unit: str
    chosen_on_evaluation: str
    """Parts of the run that read the evaluated text, as `columns.chosen_on_evaluation`."""
    seconds: float
    """Computing time of the unit."""
    superseded: str = ""
    """A sentence on numbers that no longer have the meaning of their labels; empty otherwise."""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Stable key of the row."""
        return self.run, self.unit, self.task, self.metric

    @property
    def warning(self) -> str:
        """Warnings about the numbers, in sentences; empty without any."""
        return metric_warning(
            self.gated_sparsity, self.net_sparsity, self.chosen_on_evaluation, self.task, self.superseded
        )


class RunDetails(NamedTuple):
    """Facts of one run beside its numbers."""

    tags: str
    """The user's, with commas between."""
    note: str
    pinned: bool
    seed: int
    hardware: str
    """Hardware of the last computation."""
    studies: str
    """Names of its studies, with commas between."""
    rotation: str
    """Its settings in words (`run_reader.rotation_details`)."""
    user: str = ""
    """Name of the user who queued or computed it last; empty if an older version did, likewise `host`."""
    host: str = ""
