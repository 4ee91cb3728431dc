"""What jobs produce: plain, validated records that travel over the engine's wire and land in the store as they are."""

from wina_core.records.base import Record
from wina_core.records.costs import CostRecord, CostRow, CostTerm
from wina_core.records.estimates import EstimateRecord, UnitEstimate
from wina_core.records.models import ModelShape, ModelSummary, QuantizationReport, RotationReport
from wina_core.records.plans import CUT_METRICS, AllocationRecord, CalibrationRecord
from wina_core.records.timings import DecodeRecord, Environment, LatencyRecord, SweepReport
from wina_core.records.units import METRIC_UNITS, LayerRecord, MetricRecord, RunStatus, SampleRecord, UnitRecord

__all__ = [
    "CUT_METRICS",
    "METRIC_UNITS",
    "AllocationRecord",
    "CalibrationRecord",
    "CostRecord",
    "CostRow",
    "CostTerm",
    "DecodeRecord",
    "Environment",
    "EstimateRecord",
    "LatencyRecord",
    "LayerRecord",
    "MetricRecord",
    "ModelShape",
    "ModelSummary",
    "QuantizationReport",
    "Record",
    "RotationReport",
    "RunStatus",
    "SampleRecord",
    "SweepReport",
    "UnitEstimate",
    "UnitRecord",
]
