"""Refinement of all bases of a model at once for the least KL divergence of the gated model from the dense one."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from wina_core.compute.hooks import hooked
from wina_core.compute.models.logits import divergences, log_probabilities, scored_log_probabilities
from wina_core.compute.models.passage import Passage
from wina_core.compute.models.trail import Trail
from wina_core.compute.models.view import LayerView, ModelView
from wina_core.compute.reporter import Reporter
from wina_core.compute.rotation.descent import LEARNING_RATE, Search, descend
from wina_core.compute.rotation.refine import (
    SPARSITIES,
    StreamGate,
    carried_bias,
    gate_input,
    gate_plainly,
    plain_inputs,
    stream_readers,
    turned_norms,
)
from wina_core.compute.rotation.sites import READ_BY, Reader, RotationSite
from wina_core.compute.rotation.statistics import preserve_mean
from wina_core.errors import WinaError
from wina_core.model_info.cost.refinement import DIVERGENCE_ROWS, is_one_graph
from wina_core.records import RefinementStep

_READ_FROM_STREAM = ("q", "k", "v", "gate", "up")
_NOISE = 1e-9
"""Nats of divergence that rounding alone causes."""
_RATE = LEARNING_RATE / 2
"""Smaller than for the error of single inputs, whose optimum is the start of this descent."""


@dataclass(frozen=True)
class GatedSite:
    """A site and the index of the basis that it is gated in."""

    site: RotationSite
    basis: int


def refine_on_divergence(
    view: ModelView,
    bases: Sequence[Tensor],
    inputs: Sequence[GatedSite],
    tokens: Tensor,
    steps: int,
    reporter: Reporter,
    search: Search | None = None,
) -> list[Tensor]:
    """Refine `bases` ([n, n] or [kv_heads, hd, hd] each) by descent on the gated model's mean KL divergence; float64.

    The divergence is in nats per token from the dense model on rows of `tokens`. The gradient flows through the whole
    unrotated model, gated in the bases as the rotated one is; only that experts share one mask, and
    attention and MLP if they share a norm. Other inputs than `inputs`, such as down's, are gated unrotated. Raises
    WinaError if a divergence is not a number.
    """
    generator = torch.Generator().manual_seed(0)
    device = view.embedding.weight.device
    divergence = GatedDivergence(view, inputs, reporter)
    reporter.stage("refinement on KL")

    def loss(current: Sequence[Tensor], step: int) -> Tensor:
        reporter.check()
        drawn = torch.randint(len(tokens), (DIVERGENCE_ROWS,), generator=generator)
        sparsity = SPARSITIES[step % len(SPARSITIES)]
        value = divergence.differentiate(current, tokens[drawn].to(device), sparsity)
        reporter.progress(step, steps, "steps", f"KL {value:.3g}")
        if search is not None:
            search.add(
                RefinementStep(
                    site="all", objective="kl", sparsity=sparsity, step=step, steps=steps, loss=max(value, 0.0)
                )
            )
        return torch.tensor(value)

    return descend(bases, loss, steps, _RATE, generator, search, "all")


class GatedDivergence:
    """Mean KL divergence of the gated model from the dense one, as a function of the bases."""

    def __init__(self, view: ModelView, inputs: Sequence[GatedSite], reporter: Reporter) -> None:
        self._view, self._reporter = view, reporter
        self._inputs = {(gated.site.layer, gated.site.reader): gated for gated in inputs}
        turned = {name for _, reader in self._inputs for name in (("o",) if reader == "heads" else _READ_FROM_STREAM)}
        self._plain = {}
        self._carried = {}
        for layer in view.layers:
            self._plain[layer.index] = list(plain_inputs(layer, turned))
            for reader, (names, norm) in _stream(layer).items():
                if (layer.index, reader) in self._inputs:
                    self._carried[layer.index, reader] = carried_bias(layer, names, norm)
            view.give_back(layer.module)

    def differentiate(self, bases: Sequence[Tensor], rows: Tensor, sparsity: float) -> float:
        """Return the divergence on `rows` [rows, sequence] in nats per token, and add the gradients of its logarithm to
        the bases.

        Of a model whose norms centre the stream, those of the stream are turned by `preserve_mean`, as for a rotation.
        The graph is that of the whole model, or of one layer at a time if that is large or weights are in files.
        Raises WinaError if the divergence is not a number.
        """
        size = sum(len(gated.site.gram) for gated in self._inputs.values())
        whole = self._view.mapped is None and is_one_graph(rows.numel(), size)
        differentiated = self._at_once if whole else self._by_layer
        if not self._view.centred:
            return differentiated(bases, rows, sparsity)
        # Gradients arrive at the leaves, perhaps layer by layer; one backward pass then takes them through the turn.
        turned = [preserve_mean(basis) if basis.ndim == 2 else basis for basis in bases]
        leaves = [basis.detach().requires_grad_() for basis in turned]
        value = differentiated(leaves, rows, sparsity)
        torch.autograd.backward(turned, [leaf.grad for leaf in leaves])
        return value

    def _at_once(self, bases: Sequence[Tensor], rows: Tensor, sparsity: float) -> float:
        with torch.no_grad():
            dense = scored_log_probabilities(self._view, rows)
        with hooked([hook for layer in self._view.layers for hook in self._hooks(layer, bases, sparsity)]):
            gated = scored_log_probabilities(self._view, rows)
        value, objective = _objective(dense, gated)
        objective.backward()
        return value

    def _by_layer(self, bases: Sequence[Tensor], rows: Tensor, sparsity: float) -> float:
        """Differentiate as `_at_once` to rounding: a layer's gradients are added up before those of all layers."""
        values: list[float] = []

        def objective(_: int, logits: Tensor) -> Tensor:
            value, differentiated = _objective(dense, log_probabilities(logits[:, self._view.first_scored :]))
            values.append(value)
            return differentiated

        # Lane 0 is the dense model, lane 1 the gated one; `objective` runs only once `dense` is known.
        trail = Trail(self._view, [rows], lambda layer: hooked(self._hooks(layer, bases, sparsity)))
        passage = Passage(self._view, [rows], [None, trail])
        passage.run(self._reporter)
        with torch.no_grad(), passage.arriving(0):
            dense = scored_log_probabilities(self._view, rows)
        trail.turn(passage, objective, lane=1)
        for layer in trail.back(self._reporter):
            for gated in self._inputs.values():
                if gated.site.layer == layer.index:
                    gated.site.give_back()
        return values[0]

    def _hooks(self, layer: LayerView, bases: Sequence[Tensor], sparsity: float) -> list[Any]:
        """Gate every input of a layer by WINA's rule within the block, with masks shared by its readers, differentiably
        in the bases; return the hooks."""
        hooks: list[Any] = []
        for reader, (names, norm) in _stream(layer).items():
            if gated := self._inputs.get((layer.index, reader)):
                carried, basis = self._carried[layer.index, reader], bases[gated.basis]
                gate = StreamGate(norm, basis, turned_norms(gated.site.gram, basis, carried), sparsity, carried)
                hooks += gate.hooks([linear for block in layer.parts for linear in stream_readers(block, names)])
        if gated := self._inputs.get((layer.index, "heads")):
            basis = bases[gated.basis]
            norms = turned_norms(gated.site.gram, basis)
            hooks.append(gate_input(layer.projections["o"].linear, basis, norms, sparsity))
        for linears, norms in self._plain[layer.index]:
            hooks += gate_plainly(linears, norms, sparsity)
        return hooks


def _stream(layer: LayerView) -> dict[Reader, tuple[tuple[str, ...], nn.Module]]:
    """Return the projections that read the stream, and their norm, by the reader that a site names."""
    attention, mlp = READ_BY["attention"], READ_BY["mlp"]
    if layer.mlp_norm is layer.attention_norm:
        return {"attention": (attention + mlp, layer.attention_norm)}
    return {"attention": (attention, layer.attention_norm), "mlp": (mlp, layer.mlp_norm)}


def _objective(dense: Tensor, gated: Tensor) -> tuple[float, Tensor]:
    """Return the mean divergence, and its logarithm as the objective."""
    value = divergences(dense, gated).mean()
    number = float(value.detach())
    if not math.isfinite(number):
        raise WinaError("The gated model's logits are not numbers; open the model in bfloat16 or float32 instead.")
    # In logarithms, each sparsity weighs the same, though the divergence of one is far larger.
    return number, value.clamp(min=_NOISE).log()
