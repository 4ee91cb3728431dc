"""Samples and sensitivities of each rotated input, measured in one forward and one backward pass."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from wina_core.compute.models.likelihood import differentiate_samples
from wina_core.compute.models.norms import centres, norm_gain, normalized
from wina_core.compute.models.view import LayerView, ModelView
from wina_core.compute.reporter import Reporter
from wina_core.compute.rotation.centring import centred_gram
from wina_core.compute.rotation.statistics import weight_gram

Reader = Literal["attention", "mlp", "heads"]
"""The readers of an input: q, k, v; gate and up; or o. "attention" is all of the stream's where one norm serves
both."""

_READ_BY: dict[Reader, tuple[str, ...]] = {"attention": ("q", "k", "v"), "mlp": ("gate", "up"), "heads": ("o",)}
_SAMPLED_NUMBERS = 1 << 22
"""Numbers kept of each site's inputs: 16,384 tokens of hidden size 256, 1,024 of 4,096."""


@dataclass(eq=False)
class Site:
    """One rotated input x of a decoder layer, float32; n is the hidden size, or the size of all heads for `heads`.

    The stream's x is the norm's output without its gain, which the Gram matrix and the sensitivity contain.
    """

    layer: int
    reader: Reader
    inputs: Tensor
    """[tokens, n], spread evenly over the text."""
    gram: Tensor
    """[n, n], the sum of W^T W over the matrices that read x."""
    sensitivity: Tensor
    """[n, n], the Fisher information E[g g^T], g the gradient of -log p(y) with respect to x, y drawn from the model's
    own prediction. An error e of x costs about e^T F e / 2 in KL divergence."""


def measure_sites(view: ModelView, stream: bool, heads: bool, tokens: Tensor, reporter: Reporter) -> list[Site]:
    """Measure the stream's sites, the heads' or both in the dense model on `tokens` [rows, sequence], in layer order.

    Rows pass one by one, forward and back: memory holds one row's activations and, for each site, two [n, n] matrices
    and the sample. Labels are drawn with a fixed seed. Raises WinaError if logits are not numbers.
    """
    stride = -(-tokens.numel() * view.hidden_size // _SAMPLED_NUMBERS)
    collectors = list(_collectors(view, stream, heads, stride))
    differentiate_samples(view, tokens, (collector.attach() for collector in collectors), reporter)
    return [collector.site(tokens.numel()) for collector in collectors]


class _Collector:
    """Collector of one site while the model runs forward and back."""

    def __init__(self, layer: LayerView, reader: Reader, norm: nn.Module | None, stride: int) -> None:
        self._layer, self._reader, self._norm, self._stride = layer, reader, norm, stride
        names = _READ_BY[reader]
        if reader == "attention" and layer.mlp_norm is layer.attention_norm:
            names += _READ_BY["mlp"]
        self._names = [name for name in names if name in layer.names]
        n = layer.shape(self._names[0])[1]
        device = layer.projections["o"].linear.weight.device
        self._sensitivity = torch.zeros(n, n, device=device)
        self._gain = None if norm is None else norm_gain(norm).to(device, torch.float32)
        self._inputs: list[Tensor] = []
        self._skip = 0

    def attach(self) -> Any:
        """Register and return the hook that collects."""
        if self._norm is not None:
            return self._norm.register_forward_hook(self._after_norm)
        return self._layer.projections["o"].linear.register_forward_pre_hook(self._before_linear)

    def site(self, tokens: int) -> Site:
        """Return the site measured over that many tokens."""
        if self._norm is not None:
            gram = weight_gram(self._layer, self._names, self._norm).float()
        else:
            weight = self._layer.projections["o"].weight.float()
            gram = weight.T @ weight
        sensitivity = self._sensitivity / tokens
        if self._norm is not None and centres(self._norm):
            centred_gram(sensitivity)
        return Site(self._layer.index, self._reader, torch.cat(self._inputs), gram, sensitivity)

    def _after_norm(self, norm: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
        self._sample(normalized(norm, args[0].detach().float()))
        output.register_hook(self._add)

    def _before_linear(self, _: nn.Module, args: tuple[Any, ...]) -> None:
        self._sample(args[0].detach().float())
        args[0].register_hook(self._add)

    def _sample(self, x: Tensor) -> None:
        flat = x.flatten(0, -2)
        self._inputs.append(flat[self._skip :: self._stride])
        self._skip = (self._skip - len(flat)) % self._stride

    def _add(self, gradient: Tensor) -> None:
        g = gradient.flatten(0, -2).float()
        g = g if self._gain is None else g * self._gain
        self._sensitivity.addmm_(g.T, g)


def _collectors(view: ModelView, stream: bool, heads: bool, stride: int) -> Iterator[_Collector]:
    for layer in view.layers:
        if stream:
            yield _Collector(layer, "attention", layer.attention_norm, stride)
        if heads:
            yield _Collector(layer, "heads", None, stride)
        if stream and layer.mlp_norm is not layer.attention_norm:
            yield _Collector(layer, "mlp", layer.mlp_norm, stride)
