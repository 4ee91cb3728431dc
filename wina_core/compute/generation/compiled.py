"""A prepared model, gated or dense, as one call of the native library per token.

The call computes in float32 from the stored weights, keys and values; prompts stay in torch. Models that it does not
support are decoded by transformers, and the caller gets the reason in words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import DynamicCache
from wina_kernels.native.abi import loaded as native_library
from wina_kernels.native.token import (
    CACHE_DTYPES,
    MOST_PROJECTIONS,
    DecoderLayer,
    DecoderProjection,
    NativeDecoder,
    TokenCall,
)
from wina_kernels.planes import PlaneWeight
from wina_kernels.weights import WeightT

from wina_core.compute.gating import Gates
from wina_core.compute.gating.decoding import is_plain
from wina_core.compute.gating.linear import MaskGroup
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.norms import norm_gain
from wina_core.compute.models.quantized_linear import QuantizedLinear
from wina_core.compute.models.shape import attention_windows
from wina_core.compute.models.shortcuts import shortcut_parameters
from wina_core.compute.models.view import LayerView
from wina_core.compute.scoring import TopKSelection
from wina_core.specs.methods.base import BLOCKS

FAMILIES = ("llama", "mistral", "qwen2", "qwen3", "phi3")
_STATIC_ROTARY = ("default", "linear", "llama3", "yarn")
"""Rotary embeddings whose frequencies do not depend on the sequence's length."""


@dataclass(frozen=True, eq=False)
class CompiledModel:
    """A model compiled for sequences of a limited length; its weights and gates must keep their addresses."""

    call: TokenCall
    dense: TokenCall
    """The same for tokens without gates, which have no tuned biases."""
    loaded: LoadedModel

    @torch.no_grad()
    def greedy(self, prompt: Tensor) -> Iterator[int]:
        """Yield the most likely tokens after a prompt [1, tokens], one after the other."""
        past = DynamicCache(config=self.loaded.model.config)
        logits = self.loaded.model(prompt, past_key_values=past, use_cache=True, logits_to_keep=1).logits[0, -1]
        sequence = self.begin(past)
        while True:
            token = int(logits.argmax())
            yield token
            logits = sequence.read(token)

    def begin(self, past: DynamicCache) -> CompiledSequence:
        """Return the sequence that a prompt's cache holds, ready for its next token."""
        view = self.loaded.view
        length = past.get_seq_length()
        shape = len(view.layers), 2, view.kv_heads, self.call.positions, view.head_dim
        cache = torch.empty(shape, dtype=self.loaded.dtype)
        for layer_cache, layer in zip(cache, past.layers, strict=True):
            for kind, states in enumerate((layer.keys, layer.values)):
                # A sliding window may hold fewer tokens than were read: they are the last ones.
                layer_cache[kind, :, length - states.shape[2] : length] = states[0]
        return CompiledSequence(self.call, self.dense, cache, length)


class CompiledSequence:
    """One sequence with its own keys and values."""

    def __init__(self, call: TokenCall, dense: TokenCall, cache: Tensor, length: int) -> None:
        self._call, self._dense, self._cache = call, dense, cache
        self.length = length
        """Tokens read."""

    def read(self, token: int, *, gated: bool = True) -> Tensor:
        """Read a token and return the logits [vocabulary] of the next one, float32; with `gated` False every input is
        kept and nothing is counted."""
        call = self._call if gated else self._dense
        logits = call(self._cache, token, self.length, gated=gated)
        self.length += 1
        return logits


def compile_model(loaded: LoadedModel, gates: Gates | None, positions: int) -> CompiledModel | str:
    """Return the model compiled for sequences of at most `positions` tokens, or the reason why it is not.

    Gates must have been attached with kernels, so that their weights lie transposed. They count the inputs of compiled
    tokens like any others.
    """
    reason = next(_gate_obstacles(gates), "") or _obstacle(loaded, gates)
    if reason:
        return reason
    groups = {} if gates is None else {forward.linear: forward.groups for forward in gates.forwards}
    call = dense = TokenCall(_decoder(loaded, groups, positions))
    if any(group.bias is not None for masks in groups.values() for group in masks):
        dense = TokenCall(_decoder(loaded, groups, positions, tuned=False))
    return CompiledModel(call, dense, loaded)


def _decoder(
    loaded: LoadedModel, groups: Mapping[nn.Linear, list[MaskGroup]], positions: int, *, tuned: bool = True
) -> NativeDecoder:
    view, model = loaded.view, loaded.model
    windows = attention_windows(model.config, len(view.layers))
    cosines, sines = _rotary(model.model.rotary_emb, positions)
    return NativeDecoder(
        hidden=view.hidden_size,
        units=model.config.intermediate_size,
        heads=view.heads,
        kv_heads=view.kv_heads,
        head_dim=view.head_dim,
        epsilon=model.config.rms_norm_eps,
        attention_scale=float(view.layers[0].attention.scaling),  # type: ignore[arg-type]  # a number
        embedding=view.embedding.weight.detach(),
        cosines=cosines,
        sines=sines,
        final_norm=norm_gain(view.final_norm),
        layers=[_layer(layer, groups, window or 0, tuned) for layer, window in zip(view.layers, windows, strict=True)],
        head=_plain(view.head, 0),
    )


def _obstacle(loaded: LoadedModel, gates: Gates | None) -> str:
    """Return the reason why the model is not compiled, apart from its gates; empty if it is."""
    if reason := _family_obstacle(loaded):
        return reason
    if loaded.device.type != "cpu":
        return f"the model is on {loaded.device}"
    if loaded.dtype not in CACHE_DTYPES:
        return f"weights in {str(loaded.dtype).removeprefix('torch.')} are not compiled"
    return model_obstacle(loaded, gates) or ("" if native_library() else "the native library is missing")


def _family_obstacle(loaded: LoadedModel) -> str:
    family = loaded.view.family
    return "" if family in FAMILIES else f"models of type {family} are not compiled"


def model_obstacle(loaded: LoadedModel, gates: Gates | None) -> str:
    """Return the reason why a model's step can be neither compiled nor fused; empty if it can."""
    if reason := _family_obstacle(loaded):
        return reason
    config = loaded.model.config
    if config.hidden_act != "silu":
        return f"the activation {config.hidden_act} is not compiled"
    if config.rope_parameters["rope_type"] not in _STATIC_ROTARY:
        return f"rotary embeddings of type {config.rope_parameters['rope_type']} are not compiled"
    if shortcut_parameters(loaded.model):
        return "the rotation has shortcuts"
    forwards = {} if gates is None else {forward.linear: forward for forward in gates.forwards}
    for name, module in loaded.model.named_modules():
        # Any other hook or forward pass computes something that the compiled step does not.
        hooked = name and (module._forward_hooks or module._forward_pre_hooks)
        if hooked or module.__dict__.get("forward", forwards.get(module)) is not forwards.get(module):
            return f"{name or 'the model'} has a forward pass of its own"
    return ""


def _gate_obstacles(gates: Gates | None) -> Iterator[str]:
    """Yield the reasons why gates are not compiled."""
    for forward in () if gates is None else gates.forwards:
        if len(forward.groups) > MOST_PROJECTIONS:
            yield "a layer has too many masks"
        if isinstance(forward.linear, QuantizedLinear):
            if len(forward.groups) > 1:
                yield "a fused quantized layer has several masks"
        elif forward.linear.weight.stride(0) != 1:
            yield "the gates were attached without kernels"
        for group in forward.groups:
            if not isinstance(group.rows, slice):
                yield "a fused layer interleaves its outputs"
            if group.low_rank is not None or group.signal is not None:
                yield "the method adds a low-rank part or scores another tensor"
            if group.rule is not None and not is_plain(group.rule):
                yield "the gate's rule is not compiled"


def _rotary(embedding: Any, positions: int) -> tuple[Tensor, Tensor]:
    """Return cosines and sines [positions, rotary_dim / 2], float32."""
    # The first argument gives no more than dtype and device; the second half of a table repeats the first.
    both = embedding(torch.empty(0), torch.arange(positions)[None])
    cosines, sines = (table[0, :, : table.shape[-1] // 2].contiguous() for table in both)
    return cosines, sines


def _layer(layer: LayerView, groups: Mapping[nn.Linear, list[MaskGroup]], window: int, tuned: bool) -> DecoderLayer:
    attention: Any = layer.attention
    qkv, o, gate_up, down = (list(_block(layer, names, groups, tuned)) for names in BLOCKS)
    return DecoderLayer(
        attention_norm=norm_gain(layer.attention_norm),
        mlp_norm=norm_gain(layer.mlp_norm),
        qkv=qkv,
        o=o,
        gate_up=gate_up,
        down=down,
        query_norm=norm_gain(attention.q_norm) if hasattr(attention, "q_norm") else None,
        key_norm=norm_gain(attention.k_norm) if hasattr(attention, "k_norm") else None,
        window=window,
    )


def _block(
    layer: LayerView, names: Sequence[str], groups: Mapping[nn.Linear, list[MaskGroup]], tuned: bool
) -> Iterator[DecoderProjection]:
    """Yield the products of projections that read the same input, in the order of their outputs."""
    first = 0
    for linear in dict.fromkeys(layer.projections[name].linear for name in names):
        masks = groups.get(linear)
        if masks is None:
            yield _plain(linear, first)
        else:
            yield from (_gated(linear, group, first, tuned) for group in masks)
        first += linear.out_features


def _plain(linear: nn.Linear, first: int) -> DecoderProjection:
    bias = None if linear.bias is None else linear.bias.detach()
    if isinstance(linear, QuantizedLinear):
        return DecoderProjection(linear.weight_t, first, bias=bias)
    return DecoderProjection(None, first, dense=linear.weight.detach().contiguous(), bias=bias)


def _gated(linear: nn.Linear, group: MaskGroup, first: int, tuned: bool) -> DecoderProjection:
    """Return the product of a mask's rows, with its tuned bias or without; its counts become the group's."""
    assert isinstance(group.rows, slice)  # _gate_obstacles
    start, stop, _ = group.rows.indices(linear.out_features)
    stored_bias = None if linear.bias is None else linear.bias[start:stop]
    bias = group.whole_bias(linear) if tuned else stored_bias
    bias = None if bias is None else bias.detach()
    weight_t: WeightT | PlaneWeight
    weight_t = linear.weight_t if isinstance(linear, QuantizedLinear) else linear.weight.detach()[start:stop].t()
    if group.rule is None:
        return DecoderProjection(weight_t, first + start, bias=bias)
    # The library counts at these addresses, so the tensors must exist before the call is made.
    if group.counts is None:
        group.counts = torch.zeros(1, 2, dtype=torch.int64)
    if group.plane_counts is None and isinstance(weight_t, PlaneWeight):
        group.plane_counts = torch.zeros(1, dtype=torch.int64)
    # Scores are never negative, so the threshold -1 keeps every input.
    select, threshold, keep = group.rule.select, -1.0, 0
    if not select.keeps_all(linear.in_features):
        if isinstance(select, TopKSelection):
            keep = select.keep
        else:
            threshold, keep = select.threshold, select.fewest
    return DecoderProjection(
        weight_t,
        first + start,
        bias=bias,
        scale=group.rule.scale,
        threshold=threshold,
        keep=keep,
        counts=group.counts,
        planes=group.plane_counts,
    )
