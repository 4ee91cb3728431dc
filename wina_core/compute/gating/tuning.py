"""Biases of a gated model's matrices, tuned for the least divergence from the dense model.

What dropped inputs would have added to an output has a mean, which a bias can hold at next to no cost. Calibrated means
of single inputs do not help a whole model of gated layers; descent on its divergence does. No weight changes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from wina_core.compute import pausable_clock
from wina_core.compute.calibration.result import Calibration
from wina_core.compute.gating.gates import Gates, attach
from wina_core.compute.gating.linear import GatedForward
from wina_core.compute.hooks import hooked
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.logits import divergences, scored_log_probabilities
from wina_core.compute.models.quantized_linear import weight_like
from wina_core.compute.reporter import Reporter
from wina_core.compute.stages import Stages
from wina_core.errors import WinaError
from wina_core.masks.targets import resolve_plan
from wina_core.specs import MethodSpec
from wina_core.specs.gates import TUNING_STEPS
from wina_core.specs.plans import Cell, SparsityPlan, UniformSparsity

RATE = 0.06
"""First step of Adam, as a share of what gating changes in an output, times the square of the sparsity; it falls to 0
with a cosine. Where little is dropped, little of the change is constant, and long steps only add noise."""
_BETAS = 0.9, 0.95
_HELD = 4
"""Rows, at most, on which the result is compared with no biases."""
_SAVING_SECONDS = 60.0
"""Time between two states on disk."""
_STATE = "tuning"
_MOMENTS = ("step", "exp_avg", "exp_avg_sq")

Biases = Mapping[Cell, Tensor]
"""The bias of each cell, float32 [m]."""


def tuned_calibration(
    loaded: LoadedModel,
    method: MethodSpec,
    plan: UniformSparsity | SparsityPlan,
    calibration: Calibration | None,
    corrected: SparsityPlan | None,
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
    view = loaded.view
    if view.mapped is not None:
        raise WinaError(
            "This model's weights are read from files for each text, and tuning needs them in memory; free memory, or "
            "choose another correction."
        )
    if len(tokens) < 2:
        raise WinaError("Tuning needs two rows of text; choose more tokens for the calibration.")
    calibration = calibration or Calibration.empty(view.layout, 0)
    model = _GatedModel(loaded, method, resolve_plan(plan, view.layout, method), calibration, corrected, reporter)
    apart = max(-(-len(tokens) // _HELD), 2)
    held, others = tokens[::apart], tokens[[row for row in range(len(tokens)) if row % apart]]
    found = model.zeros()
    if not found:
        return calibration
    before = model.mean_divergence(found, held)
    tuned = _descended(model, model.output_errors(held[:1]), others, stages or Stages(reporter))
    after = model.mean_divergence(tuned, held)
    reporter.log("info", f"Tuned biases change the KL from {before:.4g} to {after:.4g} on rows left out.")
    if after < before:
        found = tuned
    else:
        reporter.log("warning", "These biases are no better than none on this text; zeros are taken.")
    return replace(calibration, tuned={cell: bias.cpu() for cell, bias in found.items()})


@dataclass(frozen=True)
class _GatedModel:
    loaded: LoadedModel
    method: MethodSpec
    plan: SparsityPlan
    calibration: Calibration
    corrected: SparsityPlan | None
    reporter: Reporter

    def gates(self, biases: Biases) -> Gates:
        """Gate the model with these biases."""
        calibration = replace(self.calibration, tuned=dict(biases))
        return attach(self.loaded, self.method, self.plan, calibration, corrected=self.corrected)

    def zeros(self) -> dict[Cell, Tensor]:
        """Return a bias of 0 for each cell that drops inputs."""
        columns = {name: column for column, name in enumerate(self.plan.layout.projections)}
        layers = {layer.index: layer for layer in self.loaded.view.layers}
        found: dict[Cell, Tensor] = {}
        with self.gates({}) as gates:
            for linear, group in [(each.linear, group) for each in gates.forwards for group in each.groups]:
                if group.rule is None or group.rule.select.keeps_all(linear.in_features):
                    continue
                for name in group.names:
                    projection = layers[group.layer].projections.get(name)
                    if (
                        projection and projection.linear is linear
                    ):  # not an expert's, nor the rows that CATS drops of up
                        zeros = torch.zeros(projection.shape[0], device=weight_like(linear).device)
                        found[group.layer, columns[name]] = zeros
        return found

    @torch.no_grad()
    def output_errors(self, row: Tensor) -> dict[Cell, float]:
        """Return by how much gating changes the outputs of each matrix, the mean absolute value over all, where its
        inputs are those of the dense model on a row [1, sequence]."""
        columns = {name: column for column, name in enumerate(self.plan.layout.projections)}
        layers = {layer.index: layer for layer in self.loaded.view.layers}
        found: dict[Cell, float] = {}

        def measure(forward: GatedForward, args: tuple[Tensor, ...], y: Tensor) -> None:
            change = (forward(*args) - y).abs()
            for group in forward.groups:
                for name in group.names:
                    if projection := layers[group.layer].projections.get(name):
                        found[group.layer, columns[name]] = float(
                            change[..., projection.rows].mean(dtype=torch.float32)
                        )

        with self.gates({}) as gates, gates.removed():
            hooks = [
                each.linear.register_forward_hook(lambda _, args, y, each=each: measure(each, args, y))
                for each in gates.forwards
            ]
            with hooked(hooks):
                scored_log_probabilities(self.loaded.view, row)
        return found

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


def _descended(model: _GatedModel, errors: Mapping[Cell, float], tokens: Tensor, stages: Stages) -> dict[Cell, Tensor]:
    """Return biases of a small divergence on tokens [rows, sequence]; `errors` are those of the outputs."""
    biases = {cell: bias.requires_grad_() for cell, bias in model.zeros().items()}
    free = list(biases.values())
    rate = RATE * model.plan.budget**2
    rates = [{"params": [bias], "lr": rate * errors[cell]} for cell, bias in biases.items()]
    optimizer = torch.optim.Adam(rates, betas=_BETAS)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, TUNING_STEPS)
    generator = torch.Generator().manual_seed(0)
    rounds = -(-TUNING_STEPS // len(tokens))
    order = torch.cat([torch.randperm(len(tokens), generator=generator) for _ in range(rounds)])
    first, saved = _restored(stages, free, optimizer, schedule), pausable_clock.now()
    for step in range(first, TUNING_STEPS):
        optimizer.zero_grad()
        with torch.enable_grad():
            value = model.divergence(biases, tokens[order[step]][None])
            value.backward()
        optimizer.step()
        schedule.step()
        model.reporter.progress(step + 1, TUNING_STEPS, "steps", f"tuning biases, KL {float(value.detach()):.3g}")
        if pausable_clock.now() - saved > _SAVING_SECONDS:
            _save(stages, free, optimizer, schedule)
            saved = pausable_clock.now()
    return {cell: bias.detach() for cell, bias in biases.items()}


def _save(stages: Stages, free: list[Tensor], optimizer: torch.optim.Optimizer, schedule: Any) -> None:
    tensors = {f"free.{index}": each for index, each in enumerate(free)}
    for index, each in enumerate(free):
        tensors |= {f"{name}.{index}": optimizer.state[each][name] for name in _MOMENTS}
    stages.write(_STATE, tensors, schedule=schedule.state_dict())


def _restored(stages: Stages, free: list[Tensor], optimizer: torch.optim.Optimizer, schedule: Any) -> int:
    """Continue from the kept state, if there is one, and return the first step."""
    known = stages.read(_STATE)
    if known is None:
        return 0
    with torch.no_grad():
        for index, each in enumerate(free):
            each.copy_(known.tensors[f"free.{index}"])
            moments = {name: known.tensors[f"{name}.{index}"] for name in _MOMENTS}
            optimizer.state[each] = {name: moment.to(each.device) for name, moment in moments.items()}
    schedule.load_state_dict(known.note["schedule"])
    for group, rate in zip(optimizer.param_groups, schedule.get_last_lr(), strict=True):
        group["lr"] = rate
    return int(schedule.last_epoch)
