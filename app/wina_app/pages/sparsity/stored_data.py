"""Queries for the stored data of the current plan."""

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from wina_app.pages.sparsity.cell_curves import CellCurves
from wina_app.pages.sparsity.expert_numbers import ExpertNumbers, expert_numbers
from wina_app.pages.sparsity.plan_files import plan_study
from wina_core.records import EXPERT_TOKENS, THRESHOLD_METRICS
from wina_core.specs import MethodSpec, ModelSource, RotationSpec, RunSpec
from wina_core.specs.plans import PlanLayout, SparsityPlan
from wina_core.studies.expand import expand

if TYPE_CHECKING:  # SQLAlchemy takes a second to import: only the store's thread does
    from wina_core.store import LayerMap, Store
    from wina_core.store.rows import CellStat


@dataclass(frozen=True)
class Subject:
    """Model, rotation, method and plan of a query."""

    source: ModelSource
    rotation: RotationSpec
    method: MethodSpec
    plan: SparsityPlan


@dataclass(frozen=True, eq=False)
class StoredCellData:
    """Stored data of each cell under one model, rotation and method."""

    stamp: tuple[float, ...] = ()
    """Identifies the calibrations read."""
    thresholds: CellCurves | None = None
    """Calibrated thresholds of the method's selection, over the mask's sparsity."""
    errors: CellCurves | None = None
    """Relative output errors, over the target."""
    energies: CellCurves | None = None
    """Kept energies, over the target."""
    divergences: CellCurves | None = None
    """Square roots of the KL divergence that each cell causes alone, between which they are nearly linear."""
    residuals: np.ndarray | None = None
    """Off-diagonal energy of W^T W, float64 [layers, projections]."""
    spreads: np.ndarray | None = None
    """Standard deviation over mean of the column norms, float64 [layers, projections]."""
    experts: ExpertNumbers = field(default_factory=dict)
    """Tokens of the text that each expert read."""


@dataclass(frozen=True, eq=False)
class StoredPlanData:
    """Stored data of one plan and its cells."""

    measured: "LayerMap | None" = None
    """Measured sparsity of the latest run with exactly this model, rotation, method and plan."""
    cells: StoredCellData = field(default_factory=StoredCellData)
    experts: ExpertNumbers = field(default_factory=dict)
    """Numbers of each expert in that run."""


def read_plan_data(store: "Store", subject: Subject, previous: StoredCellData) -> StoredPlanData:
    """Read the stored data of a plan, on the store's thread; `previous` was read before for the same configuration."""
    from wina_core.report.model_card import runs_of_plan

    runs = runs_of_plan(store, subject.source, subject.rotation, subject.method, subject.plan)
    run = next((run_spec.content_hash() for run_spec in runs), None)
    return StoredPlanData(
        None if run is None else store.layer_map(run),
        _cells(store, subject, previous),
        {} if run is None else expert_numbers(store.expert_stats(run)),
    )


def run_of_plan(subject: Subject) -> RunSpec:
    """Return the run of the plan's study."""
    (run,) = expand(plan_study("Export", subject.plan, subject.source, subject.rotation, subject.method))
    return run


def _cells(store: "Store", subject: Subject, previous: StoredCellData) -> StoredCellData:
    configuration = subject.source, subject.rotation, subject.method
    stamp = store.cells_stamp(*configuration)
    if stamp == previous.stamp:
        return previous
    stats: defaultdict[str, list[CellStat]] = defaultdict(list)
    for row in store.cell_stats(*configuration):
        stats[row.metric].append(row)
    layout = subject.plan.layout
    roots = [row._replace(value=math.sqrt(max(row.value, 0.0))) for row in stats["kl"]]
    return StoredCellData(
        stamp,
        thresholds=CellCurves.of(layout, stats[THRESHOLD_METRICS[subject.method.selection]]),
        errors=CellCurves.of(layout, stats["relative_error"], at_zero=0.0),
        energies=CellCurves.of(layout, stats["kept_energy"], at_zero=1.0),
        divergences=CellCurves.of(layout, roots, at_zero=0.0),
        residuals=_table(layout, stats["off_diagonal_energy"]),
        spreads=_table(layout, stats["norm_spread"]),
        experts=expert_numbers(stats[EXPERT_TOKENS]),
    )


def _table(layout: PlanLayout, stats: "Iterable[CellStat]") -> np.ndarray | None:
    table = np.full((layout.layers, len(layout.projections)), math.nan)
    for row in stats:
        if row.layer < layout.layers and row.projection in layout.projections:
            table[row.layer, layout.projections.index(row.projection)] = row.value
    return None if np.isnan(table).all() else table
