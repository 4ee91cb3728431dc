"""GGUF files of transformers models, and llama.cpp's quantized versions of them.

Without a tokenizer: the files serve token ids, so that llama.cpp reads the very tokens that a model here reads. Needs
the optional extra `peers`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional

from wina_core.compute.gguf.llama_cpp_model import peer_package
from wina_core.errors import WinaError

if TYPE_CHECKING:
    from gguf import GGUFWriter

_ARCHITECTURES = {"llama": "llama", "mistral": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "phi3": "phi3"}
"""llama.cpp's architecture by transformers' `model_type`."""
_PAIRED = ("llama",)
"""Architectures whose rotary embedding turns neighbours (0, 1), (2, 3), ... instead of the halves of a head."""
_BLOCK = 256
"""Weights of a row that llama.cpp's k-quants store together."""


def write_gguf(model: Any, file: Path, dtype: torch.dtype = torch.float16) -> None:
    """Write a transformers model as GGUF, matrices in float16 or float32, vectors in float32.

    The MLP is padded with zeros to a multiple of 256, which changes no output: llama.cpp leaves rows of other lengths
    in more bits.

    Raises WinaError for an architecture that is not in the table, scaled rotary embeddings and missing packages.
    """
    gguf = peer_package("gguf")
    config = model.config
    if config.model_type not in _ARCHITECTURES:
        raise WinaError(
            f"There is no GGUF writer for models of type {config.model_type}; take one of {', '.join(_ARCHITECTURES)}."
        )
    rope = config.rope_parameters
    if rope.get("rope_type", "default") != "default":
        raise WinaError(f"There is no GGUF writer for rotary embeddings of type {rope['rope_type']}.")
    architecture = _ARCHITECTURES[config.model_type]
    writer = gguf.GGUFWriter(file, architecture)
    _add_sizes(writer, config, float(rope["rope_theta"]))
    names = gguf.get_tensor_name_map(
        next(key for key, name in gguf.MODEL_ARCH_NAMES.items() if name == architecture), config.num_hidden_layers
    )
    for name, tensor in _tensors(model).items():
        given = _padded(name, tensor.detach().float())
        if architecture in _PAIRED and name.split(".")[-2] in ("q_proj", "k_proj"):
            heads = config.num_attention_heads if "q_proj" in name else config.num_key_value_heads
            given = _neighbours(given, heads)
        target = names.get_name(name, try_suffixes=(".weight", ".bias"))
        writer.add_tensor(target, given.to(torch.float32 if given.dim() == 1 else dtype).contiguous().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def quantize_gguf(source: Path, target: Path, kind: str, threads: int = 2) -> None:
    """Write llama.cpp's quantization `kind`, such as Q4_K_M, of a GGUF file; raise WinaError where it fails."""
    llama_cpp = peer_package("llama_cpp")
    ftype = getattr(llama_cpp, f"LLAMA_FTYPE_MOSTLY_{kind}", None)
    if ftype is None:
        raise WinaError(f'llama.cpp has no quantization "{kind}"; take one such as Q8_0, Q4_0, Q4_K_M or Q3_K_M.')
    parameters = llama_cpp.llama_model_quantize_default_params()
    parameters.ftype, parameters.nthread = ftype, threads
    if llama_cpp.llama_model_quantize(str(source).encode(), str(target).encode(), parameters) != 0:
        raise WinaError(f"llama.cpp could not quantize {source} to {kind}.")


@dataclass(frozen=True)
class TensorStorage:
    """One tensor of a GGUF file."""

    name: str
    kind: str
    """Such as Q4_0."""
    weights: int
    bytes: int
    is_matrix: bool


def tensor_storage(file: Path, units: int) -> tuple[TensorStorage, ...]:
    """Return the storage of every tensor of a GGUF file, without the zeros that pad an MLP of `units` hidden units."""
    gguf = peer_package("gguf")
    found = []
    for each in gguf.GGUFReader(file).tensors:
        real = units / _multiple(units) if ".ffn_" in each.name and len(each.shape) > 1 else 1.0
        weights, stored = round(real * int(each.n_elements)), round(real * int(each.n_bytes))
        found.append(TensorStorage(str(each.name), each.tensor_type.name, weights, stored, len(each.shape) > 1))
    return tuple(found)


def _tensors(model: Any) -> dict[str, Tensor]:
    """Return the state dict without the head where it is the embedding: llama.cpp then takes that."""
    found = dict(model.state_dict())
    if model.get_output_embeddings().weight.data_ptr() == model.get_input_embeddings().weight.data_ptr():
        del found["lm_head.weight"]
    return found


def _add_sizes(writer: GGUFWriter, config: Any, theta: float) -> None:
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    writer.add_tokenizer_model("no_vocab")
    writer.add_vocab_size(config.vocab_size)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(_multiple(config.intermediate_size))
    writer.add_block_count(config.num_hidden_layers)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(head)
    writer.add_value_length(head)
    writer.add_rope_dimension_count(head)
    writer.add_rope_freq_base(theta)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)


def _padded(name: str, weight: Tensor) -> Tensor:
    """Return a matrix of the MLP with zeros for further hidden units; any other tensor as it is."""
    part = name.split(".")[-2]
    if part == "down_proj":
        return functional.pad(weight, (0, _multiple(weight.shape[1]) - weight.shape[1]))
    if part in ("gate_proj", "up_proj"):
        return functional.pad(weight, (0, 0, 0, _multiple(len(weight)) - len(weight)))
    if part == "gate_up_proj":
        return torch.cat([_padded("gate_proj.weight", half) for half in weight.chunk(2)])
    return weight


def _multiple(units: int) -> int:
    return -(-units // _BLOCK) * _BLOCK


def _neighbours(weight: Tensor, heads: int) -> Tensor:
    """Reorder rows so that halves of a head that turn together become neighbours."""
    halves = weight.view(heads, 2, weight.shape[0] // heads // 2, *weight.shape[1:])
    return halves.transpose(1, 2).reshape(weight.shape)
