"""Tables of the sparsity heatmap: numbers [layer, projection], NaN for "no data"."""

import math
from typing import TYPE_CHECKING

import numpy as np

from wina_app.heatmap.painter import Notes
from wina_app.pages.sparsity.stored_data import StoredPlanData
from wina_app.plots.colour_maps import percent
from wina_app.shared.colour_scales import MapKey, bits_text
from wina_app.style.translation import tr
from wina_core.errors import WinaError
from wina_core.specs import MethodSpec
from wina_core.specs.plans import PlanLayout, ResolvedPlan, SparsityPlan, resolve_plan

if TYPE_CHECKING:  # SQLAlchemy takes a second to import: only the store's thread does
    from wina_core.store import LayerMap


class PlanMaps:
    """All tables of one plan under one method, each computed on first use.

    float64 [layers, projections]. A method may not reach a plan's targets as they are: those that it does are what
    curves are read at, cells under a shared mask at their mean.
    """

    def __init__(
        self,
        plan: SparsityPlan,
        method: MethodSpec,
        facts: StoredPlanData,
        other: SparsityPlan | None = None,
        bits: np.ndarray | None = None,
    ) -> None:
        """Prepare the tables; `other` is a plan to compare with, `bits` those of the model [layers, projections]."""
        self.plan, self._bits = plan, bits
        self._method, self._facts, self._other = method, facts, other
        self._tables: dict[MapKey, np.ndarray] = {}
        self.obstacle = ""
        """Reason why the method cannot have this plan, as a sentence; empty where it can."""
        try:
            self._resolved = resolve_plan(plan, plan.layout, method)
        except WinaError as error:
            self._resolved, self.obstacle = ResolvedPlan(plan, plan.sparsity, plan.sparsity), str(error)
        self._targets = target_table(self._resolved.targets)

    def table(self, key: MapKey) -> np.ndarray:
        """Return the numbers of one table; do not write to it."""
        if key not in self._tables:
            self._tables[key] = self._compute(key)
        return self._tables[key]

    def _compute(self, key: MapKey) -> np.ndarray:
        layout, cells = self.plan.layout, self._facts.cells
        match key:
            case "target":
                return target_table(self.plan)
            case "measured":
                return measured_table(layout, self._facts.measured)
            case "difference":
                missed: np.ndarray = self.table("measured") - self.table("target")
                return missed
            case "change":
                return _unknown(layout) if self._other is None else self.table("target") - target_table(self._other)
            case "threshold":
                if cells.thresholds is None:
                    return _unknown(layout)
                return cells.thresholds.at(np.asarray(self._resolved.masks))
            case "predicted":
                return self._cost(None if cells.errors is None else cells.errors.at(self._targets))
            case "kl":
                return self._cost(None if cells.divergences is None else cells.divergences.at(self._targets) ** 2)
            case "kept":
                if cells.energies is None:
                    return _unknown(layout)
                return 1.0 - self._cost(1.0 - cells.energies.at(self._targets))
            case "bits":
                return _unknown(layout) if self._bits is None else self._bits
            case "residual":
                return _unknown(layout) if cells.residuals is None else cells.residuals
            case "spread":
                return _unknown(layout) if cells.spreads is None else cells.spreads

    def _cost(self, table: np.ndarray | None) -> np.ndarray:
        """Return the cost of gating: 0 at target 0, and unknown for shares rho that were not calibrated."""
        if table is None or self.plan.rho is not None:
            return _unknown(self.plan.layout)
        return np.where(self._targets == 0, 0.0, table)


def remark(key: MapKey, maps: PlanMaps, configuration: str) -> str:
    """Say why a table has no data, and how to get them; `configuration` names method and rotation."""
    if key in ("predicted", "kl", "kept") and maps.plan.rho is not None:
        return tr(
            "This plan has shares rho of its own, for which no curves are measured; evaluate it to know what it costs."
        )
    match key:
        case "measured" | "difference":
            return tr(
                "No stored run of {configuration} has this plan; evaluate it to measure what it drops.",
                configuration=configuration,
            )
        case "change":
            return tr("No other plan is chosen; choose one under Plans, Compare with.")
        case "kl":
            return tr(
                "No KL curves are stored for {configuration}; press Measure KL, or allocate by curves or refine.",
                configuration=configuration,
            )
        case "predicted":
            return tr(
                "No error curves are stored for {configuration}; press Calibrate to measure them.",
                configuration=configuration,
            )
        case "threshold":
            return tr(
                "No thresholds of layers are stored for {configuration} with this selection; press Calibrate to "
                "measure them.",
                configuration=configuration,
            )
        case "residual":
            return tr(
                "How orthogonal the columns are is not stored for {configuration}; press Calibrate to measure it.",
                configuration=configuration,
            )
        case _:
            return tr(
                "This is not stored for {configuration}; press Calibrate to measure it.", configuration=configuration
            )


def cell_notes(maps: PlanMaps, key: MapKey, *, quantized: bool) -> Notes:
    """Return the other value of each cell in the two maps that are edited: its bits, or its target sparsity."""
    if key == "bits":
        return tuple(tuple(f"{percent(value)} %" for value in row) for row in maps.table("target").tolist())
    if key == "target" and quantized:
        return tuple(tuple(f"{bits_text(value)} b" for value in row) for row in maps.table("bits").tolist())
    return ()


def target_table(plan: SparsityPlan) -> np.ndarray:
    """Return the target sparsity of every cell, float64 [layers, projections]."""
    return np.asarray(plan.sparsity, dtype=float)


def measured_table(layout: PlanLayout, stored: "LayerMap | None") -> np.ndarray:
    """Return a stored map in the layout's order, NaN for missing cells; float64 [layers, projections]."""
    table = _unknown(layout)
    if stored is None:
        return table
    values = np.asarray(stored.values, dtype=float)[: layout.layers]
    for column, projection in enumerate(layout.projections):
        if projection in stored.projections:
            table[: len(values), column] = values[:, stored.projections.index(projection)]
    return table


def weighted_mean(layout: PlanLayout, table: np.ndarray) -> float | None:
    """Return the mean weighted by each matrix's number of weights, as the budget is; None when a value is missing."""
    if np.isnan(table).any():
        return None
    return float(np.average(table, weights=np.asarray(layout.parameters, dtype=float)))


def _unknown(layout: PlanLayout) -> np.ndarray:
    return np.full((layout.layers, len(layout.projections)), math.nan)
