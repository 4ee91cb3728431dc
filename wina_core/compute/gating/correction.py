"""Correction of thresholds: every matrix drops its target in the gated model, not only in the dense one."""

from __future__ import annotations

import torch
from torch import Tensor

from wina_core.compute.calibration.result import Calibration
from wina_core.compute.gating.gates import attach
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.passage import Passage, PassCheckpoint, in_batches
from wina_core.compute.reporter import Reporter
from wina_core.compute.stages import Stages
from wina_core.specs import MethodSpec
from wina_core.specs.gates import CORRECTION_PASSES, CORRECTION_TOKENS
from wina_core.specs.plans import PlanLayout, SparsityPlan, UniformSparsity
from wina_core.specs.targets import block_means, mask_plan, resolve_plan

_CLOSE = 1e-3
"""Largest miss of a target that ends the passes."""
_HIGHEST = 0.9995
"""Highest fraction at which a threshold is read."""
_STEEPEST = 2.0
"""A secant's slope lies between this and its inverse."""
_TRUSTED = 5e-3
"""Secants over a shorter run have slope 1: there, changes of earlier matrices outweigh the matrix's own."""


def correct_targets(
    loaded: LoadedModel,
    method: MethodSpec,
    plan: UniformSparsity | SparsityPlan,
    calibration: Calibration,
    tokens: Tensor,
    reporter: Reporter,
    stages: Stages | None = None,
) -> SparsityPlan:
    """Return the fractions of the dense model's scores whose thresholds drop the targets in the gated model.

    Calibrated thresholds drop their fraction of the dense model's inputs. A gated model's inputs differ, because its
    earlier matrices changed. Secant steps, for all matrices at once, move each fraction until the measured sparsity,
    minus any low-rank part, is the target on `tokens` [rows, sequence], with every token gated. The pass with the
    least mean miss wins. An interrupted correction continues from its `stages`.

    Raises WinaError as `attach` does, and Cancelled between batches.
    """
    layout = loaded.view.layout
    table, stages = resolve_plan(plan, layout, method), stages or Stages()
    targets = _tensor(table)
    tokens = tokens[:: -(-tokens.numel() // CORRECTION_TOKENS)]
    now = closest = _tensor(mask_plan(table, method))
    calibrated = torch.tensor([method.selection_of(name) != "topk" for name in layout.projections])
    gated, least = (now > 0) & calibrated, float("inf")
    before: tuple[Tensor, Tensor] | None = None
    reporter.stage("correction of thresholds")
    for number in range(1, CORRECTION_PASSES + 1):
        reporter.progress(number - 1, CORRECTION_PASSES, "passes")
        known = stages.read(f"sparsity {number}")
        if known is not None and known.tensors["found"].shape == targets.shape:
            found = known.tensors["found"]
        else:
            checkpoint = PassCheckpoint(stages, f"pass {number}")
            found = _measured(loaded, method, plan, calibration, _plan(layout, now), tokens, reporter, checkpoint)
            stages.write(f"sparsity {number}", {"found": found})
        misses = ((targets - found) * calibrated).abs()
        if float(misses.mean()) < least:
            closest, least = now, float(misses.mean())
        if float(misses.max()) <= _CLOSE:
            break
        slope = torch.ones_like(now)
        if before is not None:
            run = now - before[0]
            secant = torch.where(run == 0, 1, (found - before[1]) / run).clamp(1 / _STEEPEST, _STEEPEST)
            slope = torch.where(run.abs() < _TRUSTED, slope, secant)
        before = now, found
        now = torch.where(gated, (now + (targets - found) / slope).clamp(0, _HIGHEST), now)
    return _plan(layout, closest)


@torch.no_grad()
def _measured(
    loaded: LoadedModel,
    method: MethodSpec,
    plan: UniformSparsity | SparsityPlan,
    calibration: Calibration,
    corrected: SparsityPlan,
    tokens: Tensor,
    reporter: Reporter,
    checkpoint: PassCheckpoint,
) -> Tensor:
    """Measure the gated model's sparsity, float64 [layers, projections]: 0 where nothing is gated, and the mean of
    matrices that share a mask."""
    batches = in_batches(tokens)
    names = loaded.view.projections
    found = torch.zeros(len(loaded.view.layers), len(names), dtype=torch.float64)
    with attach(loaded, method, plan, calibration, corrected=corrected) as gates:
        Passage(loaded.view, batches, [gates]).run(reporter, checkpoint)
        for each in gates.measured():
            found[each.layer, names.index(each.projection)] = each.value
    if method.masks == "shared":  # their low-rank parts differ, but not their masks
        found = torch.tensor(block_means(tuple(map(tuple, found.tolist())), loaded.view.layout), dtype=torch.float64)
    return found


def _tensor(plan: SparsityPlan) -> Tensor:
    return torch.tensor(plan.sparsity, dtype=torch.float64)


def _plan(layout: PlanLayout, table: Tensor) -> SparsityPlan:
    return SparsityPlan(layout=layout, sparsity=tuple(map(tuple, table.tolist())))
