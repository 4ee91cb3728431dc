"""The supported decoder families, in one table, and the uniform view of a model that is built from it."""

from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from torch import nn

from wina_core.errors import WinaError
from wina_core.models.view import PROJECTIONS, LayerView, ModelView, Projection

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


@dataclass(frozen=True)
class Family:
    """Where a pre-norm decoder with RMSNorm, gated MLP and rotary attention keeps its parts (dotted attributes).

    Projections that name the same linear layer are its row blocks, in the order of PROJECTIONS. A bias, where
    there is one, lies with its linear layer, and an embedding is tied when head and embedding share one parameter:
    both are read off the model, so that checkpoints which differ from their family's habit are covered.
    Within the decoder layer, all name the norms and the two branches alike (see `shortcuts`).
    """

    model_class: str
    """transformers' class."""
    projections: Mapping[str, str]
    """Canonical name -> linear layer within the decoder layer."""
    embedding: str = "model.embed_tokens"
    layers: str = "model.layers"
    final_norm: str = "model.norm"
    head: str = "lm_head"


FAMILIES: Mapping[str, Family] = {
    "llama": Family("LlamaForCausalLM", _SEPARATE),
    "mistral": Family("MistralForCausalLM", _SEPARATE),
    "qwen2": Family("Qwen2ForCausalLM", _SEPARATE),
    "qwen3": Family("Qwen3ForCausalLM", _SEPARATE),
    "phi3": Family("Phi3ForCausalLM", _FUSED),
}
"""Keys are transformers' `model_type`."""


def family_of(model_type: str, model_class: str | None) -> Family:
    """The table's entry; raises WinaError for a class that is not in it. The class may be unknown (None)."""
    family = FAMILIES.get(model_type)
    if family is None or model_class not in (None, family.model_class):
        raise WinaError(
            f"{model_class or 'A model'} of type {model_type} is not a supported architecture; "
            f"open a causal language model of one of these families: {', '.join(FAMILIES)}."
        )
    return family


def view(model: nn.Module) -> ModelView:
    """Uniform access to a transformers model's norms and projections; raises WinaError for an unsupported class."""
    config: Any = model.config
    family = family_of(config.model_type, type(model).__name__)
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    rows = {
        "q": config.num_attention_heads * head_dim,
        "k": config.num_key_value_heads * head_dim,
        "v": config.num_key_value_heads * head_dim,
        "o": config.hidden_size,
        "gate": config.intermediate_size,
        "up": config.intermediate_size,
        "down": config.hidden_size,
    }
    return ModelView(
        family=config.model_type,
        model=model,
        embedding=attrgetter(family.embedding)(model),
        layers=tuple(
            LayerView(
                index=index,
                module=layer,
                attention_norm=layer.input_layernorm,
                mlp_norm=layer.post_attention_layernorm,
                projections=_projections(family, index, layer, rows),
            )
            for index, layer in enumerate(attrgetter(family.layers)(model))
        ),
        final_norm=attrgetter(family.final_norm)(model),
        head=attrgetter(family.head)(model),
        hidden_size=config.hidden_size,
        heads=config.num_attention_heads,
        kv_heads=config.num_key_value_heads,
        head_dim=head_dim,
    )


def _projections(family: Family, index: int, layer: nn.Module, rows: dict[str, int]) -> dict[str, Projection]:
    used: dict[str, int] = {}
    projections = {}
    for name in PROJECTIONS:
        path = family.projections[name]
        start = used.get(path, 0)
        used[path] = start + rows[name]
        linear = attrgetter(path)(layer)
        if type(linear) is not nn.Linear:
            raise WinaError(
                f"{path} of layer {index} is a {type(linear).__name__} instead of a plain linear layer; "
                "open the model's unquantized weights."
            )
        projections[name] = Projection(index, name, linear, slice(start, used[path]))
    return projections
