"""Figures of a plan, computed while it is edited."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, get_args

import numpy as np

from wina_app.pages.sparsity.heatmap_tables import PlanMaps, remark, weighted_mean
from wina_app.style.translation import tr
from wina_core.errors import WinaError
from wina_core.model_info.cost.cost import costs
from wina_core.records import ModelSummary
from wina_core.specs import MethodSpec, Quantization, RotationSpec

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


def plan_figures(maps: PlanMaps, counting: Counting, configuration: str) -> PlanFigures:
    """Return all figures of a plan; `configuration` names the configuration in reasons."""
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
            reasons[key] = _reason(key, maps, configuration)
    return PlanFigures(plan.budget, **costing, predicted=predicted, kl=kl, measured=measured, reasons=reasons)


def _cost_figures(maps: PlanMaps, counting: Counting, reasons: dict[FigureKey, str]) -> dict[str, float]:
    """Return the figures that follow from sizes; where they are unknown, the reason."""
    shape = None if counting.summary is None else counting.summary.shape
    reason = tr("The sizes of this model are unknown; open it again on the Model page.")
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
            ).rows[-1]
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
    return tr(
        "No curve reaches the targets of {cells}, as {projection} of layer {layer} with {target:.1f} %; lower them.",
        cells=tr("{n} cells", "{n} cell", int(missing.sum())),
        projection=maps.plan.layout.projections[column],
        layer=layer,
        target=100 * maps.plan.sparsity[layer][column],
    )
