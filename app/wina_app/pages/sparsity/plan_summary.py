"""What a plan comes to, in a few numbers, worked out while it is edited, without asking store or engine."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import numpy as np

from wina_app.pages.sparsity.heatmap_tables import PlanMaps, remark, weighted_mean
from wina_app.style.translation import tr
from wina_core.accounting.cost import costs
from wina_core.errors import WinaError
from wina_core.records import ModelSummary
from wina_core.specs import MethodSpec, Quantization, RotationSpec

FigureKey = Literal["budget", "counted", "full", "counted_saving", "full_saving", "predicted", "kl", "measured"]
CONTEXT = 2048
"""Positions that the token attends to whose operations are counted."""


@dataclass(frozen=True)
class PlanFigures:
    """The read-outs; None where one is unknown, with the reason in `reasons`."""

    budget: float
    counted: float | None = None
    """Fraction of the gated weights that is not read, as the method counts it."""
    full: float | None = None
    """The same with shortcuts, norms and calibrated values counted as weights that are read."""
    counted_saving: float | None = None
    """Saved fraction of the dense model's operations, as the paper counts them."""
    full_saving: float | None = None
    """Saved fraction of all operations."""
    predicted: float | None = None
    """Mean predicted relative error, weighted like the budget."""
    kl: float | None = None
    """Sum of the KL divergences that the cells cause alone, in nats per token."""
    measured: float | None = None
    """Measured sparsity of the whole model, weighted like the budget."""
    reasons: dict[FigureKey, str] = field(default_factory=dict)

    def readouts(self) -> Iterator[tuple[FigureKey, float | None]]:
        """Every read-out in the order in which they are shown."""
        for key in ("budget", "counted", "full", "counted_saving", "full_saving", "predicted", "kl", "measured"):
            yield key, getattr(self, key)


@dataclass(frozen=True)
class Counting:
    """What operations are counted of."""

    method: MethodSpec
    rotation: RotationSpec
    quantization: Quantization
    summary: ModelSummary | None


def plan_figures(maps: PlanMaps, counting: Counting, arm: str) -> PlanFigures:
    """All read-outs of a plan; `arm` names method and rotation where a figure is unknown."""
    plan, layout = maps.plan, maps.plan.layout
    reasons: dict[FigureKey, str] = {}
    costing = _counted(maps, counting, reasons)
    mean = partial(weighted_mean, layout)
    predicted, measured = mean(maps.table("predicted")), mean(maps.table("measured"))
    divergence = maps.table("kl")
    kl = None if np.isnan(divergence).any() else float(divergence.sum())
    for key, value in (("predicted", predicted), ("kl", kl), ("measured", measured)):
        if value is None:
            reasons[key] = _reason(key, maps, arm)
    return PlanFigures(plan.budget, *costing, predicted=predicted, kl=kl, measured=measured, reasons=reasons)


def _counted(
    maps: PlanMaps, counting: Counting, reasons: dict[FigureKey, str]
) -> tuple[float | None, float | None, float | None, float | None]:
    shape = None if counting.summary is None else counting.summary.shape
    reason = tr("The sizes of this model are not known here yet; open it again on the Model page.")
    if shape is not None:
        try:
            row = costs(
                shape,
                counting.method,
                maps.plan,
                context=CONTEXT,
                quantization=counting.quantization,
                rotations=(counting.rotation.mode,),
            ).rows[-1]
        except WinaError as error:
            reason = str(error)
        else:
            return row.counted_sparsity, row.full_sparsity, row.counted_flops_saving, row.full_flops_saving
    reasons |= dict.fromkeys(("counted", "full", "counted_saving", "full_saving"), reason)
    return None, None, None, None


def _reason(key: Literal["predicted", "kl", "measured"], maps: PlanMaps, arm: str) -> str:
    if maps.obstacle and key != "measured":
        return maps.obstacle
    missing = np.isnan(maps.table(key))
    if missing.all() or key == "measured":
        return remark(key, maps, arm)
    layer, column = (int(index[0]) for index in np.nonzero(missing))
    return tr(
        "No curve reaches the targets of {cells}, as {projection} of layer {layer} with {target:.1f} %; lower them.",
        cells=tr("{n} cells", "{n} cell", int(missing.sum())),
        projection=maps.plan.layout.projections[column],
        layer=layer,
        target=100 * maps.plan.sparsity[layer][column],
    )
