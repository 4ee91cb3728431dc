"""The supported decoder families, in one table."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from wina_core.errors import WinaError
from wina_core.specs import ROTATION_MODES

ROTATED = "This model was exported with the residual shortcuts of a rotation; open the original one to rotate it."
"""Reason against every rotation of such a model."""

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
_UNGATED = {name: path for name, path in _SEPARATE.items() if name != "gate"}
_STARCODER2 = {name: _SEPARATE[name] for name in "qkvo"} | {"up": "mlp.c_fc", "down": "mlp.c_proj"}
_OPT = {**_ATTENTION, "o": "self_attn.out_proj", "up": "fc1", "down": "fc2"}
_PHI = {**_ATTENTION, "o": "self_attn.dense", "up": "mlp.fc1", "down": "mlp.fc2"}
_GPT_NEOX = {
    **dict.fromkeys("qkv", "attention.query_key_value"),
    "o": "attention.dense",
    "up": "mlp.dense_h_to_4h",
    "down": "mlp.dense_4h_to_h",
}
EXPERT_PROJECTIONS = {name: _SEPARATE[name].removeprefix("mlp.") for name in ("gate", "up", "down")}
"""Linear layers within an expert, once it has some of its own (`compute.models.experts`)."""

FURTHER_BIASES = (".sinks", ".moe_statics.e_score_correction_bias")
"""Ends of the names of other learned biases: of attention sinks, one a head, and of a router's choice."""


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


def _olmoe_refusal(config: Any) -> str:
    clips = getattr(config, "clip_qkv", None) is not None
    return "it clips queries, keys and values, and a clipped value does not turn with its head" if clips else ""


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
    stored_head: str = "lm_head"
    """Its name in weight files."""
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
    experts: str | None = None
    """Experts within the decoder layer, in the place of gate, up and down; layers without them have a dense MLP."""
    further_readers: tuple[str, ...] = ()
    """Modules beside the experts that read mlp_norm's output, and are never gated: the router, shared experts."""
    further_writers: tuple[str, ...] = ()
    """Linear layers beside the experts that write to the stream, likewise."""
    refusal: Callable[[Any], str] = lambda _config: ""
    """Function of the configuration: why the model is not supported, as a clause; empty if it is."""
    obstacle: Callable[[Any], str] = lambda _config: ""
    """Function of the configuration: why the residual stream cannot be rotated, as a clause; empty if it can."""

    @property
    def attention_projections(self) -> dict[str, str]:
        return {name: path for name, path in self.projections.items() if name not in EXPERT_PROJECTIONS}


def _of_experts(
    model_class: str, further_readers: tuple[str, ...] = ("mlp.gate",), further_writers: tuple[str, ...] = ()
) -> Family:
    return Family(
        model_class,
        _SEPARATE,
        experts="mlp.experts",
        further_readers=further_readers,
        further_writers=further_writers,
    )


def _of_shared_experts(model_class: str, module: str = "mlp.shared_experts", *further_readers: str) -> Family:
    """Return a family whose layers also have experts that every token reads."""
    readers = ("mlp.gate", f"{module}.gate_proj", f"{module}.up_proj", *further_readers)
    return _of_experts(model_class, readers, (f"{module}.down_proj",))


def _without_input_norms(model_class: str) -> Family:
    return Family(model_class, _SEPARATE, attention_norm=None, mlp_norm=None, obstacle=_norms_on_writes)


FAMILIES: Mapping[str, Family] = {
    "llama": Family("LlamaForCausalLM", _SEPARATE),
    "mistral": Family("MistralForCausalLM", _SEPARATE),
    "qwen2": Family("Qwen2ForCausalLM", _SEPARATE),
    "qwen3": Family("Qwen3ForCausalLM", _SEPARATE),
    "phi3": Family("Phi3ForCausalLM", _FUSED),
    "qwen3_moe": _of_experts("Qwen3MoeForCausalLM"),
    "mixtral": _of_experts("MixtralForCausalLM"),
    "olmoe": replace(_of_experts("OlmoeForCausalLM"), refusal=_olmoe_refusal),
    "gpt_oss": _of_experts("GptOssForCausalLM", ("mlp.router",)),
    "glm4_moe": _of_shared_experts("Glm4MoeForCausalLM"),
    "dots1": _of_shared_experts("Dots1ForCausalLM"),
    "qwen2_moe": _of_shared_experts("Qwen2MoeForCausalLM", "mlp.shared_expert", "mlp.shared_expert_gate"),
    "solar_open": _of_shared_experts("SolarOpenForCausalLM"),
    "exaone_moe": _of_shared_experts("ExaoneMoeForCausalLM"),
    "ernie4_5_moe": _of_shared_experts("Ernie4_5_MoeForCausalLM"),
    "mellum": _of_experts("MellumForCausalLM"),
    "granite": Family("GraniteForCausalLM", _SEPARATE),
    "granite_swa": Family("GraniteSWAForCausalLM", _SEPARATE),
    "gemma": Family("GemmaForCausalLM", _SEPARATE),
    "gemma2": Family("Gemma2ForCausalLM", _SEPARATE, mlp_norm="pre_feedforward_layernorm", obstacle=_norms_on_writes),
    "gemma3_text": Family(
        "Gemma3ForCausalLM", _SEPARATE, mlp_norm="pre_feedforward_layernorm", obstacle=_norms_on_writes
    ),
    "olmo2": _without_input_norms("Olmo2ForCausalLM"),
    "olmo3": _without_input_norms("Olmo3ForCausalLM"),
    "exaone4": _without_input_norms("Exaone4ForCausalLM"),
    "smollm3": Family("SmolLM3ForCausalLM", _SEPARATE),
    "ministral": Family("MinistralForCausalLM", _SEPARATE),
    "ministral3": Family("Ministral3ForCausalLM", _SEPARATE),
    "cwm": Family("CwmForCausalLM", _SEPARATE),
    "helium": Family("HeliumForCausalLM", _SEPARATE),
    "seed_oss": Family("SeedOssForCausalLM", _SEPARATE),
    "ernie4_5": Family("Ernie4_5ForCausalLM", _SEPARATE),
    "hunyuan_v1_dense": Family("HunYuanDenseV1ForCausalLM", _SEPARATE),
    "arcee": Family("ArceeForCausalLM", _UNGATED),
    "jais2": Family("Jais2ForCausalLM", _UNGATED),
    "starcoder2": Family("Starcoder2ForCausalLM", _STARCODER2),
    "stablelm": Family("StableLmForCausalLM", _SEPARATE),
    "phi": Family(
        "PhiForCausalLM",
        _PHI,
        final_norm="model.final_layernorm",
        mlp_norm="input_layernorm",
        parallel=True,
    ),
    "gpt_neox": Family(
        "GPTNeoXForCausalLM",
        _GPT_NEOX,
        embedding="gpt_neox.embed_in",
        layers="gpt_neox.layers",
        final_norm="gpt_neox.final_layer_norm",
        stored_head="embed_out",
        attention="attention",
        interleaved=True,
        parallel=True,
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
    if family is not None and model_class in (None, family.model_class):
        return family
    reason = f"only {family.model_class} is" if family else "the table of families cannot describe it"
    raise WinaError(
        f"{model_class or 'A model'} of type {model_type} is not a supported architecture, because {reason}; "
        f"open a causal language model of one of these families: {', '.join(FAMILIES)}."
    )


def refused_rotations(obstacle: str, *, parallel: bool) -> dict[str, str]:
    """Return {mode that is not exact: reason, a clause about the model} for a family's `obstacle`, empty for none.

    Rotating the values per head is exact in every supported model, in any exact mode.
    """
    if obstacle:
        return dict.fromkeys(ROTATION_MODES[1:], obstacle)
    if parallel:
        reason = "its attention and MLP read the same point of the residual stream, so they share one basis"
        return {"per_site": reason}
    return {}


def rotation_reason(refused: Mapping[str, str]) -> str:
    """Return the refused rotations and their reason, in one sentence; empty if none is refused."""
    if not refused:
        return ""
    return f"No {' or '.join(refused)} rotation is exact here, because {next(iter(refused.values()))}."
