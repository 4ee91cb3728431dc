"""The results of jobs: plain, validated records for the engine's wire and the store."""

from wina_core.records.costs import CostRecord, CostRow, CostTerm
from wina_core.records.estimates import EstimateRecord, PreparationEstimate, ProductKind, UnitEstimate
from wina_core.records.exports import ExportRecord, GgufRecord, GgufType
from wina_core.records.models import ModelShape, ModelSummary, QuantizationReport
from wina_core.records.plans import (
    EXPERT_TOKENS,
    LEAST_EXPERT_TOKENS,
    THRESHOLD_METRICS,
    AllocationRecord,
    CalibrationRecord,
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
    RunStatus,
    SampleRecord,
    UnitRecord,
    has_mean,
    noise_of,
)
