"""Tiny random models of every supported family, with everything that makes rotation hard: grouped queries, norm
weights far from one, biases, scalar multipliers, soft caps, sliding windows and partial rotary embeddings where the
family has them."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

from wina_core.compute.models.architectures import view
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.norms import compute_norms_in_float64
from wina_core.model_info.families import FAMILIES
from wina_core.specs import ModelSource

if TYPE_CHECKING:  # loaded before wina_core.compute.models, it loads libraries that nothing here uses
    from transformers import PreTrainedModel

VOCABULARY = 257  # the bytes, and an end-of-text token
TEXT = "The rows of a matrix that a sparse input leaves out are never read.\n" * 40

_GROUPED = {"num_key_value_heads": 2}
_SIZES = {"intermediate_size": 80, "head_dim": 8, **_GROUPED}
_ACTIVE = {"num_experts_per_tok": 2}
_EXPERTS = {"moe_intermediate_size": 24, **_ACTIVE}
_SHARED_EXPERTS = {
    **_EXPERTS,
    "n_routed_experts": 6,
    "n_shared_experts": 2,
    "n_group": 2,
    "topk_group": 1,
    "first_k_dense_replace": 1,
    "norm_topk_prob": True,
    "routed_scaling_factor": 1.5,
    "use_qk_norm": True,
    "sliding_window": None,
}
_YARN = {
    "rope_type": "yarn",
    "rope_theta": 10000.0,
    "factor": 2.0,
    "original_max_position_embeddings": 256,
    "llama_4_scaling_beta": 0.1,
}
_GEMMA = {**_SIZES, "sliding_window": 8, "query_pre_attn_scalar": 5, "final_logit_softcapping": 4.0}
_GRANITE = {
    **_SIZES,
    "attention_bias": True,
    "mlp_bias": True,
    "embedding_multiplier": 3.0,
    "residual_multiplier": 0.4,
    "attention_multiplier": 0.2,
    "logits_scaling": 2.0,
}
_WINDOWS = {"sliding_window": 8, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}
FAMILY_SETTINGS: dict[str, dict[str, Any]] = {
    "llama": {**_SIZES, "attention_bias": True, "mlp_bias": True, "sliding_window": None},
    **{family: {**_SIZES, "sliding_window": None} for family in ("mistral", "qwen2", "qwen3", "phi3")},
    "qwen3_moe": {**_SIZES, "sliding_window": None, **_EXPERTS, "num_experts": 6, "mlp_only_layers": [0]},
    "mixtral": {**_SIZES, "sliding_window": None, "intermediate_size": 24, **_ACTIVE, "num_local_experts": 6},
    "olmoe": {**_GROUPED, "intermediate_size": 24, **_ACTIVE, "num_experts": 6},
    "gpt_oss": {
        **_SIZES,
        "intermediate_size": 24,
        **_ACTIVE,
        "num_local_experts": 6,
        "sliding_window": 8,
        "swiglu_limit": 0.7,
        "rope_parameters": {name: value for name, value in _YARN.items() if name != "llama_4_scaling_beta"},
    },
    **{family: {**_SIZES, **_SHARED_EXPERTS} for family in ("glm4_moe", "dots1")},
    "qwen2_moe": {
        **_GROUPED,
        "intermediate_size": 80,
        "sliding_window": None,
        **_EXPERTS,
        "num_experts": 6,
        "shared_expert_intermediate_size": 40,
        "mlp_only_layers": [0],
    },
    "solar_open": {**_SIZES, **_SHARED_EXPERTS},
    "exaone_moe": {**_SIZES, **_SHARED_EXPERTS, "num_experts": 6, "num_shared_experts": 2, **_WINDOWS},
    "ernie4_5_moe": {
        **_GROUPED,
        "intermediate_size": 80,
        "moe_intermediate_size": 24,
        "moe_num_experts": 6,
        "moe_k": 2,
        "use_bias": True,
    },
    "mellum": {
        **_SIZES,
        **_EXPERTS,
        "num_experts": 6,
        **_WINDOWS,
        "mlp_layer_types": ["dense", "sparse", "sparse"],
    },
    "granite": _GRANITE,
    "granite_swa": {**_GRANITE, **_WINDOWS, "layer_rope_theta": [0, 10000.0, 5000.0]},
    "gemma": _SIZES,
    "gemma2": {**_GEMMA, "attn_logit_softcapping": 2.0},
    "gemma3_text": {**_GEMMA, **_WINDOWS},
    "olmo2": {"intermediate_size": 80, **_GROUPED, "attention_bias": True},
    "olmo3": {"intermediate_size": 80, **_GROUPED, "attention_bias": True, "sliding_window": 8},
    "exaone4": {**_SIZES, "sliding_window": 8, "sliding_window_pattern": 2},
    "smollm3": {**_SIZES, "no_rope_layer_interval": 2, "attention_bias": True, "mlp_bias": True},
    "ministral": {**_SIZES, "sliding_window": 8},
    "ministral3": {**_SIZES, "rope_parameters": _YARN},
    "cwm": {**_SIZES, "sliding_window": 8, "mlp_bias": True, "bos_token_id": 0},
    "helium": {**_SIZES, "attention_bias": True, "mlp_bias": True},
    "seed_oss": {**_SIZES, "attention_out_bias": True, "mlp_bias": True},
    "ernie4_5": {**_SIZES, "use_bias": True},
    "hunyuan_v1_dense": {**_SIZES, "attention_bias": True},
    "arcee": {**_SIZES, "attention_bias": True, "mlp_bias": True},
    "jais2": _SIZES,
    "starcoder2": {"intermediate_size": 80, **_GROUPED, "sliding_window": 8},
    "stablelm": {
        "intermediate_size": 80,
        **_GROUPED,
        "use_qkv_bias": True,
        "qk_layernorm": True,
        "partial_rotary_factor": 0.5,
    },
    "phi": {"intermediate_size": 80, **_GROUPED, "qk_layernorm": True, "partial_rotary_factor": 0.5},
    "gpt_neox": {"intermediate_size": 80, "rotary_pct": 0.5},
    "opt": {"ffn_dim": 80, "word_embed_proj_dim": 32},
}
"""What a tiny model's configuration says beside what all have; opt and gpt_neox know no grouped queries."""
WITH_EXPERTS = tuple(name for name, family in FAMILIES.items() if family.experts)
"""Families with a Mixture of Experts; a tiny model's first layer has a dense MLP where the family may have some."""
KINDS = (
    tuple(FAMILY_SETTINGS)
    if "WINA_LONG_TESTS" in os.environ
    else (
        *("llama", "phi3", "gemma2", "olmo2", "granite_swa", "smollm3", "starcoder2", "stablelm", "phi", "gpt_neox"),
        *("opt", "qwen3_moe", "mixtral", "gpt_oss", "glm4_moe", "qwen2_moe", "exaone_moe", "ernie4_5_moe"),
    )
)
"""One family for each way in which weights lie in files and a layer reads them; WINA_LONG_TESTS=1 takes all."""
FEW_KINDS = KINDS if "WINA_LONG_TESTS" in os.environ else ("llama", "phi3", "gemma2", "opt", "qwen3_moe", "gpt_oss")
"""Families with separate, fused and biased matrices, further norms, experts and stacked ones; at night all."""
EXACT_MODES = {
    **dict.fromkeys(FAMILY_SETTINGS, ("none", "global", "per_layer", "per_site")),
    **dict.fromkeys(("phi", "gpt_neox"), ("none", "global", "per_layer")),
    **dict.fromkeys(("gemma2", "gemma3_text", "olmo2", "olmo3", "exaone4"), ("none",)),
}
"""The rotations that must be exact for each family: no per_site where attention and MLP read the same point of the
stream, none but per head where their outputs pass a norm."""


def tiny_model(
    family: str = "llama",
    *,
    tied: bool = False,
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
    layers: int = 3,
    **settings: Any,
) -> "PreTrainedModel":
    """Hidden 32, 3 layers, 4 query heads on 2 key-value heads, all weights and biases random; `settings` go into the
    configuration, over the family's."""
    chosen = {"bos_token_id": None, **FAMILY_SETTINGS[family], **settings}
    config = AutoConfig.for_model(
        family,
        vocab_size=VOCABULARY,
        hidden_size=32,
        num_hidden_layers=layers,
        num_attention_heads=4,
        max_position_embeddings=512,
        tie_word_embeddings=tied,
        eos_token_id=256,
        pad_token_id=256,
        **{name: value[:layers] if isinstance(value, list) else value for name, value in chosen.items()},
    )
    model = AutoModelForCausalLM.from_config(config, dtype=dtype)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            if "norm" in name and not name.endswith("bias"):
                parameter.copy_((0.7 * noise).exp())
            elif parameter.ndim == 1:
                parameter.copy_(0.3 * noise)
            else:
                parameter.copy_(noise * parameter.shape[1] ** -0.5)
    if dtype == torch.float64:
        compute_norms_in_float64(model)
    return model.eval().requires_grad_(False)


def tiny_tokenizer(*, bos: bool = False) -> PreTrainedTokenizerFast:
    """One token a byte; with `bos`, the end-of-text token begins every text, as BOS."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {character: index for index, character in enumerate(alphabet)} | {"<|end|>": 256}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = {"eos_token": "<|end|>", "pad_token": "<|end|>"}
    if bos:
        special["bos_token"] = "<|end|>"
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<|end|> $A", pair="<|end|> $A $B", special_tokens=[("<|end|>", 256)]
        )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)


def tiny_loaded(family: str = "llama", **settings: Any) -> LoadedModel:
    """A tiny model as `load_model` would return it; `settings` are those of `tiny_model`."""
    model = tiny_model(family, **settings)
    return LoadedModel(ModelSource(location=f"tiny-{family}"), model, tiny_tokenizer(), view(model))


def tiny_folder(folder: Path, family: str = "llama", **settings: Any) -> Path:
    """A tiny model saved in the Hugging Face format; `settings` are those of `tiny_model`."""
    tiny_model(family, **settings).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


def tiny_text(folder: Path, text: str = TEXT) -> str:
    """A text file for a TextSpec's `source`; by default 2,720 tokens of the tiny tokenizer."""
    path = folder / "text.txt"
    path.write_text(text, encoding="utf-8")
    return str(path)


def tiny_tokens(rows: int = 2, length: int = 24, seed: int = 7) -> torch.Tensor:
    """Random token ids, int64 [rows, length]."""
    return torch.randint(0, 256, (rows, length), generator=torch.Generator().manual_seed(seed))
