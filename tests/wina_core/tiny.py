"""Tiny random models of every supported family, with everything that makes rotation hard: grouped queries, norm
weights far from one, biases where the family has them."""

from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerFast

from wina_core.models.architectures import view
from wina_core.models.loading import LoadedModel
from wina_core.models.precision import compute_norms_in_float64
from wina_core.specs import ModelSource

VOCABULARY = 257  # the bytes, and an end-of-text token
TEXT = "The rows of a matrix that a sparse input leaves out are never read.\n" * 40


def tiny_model(
    family: str = "llama",
    *,
    tied: bool = False,
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
    layers: int = 3,
    **settings: Any,
) -> PreTrainedModel:
    """Hidden 32, 3 layers, 4 query heads on 2 key-value heads, all weights and biases random; `settings` go into the
    configuration."""
    config = AutoConfig.for_model(
        family,
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=80,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=512,
        tie_word_embeddings=tied,
        bos_token_id=None,
        eos_token_id=256,
        pad_token_id=256,
        **({"attention_bias": True, "mlp_bias": True} if family == "llama" else {}),
        **{"sliding_window": None, **settings},
    )
    model = AutoModelForCausalLM.from_config(config, dtype=dtype)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            if "norm" in name:
                parameter.copy_((0.7 * noise).exp())
            elif parameter.ndim == 1:
                parameter.copy_(0.3 * noise)
            else:
                parameter.copy_(noise * parameter.shape[1] ** -0.5)
    if dtype == torch.float64:
        compute_norms_in_float64(model)
    return model.eval().requires_grad_(False)


def tiny_tokenizer() -> PreTrainedTokenizerFast:
    """One token a byte."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {character: index for index, character in enumerate(alphabet)} | {"<|end|>": 256}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>", pad_token="<|end|>")


def tiny_loaded(
    family: str = "llama", *, tied: bool = False, dtype: torch.dtype = torch.float32, seed: int = 0, layers: int = 3
) -> LoadedModel:
    """A tiny model as `load_model` would return it."""
    model = tiny_model(family, tied=tied, dtype=dtype, seed=seed, layers=layers)
    return LoadedModel(ModelSource(location=f"tiny-{family}"), model, tiny_tokenizer(), view(model))


def tiny_folder(folder: Path, family: str = "llama", *, tied: bool = False, dtype: torch.dtype = torch.float32) -> Path:
    """A tiny model saved in the Hugging Face format."""
    tiny_model(family, tied=tied, dtype=dtype).save_pretrained(folder)
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
