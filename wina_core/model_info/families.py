"""The supported decoder families, in one table."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from wina_core.errors import WinaError
from wina_core.specs import ROTATION_MODES

PROJECTIONS = ("q", "k", "v", "o", "gate", "up", "down")
"""All canonical names, in the order of every plan's columns; without a gated MLP there is no "gate"."""

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


_ROUTER = ("mlp.gate",)


_SHARED = (*_ROUTER, "mlp.shared_experts.gate_proj", "mlp.shared_experts.up_proj")
_GATED_SHARED = (*_ROUTER, "mlp.shared_expert.gate_proj", "mlp.shared_expert.up_proj", "mlp.shared_expert_gate")


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
    rotary_share: float = 1.0
    """Share of each head with rotary embeddings, unless the configuration says."""
    window_pattern: int = 0
    """Every which layer attends to all positions, unless the configuration says; 0 for none."""
    full_layer: int = -1
    """A layer that attends to all positions, from which window_pattern counts on."""
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


FAMILIES: Mapping[str, Family] = {
    "llama": Family("LlamaForCausalLM", _SEPARATE),
    "mistral": Family("MistralForCausalLM", _SEPARATE),
    "qwen2": Family("Qwen2ForCausalLM", _SEPARATE),
    "qwen3": Family("Qwen3ForCausalLM", _SEPARATE),
    "phi3": Family("Phi3ForCausalLM", _FUSED),
    "qwen3_moe": Family("Qwen3MoeForCausalLM", _SEPARATE, experts="mlp.experts", further_readers=_ROUTER),
    "mixtral": Family("MixtralForCausalLM", _SEPARATE, experts="mlp.experts", further_readers=_ROUTER),
    "olmoe": Family(
        "OlmoeForCausalLM", _SEPARATE, experts="mlp.experts", further_readers=_ROUTER, refusal=_olmoe_refusal
    ),
    "gpt_oss": Family(
        "GptOssForCausalLM", _SEPARATE, experts="mlp.experts", further_readers=("mlp.router",), window_pattern=2
    ),
    "glm4_moe": Family(
        "Glm4MoeForCausalLM",
        _SEPARATE,
        experts="mlp.experts",
        further_readers=_SHARED,
        further_writers=("mlp.shared_experts.down_proj",),
    ),
    "dots1": Family(
        "Dots1ForCausalLM",
        _SEPARATE,
        experts="mlp.experts",
        further_readers=_SHARED,
        further_writers=("mlp.shared_experts.down_proj",),
    ),
    "qwen2_moe": Family(
        "Qwen2MoeForCausalLM",
        _SEPARATE,
        experts="mlp.experts",
        further_readers=_GATED_SHARED,
        further_writers=("mlp.shared_expert.down_proj",),
    ),
    "solar_open": Family(
        "SolarOpenForCausalLM",
        _SEPARATE,
        experts="mlp.experts",
        further_readers=_SHARED,
        further_writers=("mlp.shared_experts.down_proj",),
    ),
    "exaone_moe": Family(
        "ExaoneMoeForCausalLM",
        _SEPARATE,
        experts="mlp.experts",
        further_readers=_SHARED,
        further_writers=("mlp.shared_experts.down_proj",),
        window_pattern=4,
    ),
    "ernie4_5_moe": Family(
        "Ernie4_5_MoeForCausalLM",
        _SEPARATE,
        experts="mlp.experts",
        further_readers=_SHARED,
        further_writers=("mlp.shared_experts.down_proj",),
    ),
    "mellum": Family("MellumForCausalLM", _SEPARATE, experts="mlp.experts", further_readers=_ROUTER, window_pattern=1),
    "granite": Family("GraniteForCausalLM", _SEPARATE),
    "granite_swa": Family("GraniteSWAForCausalLM", _SEPARATE, window_pattern=4, full_layer=0),
    "gemma": Family("GemmaForCausalLM", _SEPARATE),
    "gemma2": Family(
        "Gemma2ForCausalLM",
        _SEPARATE,
        mlp_norm="pre_feedforward_layernorm",
        obstacle=_norms_on_writes,
        window_pattern=2,
    ),
    "gemma3_text": Family(
        "Gemma3ForCausalLM",
        _SEPARATE,
        mlp_norm="pre_feedforward_layernorm",
        obstacle=_norms_on_writes,
        window_pattern=6,
    ),
    "olmo2": Family("Olmo2ForCausalLM", _SEPARATE, attention_norm=None, mlp_norm=None, obstacle=_norms_on_writes),
    "olmo3": Family(
        "Olmo3ForCausalLM",
        _SEPARATE,
        attention_norm=None,
        mlp_norm=None,
        obstacle=_norms_on_writes,
        window_pattern=4,
    ),
    "exaone4": Family(
        "Exaone4ForCausalLM",
        _SEPARATE,
        attention_norm=None,
        mlp_norm=None,
        obstacle=_norms_on_writes,
        window_pattern=4,
    ),
    "smollm3": Family("SmolLM3ForCausalLM", _SEPARATE),
    "ministral": Family("MinistralForCausalLM", _SEPARATE),
    "ministral3": Family("Ministral3ForCausalLM", _SEPARATE),
    "cwm": Family("CwmForCausalLM", _SEPARATE, window_pattern=4, full_layer=0),
    "helium": Family("HeliumForCausalLM", _SEPARATE),
    "seed_oss": Family("SeedOssForCausalLM", _SEPARATE),
    "ernie4_5": Family("Ernie4_5ForCausalLM", _SEPARATE),
    "hunyuan_v1_dense": Family("HunYuanDenseV1ForCausalLM", _SEPARATE),
    "arcee": Family("ArceeForCausalLM", _UNGATED),
    "jais2": Family("Jais2ForCausalLM", _UNGATED),
    "starcoder2": Family("Starcoder2ForCausalLM", _STARCODER2),
    "stablelm": Family("StableLmForCausalLM", _SEPARATE, rotary_share=0.25),
    "phi": Family(
        "PhiForCausalLM",
        _PHI,
        final_norm="model.final_layernorm",
        mlp_norm="input_layernorm",
        parallel=True,
        rotary_share=0.5,
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
        rotary_share=0.25,
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

_LATENT = "its attention makes queries, keys and values from compressed vectors instead of the residual stream"
_LINEAR = "many of its layers have linear attention, whose matrices are not q, k, v and o"
_NO_ATTENTION = "some of its layers have convolutions or state spaces in the place of attention"
_OWN_INPUTS = "its layers read embeddings of their own beside the residual stream"
_HALF_FUSED = "its gate and up are one matrix and its q, k and v are three, which costs are not counted for"
_STREAMS = "it has several residual streams, which every layer mixes"
_GATED_ATTENTION = "its attention is multiplied by a gate, whose matrix is none of q, k, v and o"
_CENTRED = "its norms subtract the mean but are no LayerNorm of torch, for which no rotation is written"
_TWO_INPUTS = "its router takes a bias as a second input, which the table cannot describe"
_SCALED_INPUTS = "its experts read inputs that the router has multiplied"
REFUSED: Mapping[str, str] = {
    **dict.fromkeys(("deepseek_v2", "deepseek_v3", "deepseek_v32", "glm4_moe_lite", "minicpm3", "youtu"), _LATENT),
    **dict.fromkeys(("axk1", "glm_moe_dsa", "longcat_flash"), _LATENT),
    **dict.fromkeys(("deepseek_v4", "hy_v4", "qwen4_exp", "qwen4_exp_text"), _STREAMS),
    **dict.fromkeys(("qwen3_next", "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text"), _LINEAR),
    **dict.fromkeys(("kimi_linear", "minimax", "olmo_hybrid"), _LINEAR),
    **dict.fromkeys(("lfm2", "lfm2_moe", "lfm3", "falcon_h1"), _NO_ATTENTION),
    **dict.fromkeys(("granitemoehybrid", "jamba", "nemotron_h"), _NO_ATTENTION),
    **dict.fromkeys(("gemma3n", "gemma3n_text", "gemma4", "gemma4_text"), _OWN_INPUTS),
    **dict.fromkeys(("glm", "glm4"), _HALF_FUSED),
    **dict.fromkeys(("afmoe", "laguna"), _GATED_ATTENTION),
    **dict.fromkeys(("cohere", "cohere2"), _CENTRED),
    **dict.fromkeys(("hy_v3", "minimax_m2"), _TWO_INPUTS),
    **dict.fromkeys(("llama4", "llama4_text"), _SCALED_INPUTS),
    "apertus": "its activation function has learned numbers of its own, which costs are not counted for",
    "bitnet": "a norm lies between its v and o, so that its values cannot be rotated by head",
    "hunyuan_v1_moe": "its config may choose another number of experts in each layer, which costs are not counted for",
    "mimo_v2_flash": "some of its layers have twice the key-value heads of the others, which costs are not counted for",
    "nanochat": "it normalizes the residual stream itself",
    "nemotron": "its norms center with a gain of 1 + w, for which no rotation is written",
}
"""Reasons, as clauses, against families that transformers has and this table cannot describe."""


def family_of(model_type: str, model_class: str | None) -> Family:
    """Return the table's entry; raise WinaError for a class that is not in it. The class may be unknown (None)."""
    family = FAMILIES.get(model_type)
    if family is not None and model_class in (None, family.model_class):
        return family
    unknown = "the table of families has no entry for it"
    reason = f"only {family.model_class} is" if family else REFUSED.get(model_type, unknown)
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
