"""Random Llamas of any size with the demo model's tokenizer, so that they can read its texts, and folders of models of
real size, written shard by shard, so that no more than one shard is in memory.

Input columns of folders have scales far from one, a few of them eight times as large, as trained models have. Seeds are
fixed.
"""

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, StoppingCriteria, StoppingCriteriaList

from wina_core.compute.models.architectures import view
from wina_core.compute.models.loading import LoadedModel
from wina_core.model_info.resolve import local_folder
from wina_core.specs import ModelSource

SHARD = 2**30
"""Maximum bytes of a shard, unless one tensor alone is larger."""


@dataclass(frozen=True)
class Size:
    """Sizes of a Llama."""

    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int

    @property
    def facts(self) -> dict[str, int]:
        return asdict(self)


TOY = Size(hidden=32, intermediate=64, layers=2, heads=4, kv_heads=2)


def llama(hidden: int, intermediate: int, layers: int, heads: int, kv_heads: int, vocabulary: int) -> dict[str, Any]:
    return {
        "model_type": "llama",
        "tie_word_embeddings": False,
        "max_position_embeddings": 4096,
        "hidden_size": hidden,
        "intermediate_size": intermediate,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "vocab_size": vocabulary,
    }


SHAPES: dict[str, dict[str, Any]] = {
    "toy": llama(64, 128, 4, 4, 2, 4096),
    "1.1b": llama(2048, 8192, 16, 32, 8, 32000),
    "6.9b": llama(4096, 11008, 32, 32, 32, 32000),
}
"""Configs by name: Llama-shaped of 1.1 and 6.9 billion parameters, and a toy."""


def random_llama(
    size: Size,
    dtype: torch.dtype = torch.float32,
    vocabulary: int | None = None,
    device: torch.device = torch.device("cpu"),  # noqa: B008 - a constant
) -> LoadedModel:
    """Return a random model like `load_model`'s, with norm gains far from one; the seed is fixed.

    `vocabulary` may exceed the tokenizer's, its default.
    """
    tokenizer = AutoTokenizer.from_pretrained(local_folder(ModelSource(location="demo")))
    config = AutoConfig.for_model(**llama(**size.facts, vocabulary=vocabulary or len(tokenizer)))
    torch.manual_seed(0)
    with device:
        model = AutoModelForCausalLM.from_config(config, dtype=dtype).eval().requires_grad_(False)
    for name, parameter in model.named_parameters():
        if "norm" in name:
            parameter.copy_((0.5 * torch.randn(parameter.shape)).exp())
        else:
            parameter.normal_(std=parameter.shape[1] ** -0.5)
    return LoadedModel(ModelSource(location="random-llama"), model, tokenizer, view(model))


def write_random_folder(shape: dict[str, Any], folder: Path) -> None:
    """Write a random model of a config in bfloat16; an interrupted folder has no index."""
    config = AutoConfig.for_model(**shape, dtype="bfloat16", architectures=None)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    config.architectures = [type(model).__name__]
    folder.mkdir(parents=True, exist_ok=True)
    generator = torch.Generator().manual_seed(0)
    shards = list(_shards(model.state_dict()))
    index: dict[str, str] = {}
    for number, names in enumerate(shards, 1):
        shard = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        tensors = {name: _random(name, model.state_dict()[name].shape, generator) for name in names}
        save_file(tensors, folder / shard, metadata={"format": "pt"})
        index |= dict.fromkeys(tensors, shard)
    config.save_pretrained(folder)
    tokenizer = local_folder(ModelSource(location="demo"))
    assert tokenizer is not None
    for file in tokenizer.glob("tokenizer*"):
        shutil.copy(file, folder)
    # The index comes last: a folder that has one is complete.
    size = sum(weight.numel() * 2 for weight in model.state_dict().values())
    text = json.dumps({"metadata": {"total_size": size}, "weight_map": index})
    (folder / "model.safetensors.index.json").write_text(text)


def _shards(weights: dict[str, Tensor]) -> Iterator[list[str]]:
    names: list[str] = []
    held = 0
    for name, weight in weights.items():
        if names and held + 2 * weight.numel() > SHARD:
            yield names
            names, held = [], 0
        names.append(name)
        held += 2 * weight.numel()
    yield names


def _random(name: str, shape: torch.Size, generator: torch.Generator) -> Tensor:
    if "norm" in name:
        return (0.5 * torch.randn(shape, generator=generator)).exp().bfloat16()
    weight = torch.empty(shape, dtype=torch.bfloat16).normal_(generator=generator, std=shape[-1] ** -0.5)
    if "embed" in name:
        return weight
    scales = (0.3 * torch.randn(shape[-1], generator=generator)).exp()
    scales[torch.randperm(shape[-1], generator=generator)[: max(1, shape[-1] // 256)]] *= 8
    # The scales keep a mean square of 1, so that outputs keep their size.
    return weight.mul_((scales * scales.square().mean().rsqrt()).bfloat16())


def generate(loaded: LoadedModel, prompt: Tensor, tokens: int, criteria: Sequence[StoppingCriteria] = ()) -> None:
    """Decode `tokens` tokens greedily after a prompt [1, length]; `criteria` are called after each."""
    loaded.model.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        do_sample=False,
        min_new_tokens=tokens,
        max_new_tokens=tokens,
        pad_token_id=0,  # never used: there is one sequence
        stopping_criteria=StoppingCriteriaList(criteria),
    )


@torch.no_grad()
def forward(loaded: LoadedModel, tokens: Tensor, logits: int = 0) -> None:
    """Pass rows of tokens [rows, length]; compute the logits of the last `logits` positions, 0 for all."""
    loaded.model(tokens, use_cache=False, logits_to_keep=logits)
