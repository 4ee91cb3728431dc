"""Decisions of methods on one matrix's input over a prompt's tokens, by the same rules that gate a model; and the
measured sparsity of each expert of a Mixture of Experts, with the share of tokens that read it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from wina_core.compute import pausable_clock
from wina_core.compute.calibration.calibrate import loss_curves
from wina_core.compute.gating.linear import GatedForward, MaskGroup
from wina_core.compute.gating.rules import Rule, rules
from wina_core.compute.models.finite import check_numbers
from wina_core.compute.models.folded_norms import folded_norms, kept_column_norms
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.passage import stopping_at
from wina_core.compute.models.view import LayerView, ModelView, Projection
from wina_core.compute.reporter import Reporter
from wina_core.compute.scoring import GateActivation, LowRank, ThresholdSelection, low_ranks
from wina_core.errors import WinaError
from wina_core.records import EXPERT_SHARE, EXPERT_SPARSITY, EXPERT_THRESHOLD, ExpertRecord
from wina_core.records.gates import GateDecision, GateRecord, GateTarget, PackedArray, Scored
from wina_core.specs import MethodSpec
from wina_core.specs.methods import get_method
from wina_core.specs.plans import ResolvedPlan, SparsityPlan

if TYPE_CHECKING:
    from wina_core.compute.calibration.result import Calibration


MOST_NUMBERS = 1 << 18
"""Tokens times inputs of a record, at most (23 tokens of 11,008 inputs): a MB or two, so that a window follows without
a stall."""


def inspect_gate(
    loaded: LoadedModel,
    cell: tuple[int, str],
    prompt: str,
    targets: Sequence[GateTarget],
    tokens: int,
    calibrated: Callable[[MethodSpec], Calibration | None],
    reporter: Reporter,
) -> GateRecord:
    """Return the input of the cell (layer, projection) on the first tokens of a prompt, and what each method keeps of
    it.

    The model runs dense up to the cell, so all methods decide on the same numbers. At most `tokens` tokens and
    `MOST_NUMBERS` numbers are taken. `calibrated` returns the calibration of a method that needs one. Raises WinaError
    for an unknown cell, an empty prompt, an input that is not finite, and a method that does not gate this cell.
    """
    start = pausable_clock.now()
    layer, projection = _projection_at(loaded.view, cell)
    for target in targets:
        _check(target, projection.name)
    ids = loaded.tokenizer(prompt)["input_ids"]
    if not ids:
        raise WinaError("The prompt has no tokens; type some text.")
    inspected_ids = ids[: max(1, min(tokens, MOST_NUMBERS // projection.shape[1]))]
    reporter.stage("")
    reporter.progress(0, len(targets) + 1, "steps", f"{len(inspected_ids)} tokens up to layer {layer.index}")
    x, signal = _inputs_of(loaded, layer, projection, inspected_ids, targets)
    gates = []
    for done, target in enumerate(targets, start=1):
        reporter.check()
        reporter.stage("")  # again for each, since a calibration is a stage of its own
        reporter.progress(done, len(targets) + 1, "steps", target.method.label)
        gates.append(_decision(loaded.view, layer, projection, target, calibrated(_scored(target)), x, signal))
    return GateRecord(
        layer=layer.index,
        projection=projection.name,
        tokens=tuple(loaded.tokenizer.decode([one]) for one in inspected_ids),
        prompt_tokens=len(ids),
        inputs=_packed(x.abs()),
        norms=_packed(kept_column_norms(projection)),
        folded=folded_norms(layer, projection.name) is not None,
        gates=tuple(gates),
        seconds=pausable_clock.now() - start,
    )


def _projection_at(view: ModelView, cell: tuple[int, str]) -> tuple[LayerView, Projection]:
    index, name = cell
    if not 0 <= index < len(view.layers):
        raise WinaError(f"The model has no layer {index}; choose one from 0 to {len(view.layers) - 1}.")
    layer = view.layers[index]
    if name in layer.names and name not in layer.projections:
        raise WinaError(
            f"Layer {index} has {len(layer.experts)} {name} matrices, one in each expert, and the inspector shows one "
            f"matrix; choose one of {', '.join(layer.projections)}."
        )
    if name not in layer.projections:
        raise WinaError(f'The model has no projection "{name}"; choose one of {", ".join(layer.projections)}.')
    return layer, layer.projections[name]


def _check(target: GateTarget, name: str) -> None:
    rule, label = get_method(target.method), target.method.label
    if not rule.gates(name):
        gated_names = ", ".join(rule.projections or ())
        raise WinaError(
            f"{label} leaves {name} dense; {f'inspect it on {gated_names}' if gated_names else 'leave it out'}."
        )
    if rule.by_gate_activation and name != "down":
        raise WinaError(f"{label} drops rows of {name} by the mask of down; inspect it on down.")
    if target.rho is not None and rule.default_rho is None:
        raise WinaError(f"{label} has no low-rank part; leave rho out.")


def _scored(target: GateTarget) -> MethodSpec:
    """Return the method whose scores are calibrated: with the target's own rho where they depend on it."""
    if target.rho is None or not get_method(target.method).scores_by_shares:
        return target.method
    return target.method.model_copy(update={"rho": target.rho})


def _inputs_of(
    loaded: LoadedModel, layer: LayerView, projection: Projection, ids: list[int], targets: Sequence[GateTarget]
) -> tuple[Tensor, Tensor | None]:
    """Return the matrix's input [tokens, n], and the MLP's activation likewise if a method scores that."""
    with ExitStack() as stack:
        signal = None
        if any(get_method(target.method).by_gate_activation for target in targets):
            signal = GateActivation(layer)
            stack.callback(signal.remove)
        with stopping_at(projection.linear) as reached, torch.no_grad():
            loaded.view.model(torch.tensor([ids], device=loaded.device), use_cache=False)
        ((x, *_), _), *_ = reached
        x = x.flatten(0, -2)
        check_numbers(x, f"inputs of {projection.name} in layer {layer.index}")
        return x, None if signal is None else signal.pop().flatten(0, -2)


def _decision(
    view: ModelView,
    layer: LayerView,
    projection: Projection,
    target: GateTarget,
    calibration: Calibration | None,
    x: Tensor,
    signal: Tensor | None,
) -> GateDecision:
    rule, added = _rule(view, layer, projection, target, calibration)
    signal = signal if get_method(target.method).by_gate_activation else None
    scored, source = _source(rule, x, signal)
    mask = rule.mask(x if signal is None else signal)
    gated, _ = rule.gate(x, None, signal)
    (error,), (energy,) = loss_curves(projection.weight, x, iter([(x - gated, added)]))
    quantiles = None
    if target.method.selection_of(projection.name) == "threshold" and calibration is not None:
        quantiles = calibration.quantiles[layer.index, view.projections.index(projection.name)]
    return GateDecision(
        asked=target,
        scored=scored,
        magnitudes=None if scored == "input" else _packed(source.abs()),
        scale=None if rule.scale is None else _packed(rule.scale),
        quantiles=None if quantiles is None else _packed(quantiles),
        mask=_packed(torch.ones_like(x, dtype=torch.bool) if mask is None else mask),
        rank=0 if added is None else len(added.right),
        output_error=float(error),
        kept_energy=float(energy),
    )


def _source(rule: Rule, x: Tensor, signal: Tensor | None) -> tuple[Scored, Tensor]:
    if signal is not None:
        return "activation", signal
    return ("input", x) if rule.centre is None else ("distance", x - rule.centre)


def _rule(
    view: ModelView, layer: LayerView, projection: Projection, target: GateTarget, calibration: Calibration | None
) -> tuple[Rule, LowRank | None]:
    """Return the cell's rule and low-rank part, by the functions that gate a whole model."""
    layout = view.layout
    cell = layer.index, layout.projections.index(projection.name)
    rho = None if target.rho is None else ((target.rho,) * len(layout.projections),) * layout.layers
    uniform = SparsityPlan.uniform(layout, 0.0)
    plan = uniform.model_copy(update={"rho": rho}).with_cells({cell: target.target}, provenance="inspected")
    resolved = ResolvedPlan.of(plan, target.method)
    # Of one layer: the column norms of all others would be computed for nothing.
    rule = rules(replace(view, layers=(layer,)), target.method, resolved, calibration)[0][projection.name]
    return rule, low_ranks(view, target.method, plan)[layer.index].get(projection.name)


def _packed(numbers: Tensor) -> PackedArray:
    """Pack in float32, exact for models of 16 bits, or in float64 for such a model."""
    plain = numbers.detach().cpu()
    wide = plain.dtype in (torch.bool, torch.float64)
    return PackedArray.of((plain if wide else plain.float()).numpy())


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
        for record in _projection_records(layer, name, [_group(expert, name, by_linear) for expert in layer.experts])
    )


def _group(expert: LayerView, name: str, groups: Mapping[nn.Linear, Sequence[MaskGroup]]) -> MaskGroup | None:
    """Return the mask group of a projection, which may be that of another matrix's input; None for none."""
    linears = {projection.linear: None for projection in expert.projections.values()}
    return next((group for linear in linears for group in groups.get(linear, ()) if name in group.names), None)


def _projection_records(layer: LayerView, name: str, groups: Sequence[MaskGroup | None]) -> Iterator[ExpertRecord]:
    counted = [(0.0, 0) if group is None else group.sparsity() for group in groups]
    total = sum(seen for _, seen in counted)
    if not total:
        return
    metrics: dict[str, list[float | None]] = {
        EXPERT_SHARE: [layer.active * seen / total for _, seen in counted],
        EXPERT_SPARSITY: [sparsity if seen else None for sparsity, seen in counted],
        EXPERT_THRESHOLD: [_threshold(group) for group in groups],
    }
    for metric, by_expert in metrics.items():
        if any(value is not None for value in by_expert):
            yield ExpertRecord(layer=layer.index, projection=name, metric=metric, values=tuple(by_expert))


def _threshold(group: MaskGroup | None) -> float | None:
    select = None if group is None or group.rule is None else group.rule.select
    return select.threshold if isinstance(select, ThresholdSelection) else None
