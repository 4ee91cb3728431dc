"""Measures of a gated model, written naively, and a model that none of them suits."""

import torch
from torch import Tensor

from tests.wina_core.tiny import tiny_loaded
from wina_core.compute.calibration import Calibration, calibrate
from wina_core.compute.gating import attach
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.reporter import NullReporter
from wina_core.specs import CalibrationSpec, MethodSpec, TextSpec
from wina_core.specs.plans import SparsityPlan, UniformSparsity


def calibrated(loaded: LoadedModel, method: MethodSpec, text: TextSpec) -> Calibration:
    return calibrate(loaded, method, CalibrationSpec(text=text), NullReporter())


def calibrated_if_needed(loaded: LoadedModel, method: MethodSpec, text: TextSpec) -> Calibration | None:
    return calibrated(loaded, method, text) if method.needs_calibration else None


@torch.no_grad()
def gated_divergence(
    loaded: LoadedModel,
    tokens: Tensor,
    method: MethodSpec,
    plan: UniformSparsity | SparsityPlan,
    calibration: Calibration | None = None,
) -> float:
    """Return the mean KL divergence from the dense model over the scored tokens, in nats."""
    dense = loaded.model(tokens).logits.log_softmax(-1)
    with attach(loaded, method, plan, calibration):
        gated = loaded.model(tokens).logits.log_softmax(-1)
    return float((dense.exp() * (dense - gated)).sum(-1)[:, loaded.view.first_scored :].mean())


def broken_model(value: float, layer: int = 1) -> LoadedModel:
    """A tiny model with one weight that is no number."""
    loaded = tiny_loaded(layers=2)
    loaded.view.layers[layer].projections["gate"].weight[0, 0] = value
    return loaded
