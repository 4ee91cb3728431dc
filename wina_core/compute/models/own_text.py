"""Text sampled from a model: a second domain to check a choice on."""

from typing import Any

import torch
from torch import Tensor
from transformers import GenerationConfig

from wina_core.compute.attributes import attributes
from wina_core.compute.models.finite import check_numbers
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.text_tokens import first_token

_SEED = 0


@torch.no_grad()
def write_own_text(loaded: LoadedModel, rows: int, length: int) -> Tensor:
    """Return rows of text sampled from the dense model at temperature 1, int64 [rows, length] on the CPU.

    The model is given BOS, or a random token where it has none; rows begin with it only if the tokenizer begins texts
    with it. Equal models write equal text on one machine. Raises WinaError for logits that are not numbers.
    """
    model: Any = loaded.model
    tokens, start = loaded.tokenizer, getattr(loaded.tokenizer, "bos_token_id", None)
    known = min(len(tokens), loaded.view.embedding.weight.shape[0])  # embeddings may have rows of no token
    generator = torch.Generator().manual_seed(_SEED)
    first = torch.randint(known, (rows, 1), generator=generator) if start is None else torch.full((rows, 1), start)
    check_numbers(model(first[:1].to(loaded.device), use_cache=False).logits)
    extra = int(first_token(tokens) is None)  # the prompt, which is no part of the text then
    settings = GenerationConfig(do_sample=True, temperature=1.0, top_k=0, top_p=1.0, pad_token_id=0)
    settings.min_new_tokens = settings.max_new_tokens = length - 1 + extra
    device = loaded.device
    with (
        attributes(model, generation_config=GenerationConfig()),  # the model's own would fill what is not set
        torch.random.fork_rng(devices=[device] if device.type == "cuda" else []),
    ):
        torch.manual_seed(_SEED)
        found: Tensor = model.generate(
            first.to(device), attention_mask=torch.ones_like(first, device=device), generation_config=settings
        )
    return found[:, extra:].cpu()
