"""Measured sparsity of each expert of a Mixture of Experts, and the share of tokens that read it."""

from collections.abc import Iterator, Mapping, Sequence

from torch import nn

from wina_core.compute.gating.linear import GatedForward, MaskGroup
from wina_core.compute.models.view import LayerView
from wina_core.compute.scoring.selections import ThresholdSelection
from wina_core.records import EXPERT_SHARE, EXPERT_SPARSITY, EXPERT_THRESHOLD, ExpertRecord


def expert_records(layers: Sequence[LayerView], forwards: Sequence[GatedForward]) -> tuple[ExpertRecord, ...]:
    """Return EXPERT_METRICS of every gated projection of the experts of `layers` that have seen a token.

    Shares are of the counted tokens, of which each reads `LayerView.active` experts. An expert that none of them reads
    has a share of 0 and no sparsity.
    """
    by_linear = {forward.linear: forward.groups for forward in forwards}
    return tuple(
        record
        for layer in layers
        for name in layer.names[len(layer.projections) :]
        for record in _of_projection(layer, name, [_group(expert, name, by_linear) for expert in layer.experts])
    )


def _group(expert: LayerView, name: str, groups: Mapping[nn.Linear, Sequence[MaskGroup]]) -> MaskGroup | None:
    """Return the mask group of a projection, which may be that of another matrix's input; None for none."""
    linears = {each.linear: None for each in expert.projections.values()}
    return next((group for linear in linears for group in groups.get(linear, ()) if name in group.names), None)


def _of_projection(layer: LayerView, name: str, groups: Sequence[MaskGroup | None]) -> Iterator[ExpertRecord]:
    """Yield the records of one projection from the mask group of each expert."""
    counted = [(0.0, 0) if group is None else group.sparsity() for group in groups]
    total = sum(seen for _, seen in counted)
    if not total:
        return
    values: dict[str, list[float | None]] = {
        EXPERT_SHARE: [layer.active * seen / total for _, seen in counted],
        EXPERT_SPARSITY: [sparsity if seen else None for sparsity, seen in counted],
        EXPERT_THRESHOLD: [_threshold(group) for group in groups],
    }
    for metric, each in values.items():
        if any(value is not None for value in each):
            yield ExpertRecord(layer=layer.index, projection=name, metric=metric, values=tuple(each))


def _threshold(group: MaskGroup | None) -> float | None:
    """Return the calibrated threshold of a gate; None for one that needs none."""
    select = None if group is None or group.rule is None else group.rule.select
    return select.threshold if isinstance(select, ThresholdSelection) else None
