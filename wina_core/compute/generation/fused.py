"""A decoding step of one sequence on a GPU in few launches: a layer's four products, and four kernels between them.

The kernels between products add the shares that products leave, and round where transformers' modules round. Nothing is
read back from the device, so that a CUDA graph can capture the step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers.cache_utils import Cache

from wina_core.compute.gating import Gates
from wina_core.compute.gating.decoding import is_plain
from wina_core.compute.gating.linear import GatedForward, MaskGroup
from wina_core.compute.generation.compiled import model_obstacle
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.quantized_linear import QuantizedLinear
from wina_core.compute.models.shape import attention_windows
from wina_core.compute.models.view import LayerView
from wina_core.compute.scoring import TopKSelection
from wina_core.specs.methods.base import BLOCKS

if TYPE_CHECKING:
    from wina_kernels.gpu.steps import Attention


@dataclass(frozen=True, eq=False)
class StepProduct:
    """The product of projections that read the same input."""

    sums: Callable[[Tensor], Tensor]
    """x [n] -> the sums of its shares, [shares, m]."""
    bias: Tensor | None


@dataclass(frozen=True, eq=False)
class FusedLayer:
    """A decoder layer."""

    qkv: StepProduct
    o: StepProduct
    gate_up: StepProduct
    down: StepProduct
    mlp_norm: nn.Module
    next_norm: nn.Module
    """The attention norm of the layer above, or the final norm."""
    head_gains: tuple[Tensor, Tensor, float] | None
    """Gains of the norms of queries and keys, and their epsilon."""
    scale: float
    window: int


@dataclass(frozen=True, eq=False)
class FusedModel:
    """A model whose step is fused; weights and gates must keep their addresses."""

    loaded: LoadedModel
    layers: tuple[FusedLayer, ...]
    joined: tuple[nn.Linear, ...]
    """Layers whose weights share one block of memory with others'."""

    def restore(self) -> None:
        """Copy each layer's weight out of the shared block; the step must not be used afterwards."""
        for linear in self.joined:
            linear.weight.data = linear.weight.data.clone()

    def step(self, cache: Cache, token: Tensor) -> FusedStep:
        """Return the step that replaces `token`, int64 [1, 1], and appends to a static cache that has been used."""
        return FusedStep(self, cache, token)


class FusedStep:
    """The step of one cache."""

    def __init__(self, model: FusedModel, cache: Cache, token: Tensor) -> None:
        # Here and below within functions, because Triton is installed on Linux alone.
        from wina_kernels.gpu.steps import NORM_BLOCK

        view = model.loaded.view
        config: Any = view.model.config
        self._model, self._token = model, token
        self._keys_values = [_keys_values(layer) for layer in cache.layers]
        self._attention = _attention(model.loaded, self._keys_values[0][0].shape[1])
        new_empty = view.embedding.weight.new_empty
        self._stream, self._x = new_empty(view.hidden_size), new_empty(view.hidden_size)
        self._heads, self._units = new_empty(view.heads * view.head_dim), new_empty(config.intermediate_size)
        self._squares = torch.empty(-(-view.hidden_size // NORM_BLOCK), device=token.device)
        self._counter = torch.zeros(1, dtype=torch.int32, device=token.device)

    @property
    def position(self) -> Tensor:
        """The position of the token, int64 [1] on the device."""
        return self._attention.position

    @torch.no_grad()
    def __call__(self) -> None:
        """Read the token and replace it by the most likely next one."""
        from wina_kernels.gpu.steps import silu_mul

        view = self._model.loaded.view
        torch.index_select(view.embedding.weight, 0, self._token[0], out=self._stream[None])
        self._add_norm(None, view.layers[0].attention_norm)
        for layer, (keys, values) in zip(self._model.layers, self._keys_values, strict=True):
            self._attention(
                layer.qkv.sums(self._x), layer.qkv.bias, layer.head_gains, keys, values, self._heads,
                layer.scale, layer.window,
            )  # fmt: skip
            self._add_norm(layer.o, layer.mlp_norm, self._heads)
            silu_mul(layer.gate_up.sums(self._x), layer.gate_up.bias, self._units)
            self._add_norm(layer.down, layer.next_norm, self._units)
        logits = functional.linear(self._x[None], view.head.weight, view.head.bias)
        torch.argmax(logits, -1, keepdim=True, out=self._token)
        self.position.add_(1)

    def _add_norm(self, product: StepProduct | None, norm: Any, x: Tensor | None = None) -> None:
        from wina_kernels.gpu.steps import add_norm

        sums = None if product is None or x is None else product.sums(x)
        bias = None if product is None else product.bias
        epsilon = norm.variance_epsilon
        add_norm(self._stream, sums, bias, norm.weight, epsilon, self._x, self._squares, self._counter)


def fuse(loaded: LoadedModel, gates: Gates | None) -> FusedModel | str:
    """Return the model with its step fused, or the reason why it is not.

    Gates must have been attached with kernels and count the inputs of fused steps. Weights that are not gated and read
    the same input are moved to one block of memory, until `FusedModel.restore`.
    """
    reason = _device_obstacle(loaded) or model_obstacle(loaded, gates) or next(_obstacles(loaded, gates), "")
    if reason:
        return reason
    view = loaded.view
    windows = attention_windows(loaded.model.config, len(view.layers))
    norms = [layer.attention_norm for layer in view.layers[1:]] + [view.final_norm]
    gated = {linear for weights in gates.transposed for linear in weights.linears} if gates else set()
    blocks = [_linears(layer, names) for layer in view.layers for names in BLOCKS]
    joined = [linear for block in blocks if len(block) > 1 for linear in block if linear not in gated]
    layers = zip(view.layers, windows, norms, strict=True)
    fused = tuple(_layer(layer, gates, window or 0, norm) for layer, window, norm in layers)
    return FusedModel(loaded, fused, tuple(joined))


def _device_obstacle(loaded: LoadedModel) -> str:
    try:
        # The GPU kernels need Triton, which is not installed everywhere.
        from wina_kernels.gpu import operands
    except ImportError as error:
        return str(error)
    if torch.version.hip is not None:
        return "the fused step has not been tested on AMD GPUs"
    return "" if loaded.device.type == "cuda" or operands.INTERPRETED else f"the model is on {loaded.device}"


def _obstacles(loaded: LoadedModel, gates: Gates | None) -> Iterator[str]:
    rotated = 2 * loaded.model.model.rotary_emb.inv_freq.numel()
    if rotated != loaded.view.head_dim:
        yield f"only {rotated} of {loaded.view.head_dim} elements of a head are rotated by position"
    forwards = {} if gates is None else {forward.linear: forward for forward in gates.forwards}
    together = set() if gates is None else {tuple(weights.linears) for weights in gates.transposed}
    for layer in loaded.view.layers:
        for names in BLOCKS:
            linears = _linears(layer, names)
            if any(isinstance(linear, QuantizedLinear) for linear in linears):
                yield "weights are quantized"
            gates_of_block = [forwards[linear] for linear in linears if linear in forwards]
            if gates_of_block and linears not in together:
                yield f"{', '.join(names)} of a layer have no common mask and kernel"
            yield from (reason for forward in gates_of_block if (reason := _gate_obstacle(forward)))


def _gate_obstacle(forward: GatedForward) -> str:
    group, *further = forward.groups
    if further or group.rule is None:
        return "a fused layer has several masks"
    plain = group.low_rank is None and group.signal is None and is_plain(group.rule)
    return "" if plain else "the gate's rule is not fused"


def _linears(layer: LayerView, names: tuple[str, ...]) -> tuple[nn.Linear, ...]:
    return tuple(dict.fromkeys(layer.projections[name].linear for name in names))


def _layer(layer: LayerView, gates: Gates | None, window: int, next_norm: nn.Module) -> FusedLayer:
    attention: Any = layer.attention
    qkv, o, gate_up, down = (_product(_linears(layer, names), gates) for names in BLOCKS)
    gains = None
    if hasattr(attention, "q_norm"):
        gains = attention.q_norm.weight, attention.k_norm.weight, attention.q_norm.variance_epsilon
    return FusedLayer(qkv, o, gate_up, down, layer.mlp_norm, next_norm, gains, float(attention.scaling), window)


def _product(linears: tuple[nn.Linear, ...], gates: Gates | None) -> StepProduct:
    forwards = gates.forwards if gates else ()
    groups = {forward.linear: forward.groups[0] for forward in forwards if forward.linear in linears}
    bias = _joined_bias(linears, groups)
    transposed = gates.transposed if gates else ()
    gated = next((weights for weights in transposed if tuple(weights.linears) == linears), None)
    if gated is None:
        weight = _joined(linears)
        return StepProduct(lambda x: functional.linear(x[None], weight, bias), None)  # rounded once, as in the module
    from wina_kernels.gpu.decoding import PreparedSums

    first, *_ = groups.values()
    rule = first.rule
    assert rule is not None  # _gate_obstacle
    step, select = PreparedSums(gated.weight_t, rule.scale, first.counts), rule.select
    for group in groups.values():
        group.counts = step.counts  # one product counts for all projections of the block
    if isinstance(select, TopKSelection):
        return StepProduct(step.top_k(select.keep), bias)
    return StepProduct(step.above(select.threshold, select.fewest), bias)


def _joined_bias(linears: tuple[nn.Linear, ...], groups: Mapping[nn.Linear, MaskGroup]) -> Tensor | None:
    """Return the biases [m] of layers below each other, with tuned ones; None without any."""
    biases = [groups[linear].whole_bias(linear) if linear in groups else linear.bias for linear in linears]
    if all(bias is None for bias in biases):
        return None
    return torch.cat(
        [
            linear.weight.new_zeros(linear.out_features) if bias is None else bias.detach()
            for linear, bias in zip(linears, biases, strict=True)
        ]
    )


def _joined(linears: tuple[nn.Linear, ...]) -> Tensor:
    """Return the weights [m, n] below each other in one block, into which the layers' own become views."""
    if len(linears) == 1:
        return linears[0].weight.detach()
    joined = torch.cat([linear.weight.detach() for linear in linears])
    for linear, rows in zip(linears, joined.split([len(linear.weight) for linear in linears]), strict=True):
        linear.weight.data = rows
    return joined


def _attention(loaded: LoadedModel, capacity: int) -> Attention:
    from wina_kernels.gpu.steps import Attention

    view = loaded.view
    positions = torch.arange(capacity, device=loaded.device)[None]
    tables = loaded.model.model.rotary_emb(view.embedding.weight.new_empty(0), positions)
    cosines, sines = (table[0, :, : view.head_dim // 2].float().contiguous() for table in tables)
    return Attention.of(view.heads, view.kv_heads, cosines, sines)


def _keys_values(layer: Any) -> tuple[Tensor, Tensor]:
    return layer.keys[0], layer.values[0]
