"""The results of jobs: plain, validated records for the engine's wire and the store."""

from wina_core.records.models import CostRecord, CostRow, CostTerm, ModelShape, ModelSummary, QuantizationReport
from wina_core.records.plans import (
    EXPERT_TOKENS,
    LEAST_EXPERT_TOKENS,
    THRESHOLD_METRICS,
    AllocationRecord,
    CalibrationRecord,
    ExportRecord,
    GgufRecord,
    GgufType,
    JointRecord,
)
from wina_core.records.rotations import (
    BasesRecord,
    RefinementStep,
    RotationCandidate,
    RotationChoice,
    RotationReport,
    SiteSpectrum,
)
from wina_core.records.timings import COMPILED, FUSED, DecodeRecord, Environment, LatencyRecord, SweepReport
from wina_core.records.units import (
    ACTIVE,
    EXPERT_METRICS,
    EXPERT_SHARE,
    EXPERT_SPARSITY,
    EXPERT_THRESHOLD,
    METRIC_UNITS,
    ExpertRecord,
    LayerRecord,
    MetricRecord,
    ProductKind,
    RunStatus,
    SampleRecord,
    UnitRecord,
    has_mean,
    noise_of,
)
