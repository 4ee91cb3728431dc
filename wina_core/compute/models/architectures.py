"""The supported decoder families, in one table, and the uniform view of a model."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import torch
from torch import nn

from wina_core.compute.models.quantized_linear import QuantizedLinear
from wina_core.compute.models.view import PROJECTIONS, LayerView, ModelView, Projection, Rows
from wina_core.errors import WinaError

_SEPARATE = {
    "q": "self_attn.q_proj",
    "k": "self_attn.k_proj",
    "v": "self_attn.v_proj",
    "o": "self_attn.o_proj",
    "gate": "mlp.gate_proj",
    "up": "mlp.up_proj",
    "down": "mlp.down_proj",
}
_FUSED = _SEPARATE | {
    "q": "self_attn.qkv_proj",
    "k": "self_attn.qkv_proj",
    "v": "self_attn.qkv_proj",
    "gate": "mlp.gate_up_proj",
    "up": "mlp.gate_up_proj",
}
_ATTENTION = {name: _SEPARATE[name] for name in "qkv"}
_OPT = {**_ATTENTION, "o": "self_attn.out_proj", "up": "fc1", "down": "fc2"}
_PHI = {**_ATTENTION, "o": "self_attn.dense", "up": "mlp.fc1", "down": "mlp.fc2"}
_GPT_NEOX = {
    **dict.fromkeys("qkv", "attention.query_key_value"),
    "o": "attention.dense",
    "up": "mlp.dense_h_to_4h",
    "down": "mlp.dense_4h_to_h",
}


def _norms_on_writes(_config: Any) -> str:
    return (
        "what its attention and MLP write passes a norm with a gain before it joins the residual stream, and such a "
        "gain does not commute with a rotation"
    )


def _opt_obstacle(config: Any) -> str:
    if not config.do_layer_norm_before:
        return "its norms act on the residual stream itself, and their gains do not commute with a rotation"
    if config.word_embed_proj_dim != config.hidden_size:
        return "its embedding and its head are projected to and from the residual stream"
    return "it has no final norm" if config._remove_final_layer_norm else ""


@dataclass(frozen=True)
class Family:
    """Attribute paths of a decoder's parts, and its differences from the llama family.

    Projections that name the same linear layer are its row blocks, in the order of PROJECTIONS. Biases and tied
    embeddings are read off the model, so checkpoints that differ from their family's habit are covered.
    """

    model_class: str
    """transformers' class."""
    projections: Mapping[str, str]
    """{canonical name: linear layer within the decoder layer}; no "gate" without a gated MLP."""
    embedding: str = "model.embed_tokens"
    positions: str | None = None
    """Learned positions, if any."""
    layers: str = "model.layers"
    final_norm: str = "model.norm"
    head: str = "lm_head"
    attention_norm: str | None = "input_layernorm"
    """Within the decoder layer, like the next three; None if q, k, v read the residual stream itself."""
    mlp_norm: str | None = "post_attention_layernorm"
    attention: str = "self_attn"
    mlp: tuple[str, ...] = ("mlp",)
    """Modules from mlp_norm's output to the written result, in order."""
    parallel: bool = False
    """Whether attention and MLP read the same point of the stream, unless the configuration says."""
    interleaved: bool = False
    """Whether fused q, k, v are ordered by head, (heads, 3, head_dim), instead of one after the other."""
    obstacle: Callable[[Any], str] = lambda _config: ""
    """Function of the configuration: why the residual stream cannot be rotated, as a clause; empty if it can."""


FAMILIES: Mapping[str, Family] = {
    "llama": Family("LlamaForCausalLM", _SEPARATE),
    "mistral": Family("MistralForCausalLM", _SEPARATE),
    "qwen2": Family("Qwen2ForCausalLM", _SEPARATE),
    "qwen3": Family("Qwen3ForCausalLM", _SEPARATE),
    "phi3": Family("Phi3ForCausalLM", _FUSED),
    "granite": Family("GraniteForCausalLM", _SEPARATE),
    "gemma2": Family("Gemma2ForCausalLM", _SEPARATE, mlp_norm="pre_feedforward_layernorm", obstacle=_norms_on_writes),
    "gemma3_text": Family(
        "Gemma3ForCausalLM", _SEPARATE, mlp_norm="pre_feedforward_layernorm", obstacle=_norms_on_writes
    ),
    "olmo2": Family("Olmo2ForCausalLM", _SEPARATE, attention_norm=None, mlp_norm=None, obstacle=_norms_on_writes),
    "stablelm": Family("StableLmForCausalLM", _SEPARATE),
    "phi": Family(
        "PhiForCausalLM", _PHI, final_norm="model.final_layernorm", mlp_norm="input_layernorm", parallel=True
    ),
    "gpt_neox": Family(
        "GPTNeoXForCausalLM",
        _GPT_NEOX,
        embedding="gpt_neox.embed_in",
        layers="gpt_neox.layers",
        final_norm="gpt_neox.final_layer_norm",
        attention="attention",
        interleaved=True,
    ),
    "opt": Family(
        "OPTForCausalLM",
        _OPT,
        embedding="model.decoder.embed_tokens",
        positions="model.decoder.embed_positions",
        layers="model.decoder.layers",
        final_norm="model.decoder.final_layer_norm",
        attention_norm="self_attn_layer_norm",
        mlp_norm="final_layer_norm",
        mlp=("fc1", "activation_fn", "fc2"),
        obstacle=_opt_obstacle,
    ),
}
"""Keys are transformers' `model_type`."""


def family_of(model_type: str, model_class: str | None) -> Family:
    """Return the table's entry; raise WinaError for a class that is not in it. The class may be unknown (None)."""
    family = FAMILIES.get(model_type)
    if family is None or model_class not in (None, family.model_class):
        raise WinaError(
            f"{model_class or 'A model'} of type {model_type} is not a supported architecture; "
            f"open a causal language model of one of these families: {', '.join(FAMILIES)}."
        )
    return family


def view(model: nn.Module) -> ModelView:
    """Return uniform access to a transformers model's norms and projections; raise WinaError for an unsupported
    class."""
    config: Any = model.config
    family = family_of(config.model_type, type(model).__name__)
    heads = config.num_attention_heads
    kv_heads = getattr(config, "num_key_value_heads", None) or heads
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // heads
    attention_rows = {"q": heads * head_dim, "k": kv_heads * head_dim, "v": kv_heads * head_dim}
    parallel = getattr(config, "use_parallel_residual", family.parallel)
    multiplier = getattr(config, "residual_multiplier", 1.0)
    layers = attrgetter(family.layers)(model)
    if not layers:
        raise WinaError("The model has no layers; correct num_hidden_layers in its config.json.")

    def layer_view(index: int, layer: nn.Module) -> LayerView:
        attention_norm = _part(layer, family.attention_norm)
        return LayerView(
            index=index,
            module=layer,
            attention_norm=attention_norm or nn.Identity(),
            # A parallel layer may have one norm for both.
            mlp_norm=_part(layer, family.mlp_norm) or attention_norm or nn.Identity(),
            projections={each.name: each for each in _projections(family, index, layer, attention_rows, head_dim)},
            attention=attrgetter(family.attention)(layer),
            mlp=tuple(attrgetter(path)(layer) for path in family.mlp),
            parallel=parallel,
            multiplier=multiplier,
        )

    return ModelView(
        family=config.model_type,
        model=model,
        embedding=attrgetter(family.embedding)(model),
        positions=_part(model, family.positions),
        layers=tuple(layer_view(index, layer) for index, layer in enumerate(layers)),
        final_norm=_part(model, family.final_norm) or nn.Identity(),
        head=attrgetter(family.head)(model),
        hidden_size=config.hidden_size,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        obstacle=family.obstacle(config),
    )


def _part(module: nn.Module, path: str | None) -> Any:
    return None if path is None else attrgetter(path)(module)


def _projections(
    family: Family, index: int, layer: nn.Module, attention_rows: Mapping[str, int], head_dim: int
) -> Iterator[Projection]:
    used: dict[str, int] = {}
    for name in (name for name in PROJECTIONS if name in family.projections):
        path = family.projections[name]
        linear = attrgetter(path)(layer)
        if type(linear) not in (nn.Linear, QuantizedLinear):
            raise WinaError(
                f"{path} of layer {index} is a {type(linear).__name__} instead of a plain linear layer; "
                "open the model's unquantized weights."
            )
        shared = sum(other == path for other in family.projections.values())
        start = used.get(path, 0)
        used[path] = start + attention_rows.get(name, linear.out_features // shared)
        rows: Rows = slice(start, used[path])
        if family.interleaved and shared > 1:
            of_head = "qkv".index(name) * head_dim
            blocks = torch.arange(linear.out_features, device=linear.weight.device).view(-1, shared * head_dim)
            rows = blocks[:, of_head : of_head + head_dim].flatten()
        yield Projection(index, name, linear, rows)
