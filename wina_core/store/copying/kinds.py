"""All kinds of entries that are copied."""

import math
from collections.abc import Callable

from sqlalchemy import Table

from wina_core.specs import CalibrationSpec, ModelSource, RotationSpec, RunSpec
from wina_core.specs.generation import CompletionPoint
from wina_core.specs.latency import DecodePoint, LatencyPoint
from wina_core.specs.plans import SparsityPlan
from wina_core.specs.studies import StudySpec
from wina_core.store import tables
from wina_core.store.copying.entry import Kind, Part, Values, columns_without
from wina_core.store.copying.runs import combine_runs, copied_run
from wina_core.store.imported.tables import ImportedFile, ImportedPoint


def _table(of: type[tables.Table]) -> Table:
    assert isinstance(of.__table__, Table)
    return of.__table__


def _part(of: type[tables.Table], owner: str) -> Part:
    table = _table(of)
    return Part(table, owner, columns_without(table, {"id", owner, *tables.OWNERS}))


def _at(column: str) -> Callable[[Values], tuple[float, ...]]:
    def time(values: Values) -> tuple[float, ...]:
        return (-math.inf if values[column] is None else values[column],)

    return time


def _completed(values: Values) -> tuple[float, ...]:
    """Return the time of a completion: a whole one is newer than any that was stopped."""
    return (float(values["end"] != "stopped"), values["recorded"])


RUNS = Kind(
    _table(tables.Run),
    ("hash",),
    combine=combine_runs,
    copied=copied_run,
    left_out=("owner",),
    content=("spec", RunSpec),
)
UNITS = Kind(
    _table(tables.Unit),
    ("run_id", "unit"),
    _at("finished"),
    (_part(tables.Metric, "unit_id"), _part(tables.Sample, "unit_id"), _part(tables.LayerStat, "unit_id")),
)
"""Copied together with their runs."""
BEFORE_RUNS = (
    Kind(_table(tables.Model), ("hash",), _at("opened"), content=("spec", ModelSource)),
    Kind(_table(tables.Environment), ("hash",)),
    Kind(_table(tables.Measure), ("hash",)),
    Kind(_table(tables.Plan), ("name",), _at("saved"), content=("plan", SparsityPlan)),
    Kind(
        _table(tables.Rotation),
        ("hash", "model_id"),
        _at("recorded"),
        (_part(tables.LayerStat, "rotation_id"),),
        content=("spec", RotationSpec),
    ),
    Kind(
        _table(tables.Calibration),
        ("hash", "model_id", "rotation_hash", "method_label"),
        _at("recorded"),
        (_part(tables.LayerStat, "calibration_id"),),
        content=("spec", CalibrationSpec),
    ),
)
AFTER_RUNS = (
    Kind(
        _table(tables.Study),
        ("hash",),
        _at("saved"),
        (_part(tables.StudyRun, "study_id"), _part(tables.StudyLabel, "study_id")),
        content=("spec", StudySpec),
    ),
    Kind(_table(tables.Latency), ("hash", "environment_id"), _at("recorded"), content=("spec", LatencyPoint)),
    Kind(_table(tables.Decoding), ("hash", "environment_id"), _at("recorded"), content=("spec", DecodePoint)),
    Kind(_table(tables.Completion), ("hash", "environment_id"), _completed, content=("spec", CompletionPoint)),
    Kind(_table(ImportedFile), ("digest",), _at("imported"), (_part(ImportedPoint, "file_id"),)),
)
KINDS = (*BEFORE_RUNS, RUNS, UNITS, *AFTER_RUNS)
"""Each after those that it names. Jobs that have not ended belong to their program and are not copied."""
