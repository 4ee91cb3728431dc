"""The results database: every spec that was launched, and every number that was computed, exactly once."""

from wina_core.store.recorder import Recorder, Recorders
from wina_core.store.rows import (
    MetricFilter,
    MetricRow,
    PlanRow,
    RotationRow,
    RunDetails,
    RunLayerMap,
    RunRow,
    StudyRow,
    UnitRow,
)
from wina_core.store.store import Store
from wina_core.store.timings import DecodeRow, LatencyRow

__all__ = [
    "DecodeRow",
    "LatencyRow",
    "MetricFilter",
    "MetricRow",
    "PlanRow",
    "Recorder",
    "Recorders",
    "RotationRow",
    "RunDetails",
    "RunLayerMap",
    "RunRow",
    "Store",
    "StudyRow",
    "UnitRow",
]
