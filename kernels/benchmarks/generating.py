"""Decoding by transformers' generate(), and the spread of measured speeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import StoppingCriteria, StoppingCriteriaList

from wina_core.compute.models.loading import LoadedModel


def generate(loaded: LoadedModel, prompt: Tensor, tokens: int, criteria: Sequence[StoppingCriteria] = ()) -> None:
    """Decode greedily so many tokens after a prompt [1, length]; `criteria` are called after each."""
    loaded.model.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        do_sample=False,
        min_new_tokens=tokens,
        max_new_tokens=tokens,
        pad_token_id=0,  # never used: there is one sequence
        stopping_criteria=StoppingCriteriaList(criteria),
    )


def spread(values: np.ndarray[Any, Any]) -> dict[str, float]:
    """Return median, p10 and p90."""
    p10, median, p90 = np.percentile(values, (10, 50, 90)).tolist()
    return {"median": median, "p10": p10, "p90": p90}
