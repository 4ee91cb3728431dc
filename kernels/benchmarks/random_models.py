"""Random Llamas of any size, with the demo model's tokenizer, so that they can read its texts."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from wina_core.compute.models.architectures import view
from wina_core.compute.models.loading import LoadedModel
from wina_core.model_info.resolve import local_folder
from wina_core.specs import ModelSource


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
        """Return the sizes for a comparison's setting."""
        return asdict(self)


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
    config = AutoConfig.for_model(
        "llama",
        vocab_size=vocabulary or len(tokenizer),
        hidden_size=size.hidden,
        intermediate_size=size.intermediate,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        num_key_value_heads=size.kv_heads,
        max_position_embeddings=2048,
        tie_word_embeddings=False,
    )
    torch.manual_seed(0)
    with device:
        model = AutoModelForCausalLM.from_config(config, dtype=dtype).eval().requires_grad_(False)
    for name, parameter in model.named_parameters():
        if "norm" in name:
            parameter.copy_((0.5 * torch.randn(parameter.shape)).exp())
        else:
            parameter.normal_(std=parameter.shape[1] ** -0.5)
    return LoadedModel(ModelSource(location="random-llama"), model, tokenizer, view(model))


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Set torch's number of threads within the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
