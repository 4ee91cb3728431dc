"""Corrections of a gated model without a change of weights: of thresholds, so that every matrix drops its target in the
gated model and not only in the dense one, and of biases.

A bias can add the mean of what dropped inputs would have added to an output, at next to no cost. Biases are tuned for
the least divergence from the dense model.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from wina_core.compute import pausable_clock
from wina_core.compute.calibration.result import Calibration
from wina_core.compute.gating.gates import Gates, attach
from wina_core.compute.gating.linear import GatedForward, MaskGroup
from wina_core.compute.hooks import hooked
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.logits import divergences, scored_log_probabilities
from wina_core.compute.models.passage import Passage, PassCheckpoint, in_batches
from wina_core.compute.models.quantized_linear import weight_like
from wina_core.compute.models.view import ModelView, Projection
from wina_core.compute.reporter import Reporter
from wina_core.compute.stages import SAVING_SECONDS, Stages, adam_state, restore_adam
from wina_core.errors import WinaError
from wina_core.specs import MethodSpec
from wina_core.specs.gates import CORRECTION_PASSES, CORRECTION_TOKENS, TUNING_STEPS
from wina_core.specs.plans import Cell, ResolvedPlan, block_means

_CLOSE = 1e-3
"""Largest miss of a target that ends the passes."""
_HIGHEST = 0.9995
"""Highest fraction at which a threshold is read."""
_STEEPEST = 2.0
"""A secant's slope lies between this and its inverse."""
_TRUSTED = 5e-3
"""Secants over a shorter run have slope 1: there, changes of earlier matrices outweigh the matrix's own."""


def correct_fractions(
    loaded: LoadedModel,
    method: MethodSpec,
    plan: ResolvedPlan,
    calibration: Calibration,
    tokens: Tensor,
    reporter: Reporter,
    stages: Stages | None = None,
) -> ResolvedPlan:
    """Return the plan with the fractions whose thresholds in the dense model drop the targets in the gated one.

    Calibrated thresholds drop their fraction of the dense model's inputs. A gated model's inputs differ, because its
    earlier matrices changed. Secant steps, for all matrices at once, move each fraction until the measured sparsity,
    minus any low-rank part, is the target on `tokens` [rows, sequence], with every token gated. The pass with the
    least mean miss wins. An interrupted correction continues from its `stages`.

    Raises WinaError as `attach` does, and Cancelled between batches.
    """
    layout = loaded.view.layout
    stages = stages or Stages()
    targets = torch.tensor(plan.targets.sparsity, dtype=torch.float64)
    # Every n-th row: neighbouring rows of a text are alike.
    tokens = tokens[:: -(-tokens.numel() // CORRECTION_TOKENS)]
    now = closest = torch.tensor(plan.masks, dtype=torch.float64)
    calibrated = torch.tensor([method.selection_of(name) != "topk" for name in layout.projections])
    gated, least = (now > 0) & calibrated, float("inf")
    before: tuple[Tensor, Tensor] | None = None
    reporter.stage("correction of thresholds")
    for number in range(1, CORRECTION_PASSES + 1):
        reporter.progress(number - 1, CORRECTION_PASSES, "passes")
        stage = stages.read(f"sparsity {number}")
        if stage is not None and stage.tensors["found"].shape == targets.shape:
            measured = stage.tensors["found"]
        else:
            checkpoint = PassCheckpoint(stages, f"pass {number}")
            measured = _measured(loaded, method, _with_fractions(plan, now), calibration, tokens, reporter, checkpoint)
            stages.write(f"sparsity {number}", {"found": measured})
        misses = ((targets - measured) * calibrated).abs()
        if float(misses.mean()) < least:
            closest, least = now, float(misses.mean())
        if float(misses.max()) <= _CLOSE:
            break
        slope = torch.ones_like(now)
        if before is not None:
            run = now - before[0]
            secant = torch.where(run == 0, 1, (measured - before[1]) / run).clamp(1 / _STEEPEST, _STEEPEST)
            slope = torch.where(run.abs() < _TRUSTED, slope, secant)
        before = now, measured
        now = torch.where(gated, (now + (targets - measured) / slope).clamp(0, _HIGHEST), now)
    return _with_fractions(plan, closest)


@torch.no_grad()
def _measured(
    loaded: LoadedModel,
    method: MethodSpec,
    plan: ResolvedPlan,
    calibration: Calibration,
    tokens: Tensor,
    reporter: Reporter,
    checkpoint: PassCheckpoint,
) -> Tensor:
    """Measure the gated model's sparsity, float64 [layers, projections]: 0 where nothing is gated, and the mean of
    matrices that share a mask."""
    batches = in_batches(tokens)
    names = loaded.view.projections
    sparsities = torch.zeros(len(loaded.view.layers), len(names), dtype=torch.float64)
    with attach(loaded, method, plan, calibration) as gates:
        Passage(loaded.view, batches, [gates]).run(reporter, checkpoint)
        for record in gates.measured():
            sparsities[record.layer, names.index(record.projection)] = record.value
    if method.masks == "shared":  # their low-rank parts differ, but not their masks
        sparsities = torch.tensor(
            block_means(tuple(map(tuple, sparsities.tolist())), loaded.view.layout), dtype=torch.float64
        )
    return sparsities


def _with_fractions(plan: ResolvedPlan, fractions: Tensor) -> ResolvedPlan:
    return replace(plan, fractions=tuple(map(tuple, fractions.tolist())))


RATE = 0.06
"""First step of Adam, as a share of what gating changes in an output, times the square of the sparsity; it falls to 0
with a cosine. Where little is dropped, little of the change is constant, and long steps only add noise."""
_BETAS = 0.9, 0.95
_HELD_OUT = 4
"""Rows, at most, that judge the biases and do not move them."""
_STATE = "tuning"

Biases = Mapping[Cell, Tensor]
"""The bias of each cell, float32 [m]."""


def tuned_calibration(
    loaded: LoadedModel,
    method: MethodSpec,
    plan: ResolvedPlan,
    calibration: Calibration | None,
    tokens: Tensor,
    reporter: Reporter,
    stages: Stages | None = None,
) -> Calibration:
    """Return the calibration with biases that are tuned for a plan on `tokens` [rows, sequence], two rows at least.

    Adam starts from 0 and lowers the mean KL divergence from the dense model, in nats per token, with every token
    gated. A few rows are left out; where the result is no better on them, the biases are 0. An interrupted descent
    continues from its `stages`.

    Matrices of experts have no bias. Raises WinaError for a model whose weights are read from files, for one row of
    text, and for logits that are not numbers; Cancelled between rows.
    """
    check_tuning(loaded.view, len(tokens))
    calibration = calibration or Calibration.empty(loaded.view.layout, 0)
    # Tensors that are made in inference mode, which a caller may be in, take no part in gradients.
    with torch.inference_mode(False):
        return _tuned(_GatedModel(loaded, method, plan, calibration, reporter), tokens, stages)


def check_tuning(view: ModelView, rows: int) -> None:
    """Raise WinaError for a model whose biases cannot be tuned, and for too few rows of text."""
    if rows < 2:
        raise WinaError("Tuned biases need two rows of calibration text; choose more tokens, or no correction.")
    if view.mapped is not None:
        raise WinaError(
            "This model's weights are read from files for each text, but tuned biases need them in memory; free some, "
            "or choose no correction."
        )


def tuned_biases_of(view: ModelView, path: Path) -> Calibration:
    """Load a calibration with tuned biases; raise WinaError if they do not fit the model."""
    calibration = Calibration.load(path)
    sizes = {
        (layer.index, column): layer.projections[name].shape[0]
        for layer in view.layers
        for column, name in enumerate(view.layout.projections)
        if name in layer.projections
    }
    if calibration.layout != view.layout or any(
        sizes.get(cell) != len(bias) for cell, bias in calibration.tuned.items()
    ):
        raise WinaError(f"The tuned biases {path} are those of another model; delete them.")
    return calibration


def _tuned(model: _GatedModel, tokens: Tensor, stages: Stages | None) -> Calibration:
    """Return the model's calibration with biases tuned on `tokens`, 0 where they do no good."""
    reporter, calibration = model.reporter, model.calibration
    # With a stride of 1 no row would be left to train on.
    stride = max(-(-len(tokens) // _HELD_OUT), 2)
    held_out, training = tokens[::stride], tokens[[row for row in range(len(tokens)) if row % stride]]
    biases = model.zeros()
    if not biases:
        return calibration
    before = model.mean_divergence(biases, held_out)
    tuned = _descend(model, biases, model.output_changes(training[:1]), training, stages or Stages(reporter))
    after = model.mean_divergence(tuned, held_out)
    if after < before:
        reporter.log("info", f"Tuned biases lower the KL on held-out rows from {before:.4g} to {after:.4g}.")
        biases = tuned
    else:
        reporter.log(
            "warning",
            f"Tuned biases do not lower the KL on held-out rows ({before:.4g} to {after:.4g}); biases of 0 are used.",
        )
    return replace(calibration, tuned={cell: bias.cpu() for cell, bias in biases.items()})


@dataclass(frozen=True)
class _GatedModel:
    loaded: LoadedModel
    method: MethodSpec
    plan: ResolvedPlan
    calibration: Calibration
    reporter: Reporter

    def gates(self, biases: Biases) -> Gates:
        calibration = replace(self.calibration, tuned=dict(biases))
        return attach(self.loaded, self.method, self.plan, calibration)

    def zeros(self) -> dict[Cell, Tensor]:
        """Return a bias of 0 for each cell that drops inputs."""
        with self.gates({}) as gates:
            return {
                cell: torch.zeros(projection.shape[0], device=weight_like(forward.linear).device)
                for forward in gates.forwards
                for cell, group, projection in self._tunable(forward)
                if group.rule is not None and not group.rule.select.keeps_all(forward.linear.in_features)
            }

    def _tunable(self, forward: GatedForward) -> Iterator[tuple[Cell, MaskGroup, Projection]]:
        """Yield each matrix of a gated layer that gets a bias. Those of experts get none, nor does up under CATS, whose
        outputs are skipped."""
        layers = {layer.index: layer for layer in self.loaded.view.layers}
        for group in forward.groups:
            for name in group.names:
                projection = layers[group.layer].projections.get(name)
                if projection and projection.linear is forward.linear:
                    yield (group.layer, self.plan.targets.layout.projections.index(name)), group, projection

    @torch.no_grad()
    def output_changes(self, row: Tensor) -> dict[Cell, float]:
        """Return the mean absolute change of each matrix's outputs by its gate alone, on the dense model's inputs of a
        row [1, sequence]."""
        changes: dict[Cell, float] = {}

        def measure(forward: GatedForward, args: tuple[Tensor, ...], y: Tensor) -> None:
            change = (forward(*args) - y).abs()
            for cell, _, projection in self._tunable(forward):
                changes[cell] = float(change[..., projection.rows].mean(dtype=torch.float32))

        with self.gates({}) as gates, gates.removed():
            hooks = [
                forward.linear.register_forward_hook(lambda _, args, y, forward=forward: measure(forward, args, y))
                for forward in gates.forwards
            ]
            with hooked(hooks):
                scored_log_probabilities(self.loaded.view, row)
        return changes

    def divergence(self, biases: Biases, row: Tensor) -> Tensor:
        """Return the mean KL divergence in nats per token on a row [1, sequence], differentiable in the biases."""
        self.reporter.check()
        with torch.no_grad():
            dense = scored_log_probabilities(self.loaded.view, row)
        with self.gates(biases):
            value = divergences(dense, scored_log_probabilities(self.loaded.view, row)).mean()
        if not math.isfinite(value.detach()):
            raise WinaError("The gated model's logits are not numbers; choose less sparsity or another dtype.")
        return value

    @torch.no_grad()
    def mean_divergence(self, biases: Biases, rows: Tensor) -> float:
        """Return the mean divergence on rows [rows, sequence]."""
        return sum(float(self.divergence(biases, row)) for row in rows.split(1)) / len(rows)


def _descend(
    model: _GatedModel, start: Biases, changes: Mapping[Cell, float], tokens: Tensor, stages: Stages
) -> dict[Cell, Tensor]:
    """Lower the divergence on tokens [rows, sequence] by Adam and return the biases; steps are in proportion to the
    `changes` of the outputs by gating."""
    biases = {cell: bias.clone().requires_grad_() for cell, bias in start.items()}
    parameters = list(biases.values())
    rate = RATE * model.plan.targets.budget**2
    rates = [{"params": [bias], "lr": rate * changes[cell]} for cell, bias in biases.items()]
    optimizer = torch.optim.Adam(rates, betas=_BETAS)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, TUNING_STEPS)
    generator = torch.Generator().manual_seed(0)
    rounds = -(-TUNING_STEPS // len(tokens))
    # Every row once before any row twice.
    order = torch.cat([torch.randperm(len(tokens), generator=generator) for _ in range(rounds)])
    if (stage := stages.read(_STATE)) is not None:
        try:
            restore_adam(stage, parameters, optimizer, schedule)
        except (KeyError, TypeError, ValueError, RuntimeError):
            model.reporter.log("warning", "Tuning begins anew, since its kept state does not fit.")
            stages.remove([_STATE])
            return _descend(model, start, changes, tokens, stages)
    saved = pausable_clock.now()
    model.reporter.stage("tuning of biases")
    for step in range(schedule.last_epoch, TUNING_STEPS):
        optimizer.zero_grad()
        with torch.enable_grad():
            value = model.divergence(biases, tokens[order[step]][None])
            value.backward()
        optimizer.step()
        schedule.step()
        model.reporter.progress(step + 1, TUNING_STEPS, "steps", f"KL {float(value.detach()):.3g}")
        if pausable_clock.now() - saved > SAVING_SECONDS:
            stages.write(_STATE, adam_state(parameters, optimizer), schedule=schedule.state_dict())
            saved = pausable_clock.now()
    return {cell: bias.detach() for cell, bias in biases.items()}
