"""What is gathered about the inputs of a model's projections while it runs, each input once however many share it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from wina_kernels.selection import scores

from wina_core.calibration.histogram import ScoreHistogram
from wina_core.errors import WinaError
from wina_core.methods import Method
from wina_core.models.view import LayerView, ModelView

_SITES = (("q", "k", "v"), ("o",), ("gate", "up"), ("down",))
"""Projections that read the same input."""


class Scored:
    """Projections of one site that score alike: a histogram of their scores, |x_i| * c_i."""

    def __init__(self, layer: LayerView, scale: Tensor | None) -> None:
        self.names: list[str] = []
        self.scale = scale
        """c [n]; None stands for 1."""
        self.histogram = ScoreHistogram(layer.projections["q"].linear.weight.device)


class Site:
    """One input of a decoder layer: the scores of the gated projections that read it, and some tokens of it."""

    def __init__(self, layer: LayerView, scales: dict[str, Tensor | None], sampled: Tensor) -> None:
        self.layer = layer
        self.linear = layer.projections[next(iter(scales))].linear
        self._sampled = sampled
        """Positions in the text of the tokens to keep, int64, ascending."""
        self._tokens = 0
        self._kept: list[Tensor] = []
        by_scale: dict[int, Scored] = {}
        for name, scale in scales.items():
            by_scale.setdefault(id(scale), Scored(layer, scale)).names.append(name)
        self.scored = tuple(by_scale.values())

    @property
    def sample(self) -> Tensor:
        """The sampled tokens, [tokens, n]."""
        return torch.cat(self._kept)

    def read(self, _: nn.Module, args: tuple[Any, ...]) -> None:
        """Take in x [batch, tokens, n]: a forward pre-hook of the site's first linear layer."""
        x = args[0].detach().flatten(0, -2)
        for group in self.scored:
            group.histogram.add(scores(x, group.scale))
        here = self._sampled.to(x.device) - self._tokens
        self._kept.append(x[here[(here >= 0) & (here < len(x))]])
        self._tokens += len(x)


def sites(view: ModelView, method: Method, sampled: Tensor) -> tuple[Site, ...]:
    """The sites that the method gates, from the first layer to the last."""
    found = []
    for layer in view.layers:
        scales = method.scales(layer)
        for names in _SITES:
            gated = {name: scales[name] for name in names if name in scales}
            if gated:
                found.append(Site(layer, gated, sampled))
    return tuple(found)


@contextmanager
def reading(sites: tuple[Site, ...]) -> Iterator[None]:
    """Within: the sites take in their inputs whenever the model runs."""
    hooks = [site.linear.register_forward_pre_hook(site.read) for site in sites]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def check_finite(sites: tuple[Site, ...]) -> None:
    """Raise WinaError, naming the first layer and projection, when a score was infinite or not a number."""
    groups = [(site.layer.index, group) for site in sites for group in site.scored]
    bad = torch.stack([group.histogram.non_finite.cpu() for _, group in groups])
    if bad.any():
        layer, group = groups[int(bad.nonzero()[0])]
        raise WinaError(
            f"The inputs of {group.names[0]} in layer {layer} are not finite; load the model in bfloat16 or float32, "
            "or check its weights."
        )
