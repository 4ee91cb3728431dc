"""Tiny GGUF files of random models, written as llama.cpp's converter writes them."""

from pathlib import Path
from typing import Any

import gguf
import torch

from tests.wina_core.tiny import tiny_model, tiny_tokenizer
from wina_core.model_info.gguf_header import GGUF_FAMILIES

TEMPLATE = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"
_CONFIG = {
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "block_count": "num_hidden_layers",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.sliding_window": "sliding_window",
    "expert_count": "num_experts",
    "expert_used_count": "num_experts_per_tok",
    "expert_feed_forward_length": "moe_intermediate_size",
    "expert_shared_feed_forward_length": "shared_expert_intermediate_size",
    "vocab_size": "vocab_size",
}
_SETTINGS = {
    "llama": {"attention_bias": False, "mlp_bias": False},
    "gemma2": {
        "attn_logit_softcapping": 50.0,
        "final_logit_softcapping": 30.0,
        "query_pre_attn_scalar": 256,
        "layer_types": None,
    },
    "gemma3": {"final_logit_softcapping": None, "query_pre_attn_scalar": 256, "layer_types": None},
    "qwen3moe": {"mlp_only_layers": [], "norm_topk_prob": True},
}
"""Settings of which GGUF files say nothing, as transformers' defaults for them are."""


def gguf_model(architecture: str) -> Any:
    """The tiny model whose weights `tiny_gguf` writes."""
    rope = {} if architecture == "gemma3" else {"rope_parameters": {"rope_type": "default", "rope_theta": 5000.0}}
    settings = rope | _SETTINGS.get(architecture, {})
    return tiny_model(GGUF_FAMILIES[architecture], tied=True, layers=2, **settings)


def tiny_gguf(
    file: Path,
    architecture: str = "llama",
    kind: str = "F32",
    *,
    fields: dict[str, Any] | None = None,
    tensors: dict[str, torch.Tensor] | None = None,
) -> Path:
    """Write a model of 2 layers; matrices whose rows are whole blocks have the type `kind`, others F32.

    `fields` and `tensors` are added to its metadata and weights.
    """
    model = gguf_model(architecture)
    writer = gguf.GGUFWriter(file, architecture)
    _write_fields(writer, architecture, model.config)
    for key, value in (fields or {}).items():
        writer.add_key_value(key, value, _kind_of(value))
    names = gguf.get_tensor_name_map(_architecture(architecture), 2)
    for name, weight in {**_weights(model, architecture), **(tensors or {})}.items():
        stem, _, suffix = name.rpartition(".")
        mapped = names.get_name(stem)
        _write_tensor(writer, f"{mapped}.{suffix}" if mapped else name, weight, kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def _architecture(name: str) -> gguf.MODEL_ARCH:
    return next(key for key, value in gguf.MODEL_ARCH_NAMES.items() if value == name)


def _write_fields(writer: gguf.GGUFWriter, architecture: str, config: Any) -> None:
    writer.add_name("tiny")
    for key, name in _CONFIG.items():
        if (value := getattr(config, name, None)) is not None:
            writer.add_uint32(f"{architecture}.{key}", value)
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    writer.add_uint32(f"{architecture}.rope.dimension_count", head)
    writer.add_float32(f"{architecture}.rope.freq_base", _theta(config))
    writer.add_float32(f"{architecture}.attention.layer_norm_rms_epsilon", config.rms_norm_eps)
    vocabulary = tiny_tokenizer().get_vocab()
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(sorted(vocabulary, key=vocabulary.__getitem__))
    writer.add_token_types([3 if token == "<|end|>" else 1 for token in sorted(vocabulary, key=vocabulary.__getitem__)])
    writer.add_token_scores([0.0] * len(vocabulary))  # from which the merges come: none
    writer.add_eos_token_id(256)
    writer.add_pad_token_id(256)
    writer.add_unk_token_id(256)
    writer.add_chat_template(TEMPLATE)


def _theta(config: Any) -> float:
    """The base of rotary positions; of several, that of layers that attend to everything."""
    given = config.rope_parameters
    return float(given.get("full_attention", given)["rope_theta"])


def _weights(model: Any, architecture: str) -> dict[str, torch.Tensor]:
    """The weights under transformers' names, in llama.cpp's order of rows and with its norms."""
    config, weights = model.config, {}
    for name, weight in model.state_dict().items():
        if name == "lm_head.weight":
            continue
        if architecture == "llama" and (".q_proj." in name or ".k_proj." in name):
            heads = config.num_attention_heads if ".q_proj." in name else config.num_key_value_heads
            weight = weight.reshape(heads, 2, -1, *weight.shape[1:]).transpose(1, 2).reshape(weight.shape)
        if architecture in ("gemma2", "gemma3") and "norm.weight" in name:
            weight = weight + 1
        if name.endswith("experts.gate_up_proj"):
            stem = name.removesuffix("gate_up_proj")
            weights[f"{stem}gate_proj.weight"], weights[f"{stem}up_proj.weight"] = weight.chunk(2, dim=1)
            continue
        weights[f"{name}.weight" if name.endswith("experts.down_proj") else name] = weight
    return weights


def _write_tensor(writer: gguf.GGUFWriter, name: str, weight: torch.Tensor, kind: str) -> None:
    content, type_ = weight.contiguous().numpy(), gguf.GGMLQuantizationType[kind]
    block, _ = gguf.GGML_QUANT_SIZES[type_]
    if content.ndim == 1 or content.shape[-1] % block:
        type_ = gguf.GGMLQuantizationType.F32
    if type_ != gguf.GGMLQuantizationType.F32:
        content = gguf.quantize(content, type_)
    writer.add_tensor(name, content, raw_dtype=type_)


def _kind_of(value: object) -> gguf.GGUFValueType:
    return gguf.GGUFValueType.get_type(value)
