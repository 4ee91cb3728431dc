"""Refinement of all bases of a model at once for the least KL divergence of the gated model from the dense one."""

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn
from wina_kernels.selection import kept_inputs, scores, top_k_mask

from wina_core.accounting.refinement import DIVERGENCE_ROWS, is_one_graph
from wina_core.compute.hooks import hooked
from wina_core.compute.models.logits import divergences, log_probabilities
from wina_core.compute.models.norms import norm_gain, normalized
from wina_core.compute.models.passage import Passage
from wina_core.compute.models.trail import Trail
from wina_core.compute.models.view import LayerView, ModelView
from wina_core.compute.reporter import Reporter
from wina_core.compute.rotation.descent import LEARNING_RATE, descend
from wina_core.compute.rotation.refine import SPARSITIES, dropped_part
from wina_core.compute.rotation.search import Search
from wina_core.compute.rotation.sites import Reader, Site
from wina_core.compute.scoring.column_norms import column_norms
from wina_core.errors import WinaError
from wina_core.methods.base import BLOCKS
from wina_core.records import RefinementStep

_READ_FROM_STREAM = ("q", "k", "v", "gate", "up")
_NOISE = 1e-9
"""Nats of divergence that rounding alone causes."""
_RATE = LEARNING_RATE / 2
"""Smaller than for the error of single inputs, whose optimum is the start of this descent."""


@dataclass(frozen=True)
class Place:
    """A site and the index of the basis that it is gated in."""

    site: Site
    basis: int


def turned_for_divergence(
    view: ModelView,
    bases: Sequence[Tensor],
    places: Sequence[Place],
    tokens: Tensor,
    steps: int,
    reporter: Reporter,
    search: Search | None = None,
) -> list[Tensor]:
    """Turn `bases` ([n, n] or [kv_heads, hd, hd] each) by descent on the gated model's mean KL divergence; float64.

    The divergence is in nats per token from the dense model on rows of `tokens`. The gradient flows through the whole
    unrotated model with each input x replaced by x - B ((1 - m) * B^T x), which equals gating the rotated one. Inputs
    without a place, such as down's, are gated unrotated. Raises WinaError if a divergence is not a number.
    """
    generator = torch.Generator().manual_seed(0)
    device = view.embedding.weight.device
    divergence = GatedDivergence(view, places, reporter)

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

    def __init__(self, view: ModelView, places: Sequence[Place], reporter: Reporter) -> None:
        self._view, self._reporter = view, reporter
        self._places = {(place.site.layer, place.site.reader): place for place in places}
        turned = {name for _, reader in self._places for name in (("o",) if reader == "heads" else _READ_FROM_STREAM)}
        self._plain = {}
        for layer in view.layers:
            self._plain[layer.index] = list(plain_inputs(layer, turned))
            view.give_back(layer.module)

    def differentiate(self, bases: Sequence[Tensor], rows: Tensor, sparsity: float) -> float:
        """Return the divergence on `rows` [rows, sequence] in nats per token, and add the gradients of its logarithm to
        the bases.

        The graph is that of the whole model, or, where that is large or weights are in files, of one layer at a time.
        Raises WinaError if the divergence is not a number.
        """
        gated = sum(len(place.site.gram) for place in self._places.values())
        whole = self._view.mapped is None and is_one_graph(rows.numel(), gated)
        return (self._at_once if whole else self._by_layer)(bases, rows, sparsity)

    def _at_once(self, bases: Sequence[Tensor], rows: Tensor, sparsity: float) -> float:
        with torch.no_grad():
            dense = _log_probabilities(self._view, rows)
        with hooked([hook for layer in self._view.layers for hook in self._hooks(layer, bases, sparsity)]):
            gated = _log_probabilities(self._view, rows)
        value, objective = _objective(dense, gated)
        objective.backward()
        return value

    def _by_layer(self, bases: Sequence[Tensor], rows: Tensor, sparsity: float) -> float:
        """Differentiate as `_at_once` to rounding: a layer's gradients are added up before those of all layers."""
        found: list[float] = []

        def objective(_: int, logits: Tensor) -> Tensor:
            value, differentiated = _objective(dense, _log_of(self._view, logits))
            found.append(value)
            return differentiated

        trail = Trail(self._view, [rows], lambda layer: hooked(self._hooks(layer, bases, sparsity)))
        passage = Passage(self._view, [rows], [None, trail])
        passage.run(self._reporter)
        with torch.no_grad(), passage.arriving(0):
            dense = _log_probabilities(self._view, rows)
        trail.turn(passage, objective, lane=1)
        for layer in trail.back(self._reporter):
            for place in self._places.values():
                if place.site.layer == layer.index:
                    place.site.give_back()
        return found[0]

    def _hooks(self, layer: LayerView, bases: Sequence[Tensor], sparsity: float) -> list[Any]:
        """Gate every input of a layer by WINA's rule within the block, with masks shared by its readers, differentiably
        in the bases; return the hooks."""
        hooks: list[Any] = []
        stream: tuple[tuple[Reader, nn.Module], ...] = (("attention", layer.attention_norm), ("mlp", layer.mlp_norm))
        for reader, norm in stream:
            if place := self._places.get((layer.index, reader)):
                hooks.append(norm.register_forward_hook(_StreamGate(norm, bases[place.basis], place.site, sparsity)))
        if place := self._places.get((layer.index, "heads")):
            gate = _InputGate(bases[place.basis], place.site.gram, sparsity)
            hooks.append(layer.projections["o"].linear.register_forward_pre_hook(gate))
        for linears, norms in self._plain[layer.index]:
            as_it_is = PlainGate(norms, sparsity)
            hooks += [linear.register_forward_pre_hook(as_it_is) for linear in linears]
        return hooks


def _log_probabilities(view: ModelView, rows: Tensor) -> Tensor:
    return _log_of(view, view.model(rows, use_cache=False).logits)


def _log_of(view: ModelView, logits: Tensor) -> Tensor:
    """Return the log-probabilities at the scored positions, from logits [rows, sequence, vocabulary]."""
    return log_probabilities(logits[:, view.first_scored :])


def _objective(dense: Tensor, gated: Tensor) -> tuple[float, Tensor]:
    """Return the mean divergence, and its logarithm, so that each sparsity weighs the same, though one diverges far
    more."""
    value = divergences(dense, gated).mean()
    known = float(value.detach())
    if not math.isfinite(known):
        raise WinaError("The gated model's logits are not numbers; open the model in bfloat16 or float32 instead.")
    return known, value.clamp(min=_NOISE).log()


def plain_inputs(layer: LayerView, turned: Collection[str]) -> Iterator[tuple[set[nn.Linear], Tensor]]:
    """Yield the linear layers that share an input without a basis, with the norms of the weights' columns together;
    `turned` are the projections whose inputs have one."""
    for part, names in product(layer.parts, BLOCKS):
        plain = [part.projections[name] for name in names if name in part.projections and name not in turned]
        if plain:
            weights = torch.cat([projection.weight for projection in plain])
            yield {projection.linear for projection in plain}, column_norms(weights)


class _StreamGate:
    """Gate on a norm's output, in a basis of the stream."""

    def __init__(self, norm: nn.Module, basis: Tensor, site: Site, sparsity: float) -> None:
        self._basis, self._site, self._sparsity = basis, site, sparsity
        self._gain = norm_gain(norm).to(basis)

    def __call__(self, norm: nn.Module, args: tuple[Any, ...], output: Tensor) -> Tensor:
        x = normalized(norm, args[0].float())
        return output - (dropped_part(x, self._basis, self._site.gram, self._sparsity) * self._gain).to(output.dtype)


class _InputGate:
    """Gate on a linear layer's input, in a basis."""

    def __init__(self, basis: Tensor, gram: Tensor, sparsity: float) -> None:
        self._basis, self._gram, self._sparsity = basis, gram, sparsity

    def __call__(self, _: nn.Module, args: tuple[Any, ...]) -> tuple[Tensor]:
        x = args[0]
        return (x - dropped_part(x.float(), self._basis, self._gram, self._sparsity).to(x.dtype),)


class PlainGate:
    """Gate on an input in its own coordinates, by the norms of the weights' columns."""

    def __init__(self, norms: Tensor, sparsity: float) -> None:
        self._norms, self._sparsity = norms, sparsity

    def __call__(self, _: nn.Module, args: tuple[Any, ...]) -> tuple[Tensor]:
        x = args[0]
        return (x * top_k_mask(scores(x, self._norms), kept_inputs(x.shape[-1], self._sparsity)),)
