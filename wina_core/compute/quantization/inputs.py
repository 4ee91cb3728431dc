"""Statistics of the gated matrices' inputs and outputs on a text, for energies and error compensation."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from wina_core.compute.models.finite import check_numbers
from wina_core.compute.models.logits import ScoredPositions
from wina_core.compute.models.passage import Passage, in_batches
from wina_core.compute.models.trail import differentiate_samples
from wina_core.compute.models.view import LayerView, ModelView
from wina_core.compute.reporter import Reporter
from wina_core.specs.methods.base import BLOCKS

SAMPLED = 4
"""One row in so many is differentiated: sensitivities need fewer tokens than second moments."""


@dataclass(frozen=True, eq=False)
class QuantizationSite:
    """One input x of a decoder layer or of one of its experts, and the linear layers that read it."""

    layer: int
    linears: dict[nn.Linear, tuple[str, ...]]
    """With the projections that each holds, several for a fused one."""
    expert: int | None = None
    module: nn.Module | None = None
    """The layer, or the expert; its call in progress says which tokens an expert reads."""

    @property
    def first_linear(self) -> nn.Linear:
        """Return the first linear layer, the key of the site's statistics."""
        return next(iter(self.linears))

    @property
    def first_names(self) -> tuple[str, ...]:
        return self.linears[self.first_linear]

    @property
    def name(self) -> str:
        """Return the layer, the expert if there is one, and the first projection, such as "3.q" or "3.17.gate"."""
        first, *_ = self.first_names
        return ".".join(str(number) for number in (self.layer, self.expert, first) if number is not None)

    @property
    def inputs(self) -> int:
        return self.first_linear.in_features

    @property
    def outputs(self) -> int:
        return sum(linear.out_features for linear in self.linears)


def sites_of(layer: LayerView) -> list[QuantizationSite]:
    """Return the inputs of a layer's gated matrices, in order, then those of its experts."""
    sites = []
    for layer_or_expert, block in product(layer.parts, BLOCKS):
        linears: dict[nn.Linear, tuple[str, ...]] = {}
        for name in block:
            if name in layer_or_expert.projections:
                linear = layer_or_expert.projections[name].linear
                linears[linear] = (*linears.get(linear, ()), name)
        if linears:
            sites.append(QuantizationSite(layer.index, linears, layer_or_expert.expert, layer_or_expert.module))
    return sites


def second_moments(view: ModelView, tokens: Tensor, reporter: Reporter) -> Iterator[dict[nn.Linear, Tensor]]:
    """Yield for each decoder layer E[x x^T], float32 [n, n], by the first linear layer of each of its sites.

    The mean is over the scored tokens. Experts' inputs are 0 for the tokens that do not read them. Only one layer's
    moments are held; a layer may change once they were yielded. Raises WinaError if inputs are not numbers.
    """
    for _, moments in _means(view, tokens, reporter, 2, lambda moment, x: moment.addmm_(x.T, x)):
        yield moments


def mean_squares(view: ModelView, tokens: Tensor, reporter: Reporter) -> dict[nn.Linear, Tensor]:
    """Return E[x_i^2] over the scored tokens, float32 [n], by the first linear layer of each site.

    Raises WinaError for inputs that are no numbers.
    """
    by_linear: dict[nn.Linear, Tensor] = {}
    reporter.stage("energies of inputs")
    for layer, squares in _means(view, tokens, reporter, 1, lambda total, x: total.add_(x.square().sum(0))):
        by_linear |= squares
        reporter.progress(layer.index + 1, len(view.layers), "layers")
    return by_linear


def _means(
    view: ModelView, tokens: Tensor, reporter: Reporter, dimensions: int, add: Callable[[Tensor, Tensor], object]
) -> Iterator[tuple[LayerView, dict[nn.Linear, Tensor]]]:
    """Yield each layer with means over the scored tokens by the first linear layer of each of its sites, float32 [n] or
    [n, n]; `add` adds inputs x [tokens, n] to a sum."""
    sums: dict[nn.Linear, Tensor] = {}
    scored = ScoredPositions.of(view, tokens)
    count = scored.count(tokens)

    def hooks(layer: LayerView) -> Iterator[Any]:
        sums.clear()
        for site in sites_of(layer):
            linear = site.first_linear
            sums[linear] = torch.zeros((site.inputs,) * dimensions, device=linear.weight.device)
            yield linear.register_forward_pre_hook(partial(_add, add, sums[linear], scored, site.module))

    for layer in Passage(view, in_batches(tokens)).layers(reporter, hooks):
        means = {linear: total / count for linear, total in sums.items()}
        for mean in means.values():
            check_numbers(mean, f"activations in layer {layer.index}")
        yield layer, means


def _add(
    add: Callable[[Tensor, Tensor], object],
    total: Tensor,
    scored: ScoredPositions,
    reader: nn.Module | None,
    _: nn.Module,
    args: tuple[Tensor],
) -> None:
    add(total, scored.rows(args[0], reader).float())


def output_sensitivities(view: ModelView, tokens: Tensor, reporter: Reporter) -> dict[nn.Linear, Tensor]:
    """Return for each gated linear layer E[g_j^2], float32 [m], with g the gradient of -log p(y) by its outputs.

    Labels y are the model's own, so an error e of the outputs costs about sum_j E[g_j^2] e_j^2 / 2 in KL divergence,
    were outputs and tokens independent. Every fourth row of `tokens` [rows, sequence] is read; the mean is over the
    tokens that read the layer, of experts only some.
    """
    sampled, scored = tokens[::SAMPLED], ScoredPositions.of(view, tokens)
    modules = {linear: site.module for layer in view.layers for site in sites_of(layer) for linear in site.linears}
    by_linear = {linear: _Squares(linear, scored, module) for linear, module in modules.items()}
    hooks = (linear.register_forward_hook(squares.watch) for linear, squares in by_linear.items())
    reporter.stage("sensitivities of outputs")
    differentiate_samples(view, sampled, hooks, reporter)
    # An expert may have read no token.
    return {linear: squares.total / max(squares.tokens, 1) for linear, squares in by_linear.items()}


class _Squares:
    """Sum of the squared gradients of a linear layer's outputs, [m], over the tokens that read it."""

    def __init__(self, linear: nn.Linear, scored: ScoredPositions, reader: nn.Module | None) -> None:
        self._scored, self._reader = scored, reader
        self.total = torch.zeros(linear.out_features, device=linear.weight.device)
        self.tokens = 0

    def watch(self, _: nn.Module, _args: Any, output: Tensor) -> None:
        """Add the gradient of an output once it is known."""
        # The positions of an expert's tokens are known during its call alone.
        output.register_hook(partial(self._add, self._scored.mask(output, self._reader)))

    def _add(self, keep: Tensor | None, gradient: Tensor) -> None:
        rows = gradient.flatten(0, -2)
        rows = rows if keep is None else rows[keep]
        self.total.add_(rows.float().square().sum(0))
        self.tokens += len(rows)
