"""Tables and figures of a plan, computed while it is edited; NaN and None mean that nothing is known."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from wina_app.heatmap.painter import Notes
from wina_app.pages.sparsity.stored_data import StoredPlanData
from wina_app.plots.colour_maps import percent
from wina_app.shared.heatmap_tables import MapKey, bits_text
from wina_app.style.number_format import plural
from wina_core.errors import WinaError
from wina_core.model_info.cost.cost import costs
from wina_core.records import ModelSummary
from wina_core.specs import MethodSpec, Quantization, RotationSpec
from wina_core.specs.plans import PlanLayout, ResolvedPlan, SparsityPlan, resolve_plan

if TYPE_CHECKING:  # SQLAlchemy takes a second to import: only the store's thread does
    from wina_core.store import RunLayerMap


class PlanMaps:
    """All tables of one plan under one method, each computed on first use.

    float64 [layers, projections]. Curves are read at the targets that the method reaches, which may differ from the
    plan's: cells under a shared mask have their mean.
    """

    def __init__(
        self,
        plan: SparsityPlan,
        method: MethodSpec,
        stored: StoredPlanData,
        other: SparsityPlan | None = None,
        bits: np.ndarray | None = None,
    ) -> None:
        """Prepare the tables; `other` is a plan to compare with, `bits` those of the model [layers, projections]."""
        self.plan, self._bits = plan, bits
        self._method, self._stored, self._other = method, stored, other
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
        layout, cells = self.plan.layout, self._stored.cells
        match key:
            case "target":
                return target_table(self.plan)
            case "measured":
                return measured_table(layout, self._stored.measured)
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
            case "kl":  # stored as roots, which are nearly linear between the points
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
        return (
            "This plan has shares rho of its own, for which no curves are measured; evaluate it to know what it costs."
        )
    match key:
        case "measured" | "difference":
            return f"No stored run of {configuration} has this plan; evaluate it to measure what it drops."
        case "change":
            return "No other plan is chosen; choose one under Plans, Compare with."
        case "kl":
            return f"No KL curves are stored for {configuration}; press Measure KL, or allocate by curves or refine."
        case "predicted":
            return f"No error curves are stored for {configuration}; press Calibrate to measure them."
        case "threshold":
            return (
                f"No thresholds of layers are stored for {configuration} with this selection; press Calibrate to "
                "measure them."
            )
        case "residual":
            return f"How orthogonal the columns are is not stored for {configuration}; press Calibrate to measure it."
        case _:
            return f"This is not stored for {configuration}; press Calibrate to measure it."


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


def measured_table(layout: PlanLayout, stored: "RunLayerMap | None") -> np.ndarray:
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


FigureKey = Literal[
    "budget", "gated", "net", "gated_saving", "net_saving", "read", "held", "bits_read", "bits_held",
    "predicted", "kl", "measured",
]  # fmt: skip
_SIZES: tuple[FigureKey, ...] = (
    "gated", "net", "gated_saving", "net_saving", "read", "held", "bits_read", "bits_held",
)  # fmt: skip
"""Figures that follow from the plan and the sizes of the model."""
_Averaged = Literal["predicted", "kl", "measured"]
CONTEXT = 2048
"""Positions that the counted token attends to."""


@dataclass(frozen=True)
class PlanFigures:
    """Figures of a plan; None if unknown, with the reason in `reasons`."""

    budget: float
    gated: float | None = None
    """Gated sparsity: fraction of gated weights not read."""
    net: float | None = None
    """Net sparsity: the same, with shortcuts, norms and calibrated values counted as read."""
    gated_saving: float | None = None
    """Saved fraction of the dense model's gated operations."""
    net_saving: float | None = None
    """Saved fraction of all operations."""
    read: float | None = None
    """Bytes read for a token."""
    held: float | None = None
    """Bytes of memory held by all weights and the KV cache."""
    bits_read: float | None = None
    """Bits read for a token, over the number of gated weights."""
    bits_held: float | None = None
    """Bits held, over the number of gated weights."""
    predicted: float | None = None
    """Mean predicted relative error, weighted like the budget."""
    kl: float | None = None
    """Sum of the cells' separate KL divergences, in nats per token."""
    measured: float | None = None
    """Measured sparsity of the whole model, weighted like the budget."""
    reasons: dict[FigureKey, str] = field(default_factory=dict)

    def readouts(self) -> Iterator[tuple[FigureKey, float | None]]:
        """Yield each figure's key and value, in the order shown."""
        for key in get_args(FigureKey):
            yield key, getattr(self, key)


@dataclass(frozen=True)
class Counting:
    """Configuration whose operations are counted."""

    method: MethodSpec
    rotation: RotationSpec
    quantization: Quantization
    summary: ModelSummary | None

    @property
    def configuration(self) -> str:
        """Name the configuration in reasons."""
        return f"{self.method.label} with rotation {self.rotation.label}"


def plan_figures(maps: PlanMaps, counting: Counting) -> PlanFigures:
    """Return all figures of a plan."""
    plan, layout = maps.plan, maps.plan.layout
    reasons: dict[FigureKey, str] = {}
    costing = _cost_figures(maps, counting, reasons)
    mean = partial(weighted_mean, layout)
    predicted, measured = mean(maps.table("predicted")), mean(maps.table("measured"))
    divergence = maps.table("kl")
    kl = None if np.isnan(divergence).any() else float(divergence.sum())
    means: dict[_Averaged, float | None] = {"predicted": predicted, "kl": kl, "measured": measured}
    for key, value in means.items():
        if value is None:
            reasons[key] = _reason(key, maps, counting.configuration)
    return PlanFigures(plan.budget, **costing, predicted=predicted, kl=kl, measured=measured, reasons=reasons)


def _cost_figures(maps: PlanMaps, counting: Counting, reasons: dict[FigureKey, str]) -> dict[str, float]:
    """Return the figures that follow from sizes; where they are unknown, the reason."""
    shape = None if counting.summary is None else counting.summary.shape
    reason = "The sizes of this model are unknown; open it again on the Model page."
    if shape is not None:
        try:
            row = costs(
                shape,
                counting.method,
                maps.plan,
                context=CONTEXT,
                quantization=counting.quantization,
                rotations=(counting.rotation.stream_mode,),
                fold_norms=None if counting.rotation.is_identity else counting.rotation.fold_norms,
            ).rows[-1]  # after the dense model's
        except WinaError as error:
            reason = str(error)
        else:
            return {
                "gated": row.gated_sparsity,
                "net": row.net_sparsity,
                "gated_saving": row.gated_flops_saving,
                "net_saving": row.net_flops_saving,
                "read": row.net_bytes,
                "held": row.bytes_held,
                "bits_read": row.bits_read,
                "bits_held": row.bits_held,
            }
    reasons |= dict.fromkeys(_SIZES, reason)
    return {}


def _reason(key: _Averaged, maps: PlanMaps, configuration: str) -> str:
    if maps.obstacle and key != "measured":
        return maps.obstacle
    missing = np.isnan(maps.table(key))
    if missing.all() or key == "measured":
        return remark(key, maps, configuration)
    layer, column = (int(index[0]) for index in np.nonzero(missing))
    return (
        "No curve reaches the targets of {cells}, as {projection} of layer {layer} with {target:.1f} %; lower them."
    ).format(
        cells=plural(int(missing.sum()), "cells", "cell"),
        projection=maps.plan.layout.projections[column],
        layer=layer,
        target=100 * maps.plan.sparsity[layer][column],
    )
