"""The results of jobs: plain, validated records for the engine's wire and the store."""

from wina_core.records.base import Record
from wina_core.records.costs import CostRecord, CostRow, CostTerm
from wina_core.records.estimates import EstimateRecord, UnitEstimate
from wina_core.records.models import ModelShape, ModelSummary, QuantizationReport
from wina_core.records.plans import THRESHOLD_METRICS, AllocationRecord, CalibrationRecord, JointRecord
from wina_core.records.rotations import BasesRecord, RefinementStep, RotationReport
from wina_core.records.timings import COMPILED, FUSED, DecodeRecord, Environment, LatencyRecord, SweepReport
from wina_core.records.units import (
    METRIC_UNITS,
    LayerRecord,
    MetricRecord,
    RunStatus,
    SampleRecord,
    UnitRecord,
    has_mean,
)
