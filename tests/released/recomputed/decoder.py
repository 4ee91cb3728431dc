"""The decoder in float64: its weights, its shape and its forward pass."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

PROJECTIONS = ("q", "k", "v", "o", "gate", "up", "down")
ATTENTION = ("q", "k", "v", "o")
MLP = ("gate", "up", "down")
BLOCKS = {"qkv": ("q", "k", "v"), "o": ("o",), "gate_up": ("gate", "up"), "down": ("down",)}
"""Matrices that read the same input; fused models store q, k, v and gate, up as one matrix each."""

Cell = tuple[int, str]
"""(decoder layer, projection)."""


@dataclass(frozen=True)
class Matrix:
    """A linear map: `weight` float64 [outputs, inputs], `bias` float64 [outputs] or None."""

    weight: Tensor
    bias: Tensor | None = None

    def __call__(self, x: Tensor) -> Tensor:
        """Return W x + b for x [..., inputs]."""
        y = x @ self.weight.T
        return y if self.bias is None else y + self.bias


@dataclass(frozen=True)
class Layer:
    """One decoder layer: its seven matrices, the gains of its two norms, and residual shortcuts [d, d] or None."""

    matrices: Mapping[str, Matrix]
    attention_gain: Tensor
    mlp_gain: Tensor
    attention_shortcut: Tensor | None = None
    mlp_shortcut: Tensor | None = None


@dataclass(frozen=True)
class Weights:
    """All weights of a model; `fused` is True where q, k, v and gate, up are stored as one matrix each."""

    embedding: Tensor
    layers: tuple[Layer, ...]
    final_gain: Tensor
    head: Tensor
    fused: bool = False

    @property
    def cells(self) -> tuple[Cell, ...]:
        """All cells in order."""
        return tuple((layer, name) for layer in range(len(self.layers)) for name in PROJECTIONS)


@dataclass(frozen=True)
class Shape:
    """The numbers of a Hugging Face configuration that the forward pass needs."""

    heads: int
    kv_heads: int
    head_dim: int
    epsilon: float
    theta: float
    rotary_share: float = 1.0


def shape_of(config: Any) -> Shape:
    """Read the numbers of a llama's, qwen2's or phi3's configuration with the default rotary embedding."""
    rotary = dict(getattr(config, "rope_parameters", None) or {})
    return Shape(
        heads=config.num_attention_heads,
        kv_heads=config.num_key_value_heads,
        head_dim=getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads,
        epsilon=config.rms_norm_eps,
        theta=rotary.get("rope_theta") or config.rope_theta,
        rotary_share=rotary.get("partial_rotary_factor") or getattr(config, "partial_rotary_factor", None) or 1.0,
    )


def read_weights(state: Mapping[str, Tensor], shape: Shape) -> Weights:
    """Split the state dict of a llama, qwen2 or phi3 model into the matrices of each layer.

    Fused matrices are split by rows: qkv_proj into heads, key-value heads and key-value heads; gate_up_proj into
    halves.
    """
    tensors = {name: tensor.detach().double().clone() for name, tensor in state.items()}

    def rows(module: str, sizes: Sequence[int] | None = None) -> list[Matrix]:
        weight, bias = tensors[f"{module}.weight"], tensors.get(f"{module}.bias")
        sizes = sizes or [len(weight)]
        biases = [None] * len(sizes) if bias is None else list(bias.split(list(sizes)))
        return [Matrix(part, b) for part, b in zip(weight.split(list(sizes)), biases, strict=True)]

    fused = "model.layers.0.self_attn.qkv_proj.weight" in tensors
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    layers = []
    while f"model.layers.{len(layers)}.input_layernorm.weight" in tensors:
        base = f"model.layers.{len(layers)}"
        if fused:
            inner = len(tensors[f"{base}.mlp.gate_up_proj.weight"]) // 2
            first = rows(f"{base}.self_attn.qkv_proj", (queries, keys, keys))
            second = rows(f"{base}.mlp.gate_up_proj", (inner, inner))
        else:
            first = [rows(f"{base}.self_attn.{name}_proj")[0] for name in "qkv"]
            second = [rows(f"{base}.mlp.{name}_proj")[0] for name in ("gate", "up")]
        output, down = rows(f"{base}.self_attn.o_proj"), rows(f"{base}.mlp.down_proj")
        layers.append(
            Layer(
                dict(zip(PROJECTIONS, [*first, *output, *second, *down], strict=True)),
                tensors[f"{base}.input_layernorm.weight"],
                tensors[f"{base}.post_attention_layernorm.weight"],
            )
        )
    embedding = tensors["model.embed_tokens.weight"]
    head = tensors.get("lm_head.weight", embedding)
    return Weights(embedding, tuple(layers), tensors["model.norm.weight"], head.clone(), fused)


@dataclass(frozen=True)
class Output:
    """A gate's replacement for W x, without the bias."""

    y: Tensor


GateFunction = Callable[[int, str, Tensor], Tensor | Output]
"""(layer, projection, input [rows, tokens, n]) -> the input that the matrix reads instead, or an `Output`."""


def normalized(x: Tensor, gain: Tensor, epsilon: float) -> Tensor:
    """Return RMSNorm(x) * gain for x [..., d]."""
    return x * (x.pow(2).mean(dim=-1, keepdim=True) + epsilon).rsqrt() * gain


def _rotated(x: Tensor, shape: Shape) -> Tensor:
    """Apply rotary embeddings to x [rows, heads, tokens, head_dim].

    Transformers computes angles, cosines and sines in float32 whatever the dtype of the model, and so does this.
    """
    size = int(shape.head_dim * shape.rotary_share)
    frequencies = 1.0 / (shape.theta ** (torch.arange(0, size, 2, dtype=torch.float32) / size))
    angles = torch.arange(x.shape[-2], dtype=torch.float32)[:, None] * frequencies
    cosine, sine = angles.cos().double(), angles.sin().double()
    first, second, rest = x[..., : size // 2], x[..., size // 2 : size], x[..., size:]
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine, rest), dim=-1)


def _product(layer: Layer, index: int, name: str, x: Tensor, gate: GateFunction | None) -> Tensor:
    matrix = layer.matrices[name]
    replaced = x if gate is None else gate(index, name, x)
    if not isinstance(replaced, Output):
        return matrix(replaced)
    return replaced.y if matrix.bias is None else replaced.y + matrix.bias


def _attention(layer: Layer, index: int, shape: Shape, x: Tensor, gate: GateFunction | None) -> Tensor:
    rows, tokens, _ = x.shape

    def heads(name: str, count: int) -> Tensor:
        return _product(layer, index, name, x, gate).view(rows, tokens, count, shape.head_dim).transpose(1, 2)

    group = shape.heads // shape.kv_heads
    queries = _rotated(heads("q", shape.heads), shape)
    keys = _rotated(heads("k", shape.kv_heads), shape).repeat_interleave(group, dim=1)
    values = heads("v", shape.kv_heads).repeat_interleave(group, dim=1)
    logits = queries @ keys.transpose(-1, -2) / math.sqrt(shape.head_dim)
    future = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
    mixed = logits.masked_fill(future, -math.inf).softmax(dim=-1) @ values
    return _product(layer, index, "o", mixed.transpose(1, 2).reshape(rows, tokens, -1), gate)


def decoder_layer(layer: Layer, index: int, shape: Shape, x: Tensor, gate: GateFunction | None = None) -> Tensor:
    """Return the output of one decoder layer, residual included, for the residual stream x [rows, tokens, d]."""
    kept = x if layer.attention_shortcut is None else x @ layer.attention_shortcut
    x = kept + _attention(layer, index, shape, normalized(x, layer.attention_gain, shape.epsilon), gate)
    kept = x if layer.mlp_shortcut is None else x @ layer.mlp_shortcut
    h = normalized(x, layer.mlp_gain, shape.epsilon)
    z = _product(layer, index, "gate", h, gate)
    inner = z * torch.sigmoid(z) * _product(layer, index, "up", h, gate)
    return kept + _product(layer, index, "down", inner, gate)


def forward(weights: Weights, shape: Shape, ids: Tensor, gate: GateFunction | None = None) -> Tensor:
    """Return the logits, float64 [rows, tokens, vocabulary], of ids, int64 [rows, tokens].

    `gate` is called at the input of each of the seven matrices of each layer; None for the dense model.
    """
    x = weights.embedding[ids]
    for index, layer in enumerate(weights.layers):
        x = decoder_layer(layer, index, shape, x, gate)
    return normalized(x, weights.final_gain, shape.epsilon) @ weights.head.T


def dense_inputs(weights: Weights, shape: Shape, ids: Tensor) -> dict[Cell, Tensor]:
    """Return the input of every matrix in the dense model, [rows, tokens, n] by cell."""
    inputs: dict[Cell, Tensor] = {}

    def record(layer: int, name: str, x: Tensor) -> Tensor:
        inputs[layer, name] = x
        return x

    forward(weights, shape, ids, record)
    return inputs


def layer_inputs(weights: Weights, shape: Shape, ids: Tensor, until: int = -1) -> list[Tensor]:
    """Return the residual stream before every layer up to `until` of the dense model, [rows, tokens, d] each."""
    streams = [weights.embedding[ids]]
    for index, layer in enumerate(weights.layers[:until]):
        streams.append(decoder_layer(layer, index, shape, streams[-1]))
    return streams
