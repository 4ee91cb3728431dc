"""Numbers of the experts of a Mixture of Experts, which the heatmap shows below their layer's row."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from wina_app.heatmap.geometry import Detail, RowDetails
from wina_app.pages.sparsity.plan_maps import PlanMaps
from wina_app.pages.sparsity.stored_data import ExpertNumbers
from wina_app.plots.colour_maps import percent_with_decimal
from wina_app.shared.heatmap_tables import MapKey, threshold_text
from wina_core.model_info.families import EXPERT_PROJECTIONS
from wina_core.records import (
    EXPERT_SHARE,
    EXPERT_SPARSITY,
    EXPERT_THRESHOLD,
    EXPERT_TOKENS,
    LEAST_EXPERT_TOKENS,
    ModelShape,
)
from wina_core.specs import Selection

_HEADS = "layer", "expert", "projection", "target", "measured", "threshold", "share_of_tokens", "calibration_tokens"


@dataclass(frozen=True, eq=False)
class ExpertRows:
    """The experts of every layer under one plan: its targets, and what is stored of each expert."""

    shape: ModelShape
    maps: PlanMaps
    selection: Selection
    measured: ExpertNumbers
    """Numbers of the latest run with this plan."""
    calibrated: ExpertNumbers
    """Numbers of the latest calibration."""

    @property
    def counts(self) -> tuple[int, ...]:
        """Experts of each layer; 0 for one with a dense MLP."""
        return self.shape.experts or (0,) * self.shape.layout.layers

    @property
    def widest(self) -> str:
        return _with_share(max(self.counts, default=0), 1.0)

    def details(self, key: MapKey, layer: int) -> RowDetails:
        """Return the lines below a layer's row in one of the maps."""
        projections = self.shape.layout.projections
        values = np.full((self.counts[layer], len(projections)), math.nan)
        for column in self._columns:
            values[:, column] = self._values(key, layer, column)
        names = tuple(self._name(layer, expert) for expert in range(self.counts[layer]))
        shares = any(name != _with_share(expert, math.nan) for expert, name in enumerate(names))
        tip = "Share of the tokens that read the expert" if shares else ""
        return RowDetails(names, values, self._columns, self._notes(layer) if key == "threshold" else (), tip)

    def text(self, detail: Detail) -> str:
        """Return all known numbers of one expert's matrix."""
        layer, expert, column = detail
        projection = self.shape.layout.projections[column]
        target = float(self.maps.table("target")[layer, column])
        lines = [
            f"layer {layer} · {projection} · expert {expert}",
            f"target: {_percent(target)}, its layer's, which all experts have",
            f"measured: {_percent(self._measured(EXPERT_SPARSITY, detail))}",
        ]
        if self.selection != "topk":
            value = self._measured(EXPERT_THRESHOLD, detail)
            text = "unknown" if math.isnan(value) else threshold_text(value)
            lines.append(f"threshold in that run: {text}")
        share = self._measured(EXPERT_SHARE, detail)
        if not math.isnan(share):
            alike = self.shape.active_experts / self.counts[layer]
            lines.append(f"read by {_percent(share)} of the tokens ({_percent(alike)} if routing were uniform)")
        tokens = self.calibrated.get((EXPERT_TOKENS, layer, projection), {}).get(expert)
        if tokens is not None:
            lines.append(_calibrated_text(tokens))
        return "\n".join(lines)

    def cell_text(self, layer: int, column: int) -> list[str]:
        """Return the lines of a cell that holds the matrices of several experts; nothing for another."""
        experts, projection = self.counts[layer], self.shape.layout.projections[column]
        if not experts or projection not in EXPERT_PROJECTIONS:
            return []
        read = self.shape.active_experts
        lines = [f"{experts} experts, {read} read by each token, each gated to this target"]
        measured = list(self.measured.get((EXPERT_SPARSITY, layer, projection), {}).values())
        if measured:
            low, high = _percent(min(measured)), _percent(max(measured))
            lines.append(f"experts measured: {low} to {high}")
        tokens = self.calibrated.get((EXPERT_TOKENS, layer, projection), {}).values()
        if few := sum(count < LEAST_EXPERT_TOKENS for count in tokens):
            lines.append(f"{few} of {experts} experts: layer's threshold (fewer than {LEAST_EXPERT_TOKENS} tokens)")
        return [*lines, "E shows its experts"]

    def table(self, layers: Iterable[int]) -> str:
        """Return everything known of these layers' experts as tab-separated text, with headings."""
        lines = ["\t".join(_HEADS)]
        for layer in layers:
            for expert in range(self.counts[layer]):
                for column in sorted(self._columns):
                    detail = Detail(layer, expert, column)
                    projection = self.shape.layout.projections[column]
                    numbers = (
                        float(self.maps.table("target")[layer, column]),
                        *(
                            self._measured(metric, detail)
                            for metric in (EXPERT_SPARSITY, EXPERT_THRESHOLD, EXPERT_SHARE)
                        ),
                        self.calibrated.get((EXPERT_TOKENS, layer, projection), {}).get(expert, math.nan),
                    )
                    written = ("" if math.isnan(number) else f"{number:.12g}" for number in numbers)
                    lines.append("\t".join((str(layer), str(expert), projection, *written)))
        return "\n".join(lines)

    @cached_property
    def _columns(self) -> frozenset[int]:
        projections = self.shape.layout.projections
        return frozenset(column for column, name in enumerate(projections) if name in EXPERT_PROJECTIONS)

    def _values(self, key: MapKey, layer: int, column: int) -> list[float] | float:
        details = [Detail(layer, expert, column) for expert in range(self.counts[layer])]
        match key:
            case "target" | "change" | "bits":  # one for all experts of a layer
                return float(self.maps.table(key)[layer, column])
            case "measured":
                return [self._measured(EXPERT_SPARSITY, detail) for detail in details]
            case "difference":
                target = float(self.maps.table("target")[layer, column])
                return [self._measured(EXPERT_SPARSITY, detail) - target for detail in details]
            case "threshold":
                return [self._measured(EXPERT_THRESHOLD, detail) for detail in details]
            case _:  # of all experts of a layer together
                return math.nan

    def _measured(self, metric: str, detail: Detail) -> float:
        layer, expert, column = detail
        return self.measured.get((metric, layer, self.shape.layout.projections[column]), {}).get(expert, math.nan)

    def _name(self, layer: int, expert: int) -> str:
        shares = (self._measured(EXPERT_SHARE, Detail(layer, expert, column)) for column in self._columns)
        share = next((value for value in shares if not math.isnan(value)), math.nan)
        return _with_share(expert, share)

    def _notes(self, layer: int) -> tuple[tuple[str, ...], ...]:
        """Return a mark for each expert that takes its layer's thresholds."""
        tokens = [self.calibrated.get((EXPERT_TOKENS, layer, name), {}) for name in self.shape.layout.projections]
        return tuple(
            tuple(
                "shared" if counts.get(expert, LEAST_EXPERT_TOKENS) < LEAST_EXPERT_TOKENS else "" for counts in tokens
            )
            for expert in range(self.counts[layer])
        )


def _with_share(expert: int, share: float) -> str:
    name = f"expert {expert}"
    return name if math.isnan(share) else f"{name} · {_percent(share)}"


def _calibrated_text(tokens: float) -> str:
    if tokens < LEAST_EXPERT_TOKENS:
        return f"calibrated on {tokens:,.0f} tokens, fewer than {LEAST_EXPERT_TOKENS}: it takes its layer's threshold"
    return f"calibrated on {tokens:,.0f} tokens: it has a threshold of its own"


def _percent(fraction: float) -> str:
    return "unknown" if math.isnan(fraction) else f"{percent_with_decimal(fraction)} %"
