"""Tiny random models and texts on which the oracle and the project are compared."""

import random
import string
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tests.released.recomputed import Shape, Weights, read_weights, shape_of
from tests.wina_core.tiny import tiny_loaded
from wina_core.compute.models.loading import LoadedModel
from wina_core.specs import TextSpec

MODELS = {
    "llama-mha": ("llama", {"num_key_value_heads": 4}),
    "llama-gqa": ("llama", {}),
    "qwen2-tied": ("qwen2", {"tied": True}),
    "phi3-fused": ("phi3", {}),
}
"""Name -> family and settings: 32 channels, 4 heads, biases in llama and qwen2, norm gains of exp(0.7 N(0, 1))."""


@dataclass
class Sample:
    """A loaded model and the oracle's view of the same weights, taken before the project changes them."""

    name: str
    loaded: LoadedModel
    weights: Weights
    shape: Shape
    calibrations: dict[Any, Any] = field(default_factory=dict)
    """What `readings.calibrated` has measured on this model."""

    def logits(self, ids: Tensor) -> Tensor:
        """Return the logits of the loaded model, float64 [rows, tokens, vocabulary]."""
        with torch.no_grad():
            return self.loaded.model(ids, use_cache=False).logits


def sample(name: str, layers: int = 2, seed: int = 0) -> Sample:
    """Build one of MODELS in float64."""
    family, settings = MODELS[name]
    loaded = tiny_loaded(family, dtype=torch.float64, layers=layers, seed=seed, **settings)
    shape = shape_of(loaded.model.config)
    return Sample(name, loaded, read_weights(loaded.model.state_dict(), shape), shape)


def random_text(folder: Path, tokens: int = 512, sequence: int = 64) -> TextSpec:
    """Write random characters, one token each, so that the inputs of the first layer have full rank."""
    path = folder / "random.txt"
    generator = random.Random(0)
    letters = string.ascii_letters + string.digits + string.punctuation
    path.write_text("".join(generator.choices(letters, k=2 * tokens + sequence)), encoding="utf-8")
    return TextSpec(source=str(path), tokens=tokens, sequence=sequence)


def difference(result: Tensor, expected: Tensor) -> float:
    """Return the largest difference relative to the largest expected value."""
    return float((result - expected).abs().max() / expected.abs().max())
