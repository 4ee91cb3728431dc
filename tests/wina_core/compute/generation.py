"""Greedy decoding by transformers' own loop."""

import torch

from wina_core.compute.models.loading import LoadedModel

PROMPT = torch.tensor([[72, 101, 108, 108, 111, 32, 119, 111, 114, 108, 100, 33]])


def generated(loaded: LoadedModel, tokens: int) -> list[int]:
    """Return the tokens that follow PROMPT, on the model's device."""
    prompt = PROMPT.to(loaded.device)
    options = {"do_sample": False, "min_new_tokens": tokens, "max_new_tokens": tokens, "pad_token_id": 0}
    out = loaded.model.generate(prompt, attention_mask=torch.ones_like(prompt), eos_token_id=None, **options)
    return out[0, PROMPT.shape[1] :].tolist()
