"""Stored data of the current plan: what its latest run measured, and the curves of its cells."""

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import numpy as np

from wina_core.records import EXPERT_TOKENS, THRESHOLD_METRICS
from wina_core.specs import Configuration, EvaluationSpec, MethodSpec, ModelSource, RotationSpec, RunSpec
from wina_core.specs.plans import PlanLayout, SparsityPlan
from wina_core.specs.studies import StudySpec
from wina_core.studies.expand import expand

if TYPE_CHECKING:  # SQLAlchemy takes a second to import: only the store's thread does
    from wina_core.store import RunLayerMap, Store
    from wina_core.store.rows import CellStat


@dataclass(frozen=True, eq=False)
class CellCurves:
    """Piecewise linear curves on one grid."""

    x: np.ndarray
    """Sparsities, ascending, float64 [points]."""
    values: np.ndarray
    """float64 [layers, projections, points], NaN where nothing is known."""

    @classmethod
    def of(cls, layout: PlanLayout, stats: "Iterable[CellStat]", at_zero: float | None = None) -> Self | None:
        """Return the curves of one metric, or None without data. `at_zero` is its value at sparsity 0."""
        points: dict[tuple[int, str], dict[float, float]] = {}
        for row in stats:
            if row.x is not None and row.layer < layout.layers and row.projection in layout.projections:
                start = {} if at_zero is None else {0.0: at_zero}
                points.setdefault((row.layer, row.projection), start)[row.x] = row.value
        if not points:
            return None
        # On the union of all points, every curve keeps its own bends.
        x = np.array(sorted({sparsity for curve in points.values() for sparsity in curve}))
        values = np.full((layout.layers, len(layout.projections), len(x)), np.nan)
        for (layer, projection), curve in points.items():
            measured = sorted(curve)
            heights = [curve[sparsity] for sparsity in measured]
            column = layout.projections.index(projection)
            values[layer, column] = np.interp(x, measured, heights, left=np.nan, right=np.nan)
        return cls(x, values)

    def at(self, sparsity: np.ndarray) -> np.ndarray:
        """Return each cell's value at its sparsity, both [layers, projections]; NaN beyond a curve's ends."""
        if len(self.x) < 2:
            return np.where(sparsity == self.x[0], self.values[..., 0], np.nan)
        lower = np.clip(np.searchsorted(self.x, sparsity, side="right") - 1, 0, len(self.x) - 2)
        left, right = self.x[lower], self.x[lower + 1]
        below, above = (
            np.take_along_axis(self.values, index[..., None], axis=-1)[..., 0] for index in (lower, lower + 1)
        )
        share = (sparsity - left) / (right - left)
        # Not the formula alone: at a curve's last point the next value is NaN, and 0 times NaN is NaN.
        between = np.where(share <= 0, below, np.where(share >= 1, above, below + share * (above - below)))
        tolerance = 1e-9  # of targets such as 0.95, which a step of 0.05 may miss by a rounding error
        return np.where((share < -tolerance) | (share > 1 + tolerance), np.nan, between)


ExpertNumbers = dict[tuple[str, int, str], dict[int, float]]
"""Numbers of experts by metric, layer and projection."""


def expert_numbers(stats: "Iterable[CellStat]") -> ExpertNumbers:
    """Sort stored numbers whose x is the number of an expert."""
    numbers: ExpertNumbers = {}
    for row in stats:
        if row.x is not None:
            numbers.setdefault((row.metric, row.layer, row.projection), {})[int(row.x)] = row.value
    return numbers


@dataclass(frozen=True)
class PlanSubject:
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

    measured: "RunLayerMap | None" = None
    """Measured sparsity of the latest run with exactly this model, rotation, method and plan."""
    cells: StoredCellData = field(default_factory=StoredCellData)
    experts: ExpertNumbers = field(default_factory=dict)
    """Numbers of each expert in that run."""


def read_plan_data(store: "Store", subject: PlanSubject, previous: StoredCellData) -> StoredPlanData:
    """Read the stored data of a plan, on the store's thread; `previous` was read before for the same configuration."""
    from wina_core.report.model_card import runs_of_plan  # imports SQLAlchemy

    runs = runs_of_plan(store, subject.source, subject.rotation, subject.method, subject.plan)
    run = next((run_spec.content_hash() for run_spec in runs), None)
    return StoredPlanData(
        None if run is None else store.layer_map(run),
        _cells(store, subject, previous),
        {} if run is None else expert_numbers(store.expert_stats(run)),
    )


def plan_study(name: str, subject: PlanSubject) -> StudySpec:
    """Return a study that measures one plan's fidelity, to the original and to the same model without gates."""
    return StudySpec(
        name=name,
        models=(subject.source,),
        configurations=(Configuration(rotation=subject.rotation, method=subject.method),),
        plans=(subject.plan,),
        evaluation=EvaluationSpec(original=EvaluationSpec().fidelity),
    )


def run_of_plan(subject: PlanSubject) -> RunSpec:
    (run,) = expand(plan_study("Export", subject))
    return run


def _cells(store: "Store", subject: PlanSubject, previous: StoredCellData) -> StoredCellData:
    configuration = subject.source, subject.rotation, subject.method
    # The stamp is read faster than the numbers, which change with a calibration only.
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
