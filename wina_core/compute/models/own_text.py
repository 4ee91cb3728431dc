"""Text sampled from a model: a second domain to check a choice on."""

from typing import Any

import torch
from torch import Tensor
from transformers import GenerationConfig

from wina_core.compute.models.loading import LoadedModel

_SEED = 0


@torch.no_grad()
def write_own_text(loaded: LoadedModel, rows: int, length: int) -> Tensor:
    """Return rows of text sampled from the dense model at temperature 1, int64 [rows, length] on the CPU.

    Each begins with BOS, or with a random token where the model has none. Equal models write equal text on one machine.
    """
    model: Any = loaded.model
    generator = torch.Generator().manual_seed(_SEED)
    start = getattr(loaded.tokenizer, "bos_token_id", None)
    vocabulary = loaded.view.embedding.weight.shape[0]
    first = torch.randint(vocabulary, (rows, 1), generator=generator) if start is None else torch.full((rows, 1), start)
    settings = GenerationConfig(
        do_sample=True, temperature=1.0, top_k=0, top_p=1.0, repetition_penalty=1.0, pad_token_id=0, use_cache=True
    )
    settings.min_new_tokens = settings.max_new_tokens = length - 1
    device = loaded.device
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(_SEED)
        found: Tensor = model.generate(
            first.to(device), attention_mask=torch.ones_like(first, device=device), generation_config=settings
        )
    return found.cpu()
